/**
 * The two tools of every task, as plain functions with a zod schema each, so that both sides wrap the same. Their warehouse
 * has two faults: a query over too many days never answers, and a cold part of the data does not answer the first time.
 */
import { z } from 'zod';
import { daysOf, money, type Order } from './data.js';

/** A query that spans more days than this never answers, whoever asks and however often. */
export const widestDays = 60;
/** How long both sides let a tool take. Real warehouses are given minutes; what follows from a timeout is the same. */
export const toolTimeoutMs = 1_000;

const day = z.string().regex(/^\d{4}-\d\d-\d\d$/);
const region = z.enum(['North', 'South', 'East', 'West']).optional().describe('Only the orders of this region');

export const queryInput = z.object({
  from: day.describe('The first day, as YYYY-MM-DD'),
  to: day.describe('The last day, as YYYY-MM-DD'),
  group_by: z.enum(['day', 'region', 'channel', 'category', 'product']),
  measure: z.enum(['amount', 'quantity']).describe('What is summed: money, or pieces'),
  region,
  category: z.string().optional().describe('Only the orders of this category'),
});

export const listInput = z.object({
  from: day.describe('The first day, as YYYY-MM-DD'),
  to: day.describe('The last day, as YYYY-MM-DD'),
  region,
  sort_by: z.enum(['order_id', 'amount']).optional().describe('amount: the largest first; else by number'),
  limit: z.number().int().min(1).max(10_000).optional().describe('Rows listed at most; left out: all'),
});

export type QueryArgs = z.infer<typeof queryInput>;
export type ListArgs = z.infer<typeof listInput>;

export const queryDescription = 'Sums the orders of a span of days by one field. Returns {"rows":[{"key","value"}]}.';
export const listDescription =
  'Lists the orders of a span of days as CSV. The last line gives their number and the sum of their amounts, those not listed included.';

/** The warehouse during the runs of one side: what is cold there warms up once it was asked for. */
export class Warehouse {
  readonly #orders: readonly Order[];
  readonly #cold: Set<string>;

  /** `cold`: first days of spans that do not answer the first time. */
  constructor(orders: readonly Order[], cold: readonly string[]) {
    this.#orders = orders;
    this.#cold = new Set(cold);
  }

  async query(args: QueryArgs, signal: AbortSignal): Promise<string> {
    if (this.#cold.delete(args.from) || daysOf(args.from, args.to) > widestDays) return never(signal);
    const sums = new Map<string, number>();
    for (const order of this.#within(args)) {
      if (args.category !== undefined && order.category !== args.category) continue;
      const value = args.measure === 'amount' ? order.cents : order.quantity;
      sums.set(order[args.group_by], (sums.get(order[args.group_by]) ?? 0) + value);
    }
    const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
    const value = (sum: number) => (args.measure === 'amount' ? Number(money(sum)) : sum);
    return JSON.stringify({ rows: rows.map(([key, sum]) => ({ key, value: value(sum) })) });
  }

  async list(args: ListArgs, signal: AbortSignal): Promise<string> {
    if (daysOf(args.from, args.to) > widestDays) return never(signal);
    const found = [...this.#within(args)];
    if (args.sort_by === 'amount') found.sort((a, b) => b.cents - a.cents);
    const lines = found.slice(0, args.limit).map(lineOf);
    const sum = found.reduce((total, order) => total + order.cents, 0);
    return [listHead, ...lines, `total: ${found.length} orders, amount ${money(sum)}`].join('\n');
  }

  #within({ from, to, region }: { from: string; to: string; region?: string | undefined }): Order[] {
    return this.#orders.filter(
      (order) => order.day >= from && order.day <= to && (region === undefined || order.region === region),
    );
  }
}

const listHead = 'order_id,day,region,channel,category,product,quantity,amount';

function lineOf({ id, day, region, channel, category, product, quantity, cents }: Order): string {
  return [id, day, region, channel, category, JSON.stringify(product), quantity, money(cents)].join(',');
}

function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
