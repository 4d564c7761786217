/**
 * The tasks, and what is true of their answers, computed from the orders by other code than the tools'. Three sets: twenty
 * mixed ones, of which five meet timeouts and three mislead to illegal arguments; eighteen reports; and one of five steps with
 * large results, on four spans. Next: reading.ts, which understands them.
 */
import { dayAfter, money, type Order } from './data.js';

export interface Task {
  set: 'mixed' | 'report' | 'large';
  text: string;
  /** Names and figures that a right answer holds, in any order. */
  truths: string[];
  /** The first day of a span that does not answer the first time. */
  cold?: string;
}

/** Whether an answer says all that is true: each name as a whole, and each figure, however many digits it is written with. */
export function isRight(task: Pick<Task, 'truths'>, answer: string): boolean {
  const text = answer.replaceAll(/(\d),(?=\d{3}\b)/g, '$1');
  const figures = [...text.matchAll(/(?<![\w.-])\d+(?:\.\d+)?(?![\w-]|\.\d)/g)].map(([figure]) => Number(figure));
  return task.truths.every((truth) => {
    if (/^\d+(\.\d+)?$/.test(truth)) return figures.some((figure) => Math.abs(figure - Number(truth)) < 0.005);
    const pattern = truth.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(`(?<!\\w)${pattern}(?!\\w)`).test(text);
  });
}

type Field = 'day' | 'region' | 'channel' | 'category' | 'product';
type Where = (order: Order) => boolean;

export function tasksOf(orders: readonly Order[]): Task[] {
  return [...mixedTasks(orders), ...reportTasks(orders), ...largeTasks(orders)];
}

const first = '2026-03-30';
const last = '2026-06-28';

function mixedTasks(orders: readonly Order[]): Task[] {
  const sum = (
    what: 'money' | 'pieces',
    word: string,
    field: Field,
    from: string,
    to: string,
    region?: string,
  ): Task => {
    const where = `${region === undefined ? '' : ` in ${region}`}`;
    const [best, value] = bestBy(orders, field, what, (order) => isIn(order, from, to, region));
    const text = `Sum the ${what} from ${from} to ${to} by ${word}${where}. Say which is the best, and its sum.`;
    return { set: 'mixed', text, truths: [best, value] };
  };
  const compare = (from: string, to: string, ...regions: string[]): Task => {
    const sums = regions.map((region) => sumOf(orders, (order) => isIn(order, from, to, region)));
    const text = `Compare ${regions.join(' and ')}, ${from} to ${to}, by day: what each made in all, and which is ahead.`;
    const ahead = regions[sums.indexOf(Math.max(...sums))] ?? '';
    return { set: 'mixed', text, truths: [...sums.map(money), `${ahead} is ahead`] };
  };
  const chain = (from: string, to: string): Task => {
    const within: Where = (order) => isIn(order, from, to);
    const [category, value] = bestBy(orders, 'category', 'money', within);
    const inside = bestBy(orders, 'product', 'money', (order) => within(order) && order.category === category);
    const text = `Sum the money from ${from} to ${to} by category, and the best of them by product. Say the best of both, and their sums.`;
    return { set: 'mixed', text, truths: [category, value, ...inside] };
  };
  const cold = (task: Task): Task => ({ ...task, cold: /\d{4}-\d\d-\d\d/.exec(task.text)?.[0] ?? '' });
  return [
    sum('money', 'day', 'day', '2026-06-01', '2026-06-14'),
    sum('money', 'channel', 'channel', '2026-05-04', '2026-05-31', 'West'),
    sum('money', 'product', 'product', '2026-04-06', '2026-04-26'),
    compare('2026-06-08', '2026-06-14', 'East', 'South'),
    compare('2026-05-11', '2026-05-17', 'North', 'West', 'South'),
    compare('2026-04-13', '2026-04-26', 'East', 'North'),
    compare('2026-06-15', '2026-06-21', 'East', 'North', 'South', 'West'),
    chain('2026-06-01', '2026-06-28'),
    chain('2026-05-01', '2026-05-31'),
    chain('2026-04-01', '2026-04-30'),
    listing(orders, 'mixed', [['largest order', '2026-06-16', '2026-06-16', 'West']]),
    listing(orders, 'mixed', [
      ['total', '2026-05-20', '2026-05-20', undefined],
      ['largest order', '2026-05-21', '2026-05-21', undefined],
    ]),
    // Too many days for one query:
    sum('money', 'channel', 'channel', first, last),
    sum('money', 'product', 'product', '2026-04-10', last),
    sum('money', 'region', 'region', first, '2026-06-15'),
    // Cold at the first query:
    cold(sum('money', 'category', 'category', '2026-04-07', '2026-05-05')),
    cold(sum('money', 'day', 'day', '2026-05-12', '2026-05-26', 'South')),
    // Words that are none of the schema's:
    sum('money', 'area', 'region', '2026-06-02', '2026-06-20'),
    sum('money', 'article', 'product', '2026-05-05', '2026-05-19'),
    sum('pieces', 'channel', 'channel', '2026-06-09', '2026-06-23'),
  ];
}

