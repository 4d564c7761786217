/**
 * What the scripted model understands: the task, as things it needs to know, and the words of an observation. It knows the
 * shapes of the tasks and how such data look, and nothing of the orders or of who asks. Next: model.ts.
 */

export interface Need {
  id: string;
  tool: 'query_orders' | 'list_orders';
  args: Record<string, string | number>;
  /** An argument for which the task has a word that the schema has not; null: the task does not name it. */
  misled?: { field: string; word: string | null };
  /** Of a listing: what is looked for. */
  wants?: 'largest' | 'total' | 'first';
}

/** Sums by key, or the fields that were looked for. */
export type Found = { sums: Map<string, number> } | { line: string; amount: string };

/** What is known so far, by need. */
export type Known = ReadonlyMap<string, Found>;

const span = '(\\d{4}-\\d\\d-\\d\\d) to (\\d{4}-\\d\\d-\\d\\d)';
const fields: Record<string, string> = {
  ...{ day: 'day', region: 'region', channel: 'channel', category: 'category', product: 'product' },
  ...{ area: 'region', article: 'product' },
};

/** What the task needs as far as can be told from what is known; null: it is not understood. */
export function needsOf(task: string, known: Known): Need[] | null {
  return report(task, known) ?? compare(task) ?? sum(task, known) ?? listings(task);
}

function query(id: string, from: string, to: string, groupBy: string, rest: Record<string, string> = {}): Need {
  return { id, tool: 'query_orders', args: { from, to, group_by: groupBy, measure: 'amount', ...rest } };
}

function report(task: string, known: Known): Need[] | null {
  const found = new RegExp(`^Report on the last 7 days, ${span}(?:, in (\\w+))?`).exec(task);
  if (found === null) return null;
  const [, from = '', to = '', region] = found;
  const where: Record<string, string> = region === undefined ? {} : { region };
  const needs = [query('week', from, to, 'day', where), query('before', shift(from, -7), shift(to, -7), 'day', where)];
  const best = bestOf(known.get('week'));
  return best === null ? needs : [...needs, query('best', best, best, 'category', where)];
}

function compare(task: string): Need[] | null {
  const found = new RegExp(`^Compare (.+?), ${span}`).exec(task);
  if (found === null) return null;
  const [, names = '', from = '', to = ''] = found;
  return names.split(/, | and /).map((region) => query(region, from, to, 'day', { region }));
}

function sum(task: string, known: Known): Need[] | null {
  const found = new RegExp(`^Sum the (\\w+) from ${span} by (\\w+)(?: in (\\w+))?(, and the best)?`).exec(task);
  if (found === null) return null;
  const [, what = '', from = '', to = '', word = '', region, chained] = found;
  const field = fields[word] ?? word;
  const need = query('sum', from, to, field, region === undefined ? {} : { region });
  if (what === 'pieces') need.args.measure = 'quantity';
  if (what === 'pieces') need.misled = { field: 'measure', word: null };
  if (field !== word) need.misled = { field: 'group_by', word };
  const best = bestOf(known.get('sum'));
  if (chained === undefined || best === null) return [need];
  return [need, query('best', from, to, 'product', { category: best })];
}

function listings(task: string): Need[] | null {
  const found = [...task.matchAll(new RegExp(`the (largest order|total|first order) of ${span}(?: in (\\w+))?`, 'g'))];
  if (found.length === 0) return null;
  return found.map(([, what = '', from = '', to = '', region], at) => ({
    id: `list${at}`,
    tool: 'list_orders',
    args: { from, to, ...(region === undefined ? {} : { region }) },
    wants: what === 'total' ? 'total' : what === 'first order' ? 'first' : 'largest',
  }));
}

