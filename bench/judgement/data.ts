/** The orders that every task is about: data/orders.csv as rows. Next: tools.ts, which queries them, and tasks.ts. */
import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';

export interface Order {
  id: string;
  day: string;
  region: string;
  channel: string;
  category: string;
  product: string;
  quantity: number;
  /** In cents: sums stay exact. */
  cents: number;
}

export function loadOrders(): Order[] {
  const text = readFileSync(new URL('../../data/orders.csv', import.meta.url), 'utf8');
  const rows = parse(text, { columns: true }) as Record<string, string>[];
  return rows.flatMap(({ order_id, ordered_at, region, channel, category, product, quantity, amount }) => {
    const cents = Math.round(Number(amount) * 100);
    const whole = order_id && ordered_at && region && channel && category && product && amount && quantity;
    if (!whole || !Number.isFinite(cents) || !/^\d{4}-\d\d-\d\d$/.test(ordered_at)) return [];
    return [{ id: order_id, day: ordered_at, region, channel, category, product, quantity: Number(quantity), cents }];
  });
}

export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/** Days from the first to the last, both counted. */
export function daysOf(from: string, to: string): number {
  return (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / 86_400_000 + 1;
}

export function money(cents: number): string {
  return (cents / 100).toFixed(2);
}