function reportTasks(orders: readonly Order[]): Task[] {
  const ends = ['2026-06-28', '2026-06-24', '2026-06-21', '2026-06-14', '2026-06-07', '2026-05-31', '2026-05-24'];
  const more = ['2026-05-17', '2026-05-10', '2026-05-03', '2026-04-26', '2026-04-19'];
  const regions: [string, string][] = [
    ...[['2026-06-28', 'North'] as [string, string], ['2026-06-28', 'West'] as [string, string]],
    ...[['2026-06-21', 'East'] as [string, string], ['2026-06-14', 'South'] as [string, string]],
    ...[['2026-05-31', 'West'] as [string, string], ['2026-05-17', 'North'] as [string, string]],
  ];
  const wanted: [string, string | undefined][] = [
    ...[...ends, ...more].map((end): [string, undefined] => [end, undefined]),
    ...regions,
  ];
  return wanted.map(([end, region]) => {
    const start = dayAfter(end, -6);
    const within =
      (from: string, to: string): Where =>
      (order) =>
        isIn(order, from, to, region);
    const [best, value] = bestBy(orders, 'day', 'money', within(start, end));
    const [category] = bestBy(orders, 'category', 'money', within(best, best));
    const sums = [within(start, end), within(dayAfter(start, -7), dayAfter(end, -7))].map((where) =>
      sumOf(orders, where),
    );
    const where = region === undefined ? '' : `, in ${region}`;
    const text = `Report on the last 7 days, ${start} to ${end}${where}: sum the orders by day and say how the 7 days before did, find the best day, see what sold most on it by category, and advise.`;
    return { set: 'report', text, truths: [...sums.map(money), best, value, category] };
  });
}

function largeTasks(orders: readonly Order[]): Task[] {
  return ['2026-06-08', '2026-05-18', '2026-04-20', '2026-04-06'].map((start) => {
    const spans = [0, 3, 6, 9, 12].map((days) => [dayAfter(start, days), dayAfter(start, days + 2)] as const);
    const wants = ['total', 'first order', 'largest order', 'total', 'largest order'];
    return listing(
      orders,
      'large',
      spans.map(([from, to], at) => [wants[at] ?? '', from, to, undefined]),
    );
  });
}

function listing(
  orders: readonly Order[],
  set: Task['set'],
  wanted: [what: string, from: string, to: string, region: string | undefined][],
): Task {
  const asked = wanted.map(
    ([what, from, to, region]) => `the ${what} of ${from} to ${to}${region === undefined ? '' : ` in ${region}`}`,
  );
  const steps = wanted.length > 2 ? ', one after the other' : '';
  const truths = wanted.flatMap(([what, from, to, region]) => {
    const within = orders.filter((order) => isIn(order, from, to, region));
    if (what === 'total') return [money(sumOf(within, () => true))];
    const one =
      what === 'first order' ? within[0] : within.reduce((most, order) => (order.cents > most.cents ? order : most));
    return one === undefined ? [] : [one.id, money(one.cents)];
  });
  return { set, text: `List orders and name ${asked.join('; ')}${steps}.`, truths };
}

function isIn(order: Order, from: string, to: string, region?: string): boolean {
  return order.day >= from && order.day <= to && (region === undefined || order.region === region);
}

function sumOf(orders: readonly Order[], where: Where): number {
  return orders.reduce((sum, order) => (where(order) ? sum + order.cents : sum), 0);
}

function bestBy(orders: readonly Order[], field: Field, what: 'money' | 'pieces', where: Where): [string, string] {
  const keys = [...new Set(orders.map((order) => order[field]))];
  const sums = keys.map((key) =>
    orders.reduce((sum, order) => {
      if (order[field] !== key || !where(order)) return sum;
      return sum + (what === 'money' ? order.cents : order.quantity);
    }, 0),
  );
  const most = Math.max(...sums);
  return [keys[sums.indexOf(most)] ?? '', what === 'money' ? money(most) : String(most)];
}