function shift(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/** A span in two halves; one day is not divided. */
export function halves(need: Need): Need[] {
  const [from, to] = [String(need.args.from), String(need.args.to)];
  if (from === to) return [need];
  const days = (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / 86_400_000 + 1;
  const middle = shift(from, Math.ceil(days / 2) - 1);
  return [
    { ...need, id: `${need.id}.1`, args: { ...need.args, to: middle } },
    { ...need, id: `${need.id}.2`, args: { ...need.args, from: shift(middle, 1) } },
  ];
}

export function bestOf(found: Found | undefined): string | null {
  if (found === undefined || !('sums' in found) || found.sums.size === 0) return null;
  return [...found.sums].reduce((best, next) => (next[1] > best[1] ? next : best))[0];
}

/** The sums of a result; null: the text is no such result. */
export function readSums(text: string): Map<string, number> | null {
  try {
    const { rows } = JSON.parse(text) as { rows?: { key: string; value: number }[] };
    return Array.isArray(rows) ? new Map(rows.map(({ key, value }) => [key, value])) : null;
  } catch {
    return null;
  }
}

/** The lines of a listing, as far as they are there; null: the text is none. */
export function readListing(text: string): { lines: string[]; total: string | null; isCut: boolean } | null {
  const all = text.split('\n');
  if (!all[0]?.startsWith('order_id,')) return null;
  const total = all.findLast((line) => line.startsWith('total: ')) ?? null;
  const lines = all.filter((line) => /^\d+,\d{4}-\d\d-\d\d,.*,\d+\.\d\d$/.test(line));
  const isCut = total === null || all.slice(1).some((line) => line !== total && line !== '' && !lines.includes(line));
  return { lines, total, isCut };
}

export const totalLine = /total: \d+ orders, amount [\d.]+/;

/** What a need is known by wherever it is noted. */
export function keyOf({ args, wants }: Need): string {
  return JSON.stringify([Object.entries(args).sort(), wants ?? null]);
}

/** A need and what was found, as the model notes it for itself. */
export function noteOf(need: Need, found: Found): string {
  return `noted: ${keyOf(need)} = ${JSON.stringify('sums' in found ? [...found.sums] : found)}`;
}

export function readNotes(text: string): Map<string, Found> {
  const notes = text.matchAll(/^.*?noted: (\[.*?\]) = ([[{].*[\]}])\s*$/gm);
  return new Map(
    [...notes].map(([, key = '', value = '']) => {
      const found = JSON.parse(value) as [string, number][] | Exclude<Found, { sums: unknown }>;
      return [key, Array.isArray(found) ? { sums: new Map(found) } : found];
    }),
  );
}

export function amountOf(line: string): number {
  return Number(/([\d.]+)$/.exec(line)?.[1] ?? Number.NaN);
}

/** What an observation that is no result says, by general signs: it may come from anyone and in any words. */
export function readObservation(text: string, fieldNames: readonly string[]) {
  const has = (pattern: RegExp) => pattern.test(text);
  return {
    isFailure: has(
      /\b(error|fail(ed|ure|s)?|invalid|refused|denied|exception|abort(ed)?|tim(ed|e) ?-?out|timeout|not (called|executed|found|answer|exist))\b|did not|there is no|超时|失败|未/i,
    ),
    isTimeout: has(/time ?-?d? ?out|timeout|did not answer|too long|took longer|deadline|超时|没有返回/i),
    isUnknownTool: has(/no (such )?tool|tool .{0,80}(not found|unknown|does not exist)|unknown tool|没有名为/i),
    isAboutArguments: has(/schema|invalid|expected|required|missing|参数不/i),
    namesField: fieldNames.some((field) => has(new RegExp(`\\b${field}\\b`))),
    saysExpected: has(/expected|one of|must be|should be|allowed|required|应为/i),
    saysToNarrow: has(
      /\b(narrow|smaller|shorter|fewer|less|split|reduce|limit the|other arguments|different (arguments|parameters|query)|another way)\b|缩小|换参数/i,
    ),
    listsTools: has(/query_orders.*list_orders|list_orders.*query_orders/s),
  };
}
