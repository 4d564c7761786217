/**
 * Makes data/orders.csv: thirteen weeks of orders of a shop for office things. The same bytes each time, from a seed, so
 * that anyone can check where the numbers come from. Run by `npm run demo:data`, which prints the CSV.
 */
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const days = 91;
const lastDay = Date.UTC(2026, 5, 28);
const dayMs = 86_400_000;

/** Orders by weekday, Sunday first: a shop that offices buy from is quiet at weekends. */
const weekday = [0.35, 1.1, 1.2, 1.15, 1.05, 0.95, 0.45];
const regions = [
  ['North', 0.28],
  ['South', 0.22],
  ['East', 0.17],
  ['West', 0.33],
] as const;
const channels = [
  ['web', 0.55],
  ['app', 0.2],
  ['phone', 0.1],
  ['partner', 0.15],
] as const;
const products = [
  ['Paper A4, 500 sheets', 'Paper', 5.9, 0.24],
  ['Notebook, ruled', 'Paper', 3.4, 0.17],
  ['Gel pen, box of 12', 'Writing', 11.8, 0.15],
  ['Whiteboard marker set', 'Writing', 9.5, 0.1],
  ['Desk lamp "Lumen"', 'Furniture', 48, 0.06],
  ['Office chair', 'Furniture', 189, 0.05],
  ['Standing desk', 'Furniture', 420, 0.02],
  ['Monitor 27"', 'Electronics', 239, 0.05],
  ['USB-C dock', 'Electronics', 129, 0.07],
  ['Headset', 'Electronics', 79, 0.09],
] as const;

/** Mulberry32: small, fast and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function pick<Row extends readonly [...unknown[], number]>(random: () => number, rows: readonly Row[]): Row {
  let left = random() * rows.reduce((sum, row) => sum + (row.at(-1) as number), 0);
  for (const row of rows) {
    left -= row.at(-1) as number;
    if (left < 0) return row;
  }
  return rows[0] as Row;
}

const quote = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const money = (cents: number) => (cents / 100).toFixed(2);

/** The whole CSV, ending in a line break. */
export function generateOrders(seed = 20_260_628): string {
  const random = randomFrom(seed);
  const lines = ['order_id,ordered_at,region,channel,category,product,quantity,unit_price,amount'];
  let id = 100_000;
  for (let day = 0; day < days; day++) {
    const date = new Date(lastDay - (days - 1 - day) * dayMs);
    const trend = 0.85 + (0.35 * day) / days;
    // Some days are simply better than others; the best one of a week is not always the same weekday.
    const mood = 0.8 + 0.4 * random();
    const orders = Math.round(62 * (weekday[date.getUTCDay()] ?? 1) * trend * mood);
    for (let n = 0; n < orders; n++) {
      id += 1 + Math.floor(random() * 3);
      const [product, category, price] = pick(random, products);
      const [region] = pick(random, regions);
      const [channel] = pick(random, channels);
      const quantity = price > 100 ? 1 + Math.floor(random() * 2.2) : 1 + Math.floor(random() ** 2 * 24);
      const cents = Math.round(price * 100 * (quantity >= 10 ? 0.95 : 1));
      const row = [id, date.toISOString().slice(0, 10), region, channel, category, quote(product), quantity];
      lines.push([...row, money(cents), money(cents * quantity)].join(','));
    }
  }
  return `${lines.join('\n')}\n`;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.stdout.write(generateOrders());
}
