/**
 * numbersFromTools: a `verify` for agents whose answers are made of figures. Every number of the answer has to stand in a
 * tool result, in the task or in what the run began with beside it, or to follow from there: rounded, as a percentage,
 * summed, counted, compared. A tool that said 0.25 founds 25 % and not 25. What is a number and what is a date or a list's
 * numbering: numerals.ts. Pure.
 */
import type { AnswerLook } from './agent.js';
import { claimsOf, type Numeral, readable, readNumerals } from './numerals.js';
import { wordsOf } from './words.js';

/** Numbers that belong together: the fields of a record, a column, a list. */
interface Group {
  numbers: Figure[];
}

interface Figure {
  value: number;
  /** Whether it is named or written as a percentage, so that 0.5 of it reads `0.5 %`. */
  isPercent: boolean;
}

/** What a number is, for the claims that may be made of it: an amount, one that a percentage may repeat, or a ratio. */
const amounts = 1;
const percents = 2;
const ratios = 4;

/** A range of numbers that founds a claim, and of which kinds they have to be. */
interface Target<Claim> {
  claim: Claim;
  low: number;
  high: number;
  kinds: number;
}

/** Claims, and the numbers they are held against, one at a time: of results of any size nothing is kept. */
class Ground<Claim extends Numeral> {
  private targets: Target<Claim>[];
  private readonly texts = new Set<string>();

  constructor(claims: readonly Claim[]) {
    this.targets = claims.flatMap(targetsOf);
  }

  /** Claims that nothing has founded so far. */
  open(): ReadonlySet<Claim> {
    return new Set(this.targets.map(({ claim }) => claim));
  }

  /** Whether a text was read already: tables repeat themselves. */
  hasRead(text: string): boolean {
    if (this.texts.has(text)) return true;
    this.texts.add(text);
    return false;
  }

  amount(value: number, isPercent = false): void {
    const size = Math.abs(value);
    this.meet(size, isPercent || size >= 1 ? amounts | percents : amounts);
    if (isPercent) this.meet(size / 100, amounts);
  }

  ratio(value: number): void {
    this.meet(Math.abs(value), ratios);
  }

  /** What can be made of two numbers; `isTold`: both stand in the answer, which then may also multiply them. */
  pair(a: number, b: number, isTold = false): void {
    this.amount(a + b);
    this.amount(a - b);
    this.amount((a + b) / 2);
    if (isTold) this.amount(a * b);
    // What is divided by 0 is no number, and founds none.
    for (const quotient of [a / b, b / a, a / b - 1, b / a - 1, a / (a + b), b / (a + b)]) this.ratio(quotient);
  }

  private meet(value: number, kinds: number): void {
    for (const { low, high, kinds: wanted, claim } of this.targets) {
      if (value >= low && value <= high && (wanted & kinds) !== 0)
        this.targets = this.targets.filter((target) => target.claim !== claim);
    }
  }
}

function targetsOf<Claim extends Numeral>(claim: Claim): Target<Claim>[] {
  const { value, unscaled, slack, ratio, unit } = claim;
  const target = (factor: number, kinds: number): Target<Claim> => {
    const near = slack * factor + value * factor * 1e-9 + 1e-12;
    return { claim, low: value * factor - near, high: value * factor + near, kinds };
  };
  if (ratio !== null) return [target(1, percents), target(ratio, amounts | ratios)];
  const sizes = { time: [0.001, 1, 60, 3_600, 86_400], data: [1, 1e3, 1024, 1e6, 1024 ** 2, 1e9, 1024 ** 3] };
  return [
    target(1, amounts | ratios),
    ...(unscaled === null ? [] : [target(unscaled / value, amounts)]),
    ...(unit === null ? [] : sizes[unit.kind].map((size) => target(unit.size / size, amounts))),
  ];
}

/** Numbers of a group that are compared each with each; of a longer one, neighbours and each with the whole. */
const mostPairs = 40;
/** Different values of a field by which records are summed up. */
const mostGroups = 400;
const shownNumbers = 10;

/**
 * Objects to an answer with numbers that no tool result, no part of the task, no fact and no earlier run of its thread founds;
 * for an agent's `verify`. It judges
 * digits, not words: "a quarter" passes. Numbers that a run may use besides, such as a tax rate of the instructions, are
 * given as part of the task: `(answer, look) => numbersFromTools(answer, { ...look, task: look.task + ' 19 %' })`.
 */
export function numbersFromTools(
  answer: unknown,
  { task, toolResults, known = [], language = 'en' }: AnswerLook,
): string | undefined {
  const claims = claimsIn(answer);
  if (claims.length === 0) return;
  const ground = new Ground(claims);
  layGround(ground, [task, ...known], toolResults);
  let open = [...ground.open()];
  for (let before = Number.POSITIVE_INFINITY; open.length > 0 && open.length < before; ) {
    before = open.length;
    const still = new Set(open);
    const founded = claims.filter((claim) => !still.has(claim));
    open = open.filter((claim) => !followsFromAnswer(claim, claims, founded));
  }
  if (open.length === 0) return;
  const shown = [...new Set(open.map(({ text }) => text))];
  return wordsOf(language).unfoundedNumbers(shown.slice(0, shownNumbers));
}

interface Claim extends Numeral {
  line: number;
}

function claimsIn(answer: unknown): Claim[] {
  if (typeof answer === 'string') return claimsInText(answer);
  const claims: Claim[] = [];
  walk(answer, '', (leaf, name) => {
    if (typeof leaf === 'string') claims.push(...claimsInText(leaf));
    else if (Number.isFinite(leaf)) {
      const [claim] = readNumerals(String(Math.abs(leaf)));
      if (claim !== undefined) claims.push({ ...claim, ratio: isPercentName(name) ? 0.01 : null, line: 0 });
    }
  });
  return claims;
}

function claimsInText(text: string): Claim[] {
  return claimsOf(text)
    .split('\n')
    .flatMap((line, index) => readNumerals(line).map((numeral) => ({ ...numeral, line: index })));
}

/** Whether a claim is made of founded ones near it, or sums up those right before or after it. */
function followsFromAnswer(claim: Claim, claims: readonly Claim[], founded: readonly Claim[]): boolean {
  const ground = new Ground([claim]);
  const near = founded.filter(({ line }) => Math.abs(line - claim.line) <= 1).slice(0, mostPairs);
  near.forEach((a, index) => {
    for (const b of near.slice(index + 1)) ground.pair(plainValue(a), plainValue(b), true);
  });
  const at = claims.indexOf(claim);
  const known = new Set(founded);
  for (const step of [-1, 1]) {
    let sum = 0;
    for (let index = at + step; ; index += step) {
      const other = claims[index];
      if (other === undefined || !known.has(other)) break;
      sum += other.value;
      ground.amount(sum);
    }
  }
  return ground.open().size === 0;
}

function plainValue({ value, ratio }: Claim): number {
  return ratio === null ? value : value * ratio;
}

/** Holds the claims against all that stands in the given texts and the results, and then against what follows from there. */
function layGround(ground: Ground<Claim>, given: readonly string[], toolResults: AnswerLook['toolResults']): void {
  const groups: Group[] = [];
  const alike: Alike = new Map();
  const read = (text: string, value: unknown, name: string) => {
    if (typeof value === 'object' && value !== null) collect(value, name, groups, ground, alike);
    else collectText(text, name, groups, ground, alike);
  };
  for (const [at, text] of given.entries()) read(text, parse(text), `given ${at}`);
  for (const { name, text, value } of toolResults) read(text, value, name);
  for (const group of [...groups, ...[...alike.values()].map((numbers) => ({ numbers }))]) {
    if (ground.open().size === 0) return;
    deriveFrom(group, ground);
  }
}

function deriveFrom({ numbers }: Group, ground: Ground<Claim>): void {
  const values = numbers.map(({ value }) => value);
  const [first] = values;
  if (first === undefined || values.length < 2) return;
  const sum = values.reduce((a, b) => a + b, 0);
  const sorted = [...values].sort((a, b) => a - b);
  const median = ((sorted[(values.length - 1) >> 1] ?? 0) + (sorted[values.length >> 1] ?? 0)) / 2;
  for (const amount of [sum, sum / values.length, median, (sorted.at(-1) ?? 0) - (sorted[0] ?? 0)])
    ground.amount(amount);
  for (const value of values) ground.ratio(value / sum);
  if (values.length <= mostPairs) {
    values.forEach((a, index) => {
      for (const b of values.slice(index + 1)) ground.pair(a, b);
    });
    return;
  }
  for (let index = 1; index < values.length; index++) ground.pair(values[index - 1] ?? 0, values[index] ?? 0);
}

type Alike = Map<string, Figure[]>;

/** Numbers at the same place of several results belong together as well: this month's total and the last one's. */
function noteAlike(alike: Alike, path: string, figure: Figure): void {
  const figures = alike.get(path);
  if (figures === undefined) alike.set(path, [figure]);
  else figures.push(figure);
}

function collect(value: object, path: string, groups: Group[], ground: Ground<Claim>, alike: Alike): void {
  const stack: { item: object; path: string }[] = [{ item: value, path }];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const { item } = top;
    const figures: Figure[] = [];
    for (const [key, child] of Object.entries(item)) {
      const isIndex = Array.isArray(item);
      const name = isIndex ? top.path : `${top.path}.${key}`;
      if (typeof child === 'object' && child !== null) stack.push({ item: child, path: name });
      else if (typeof child === 'string' || typeof child === 'number') {
        for (const figure of leafOf(child, name, ground)) {
          figures.push(figure);
          if (!isIndex) noteAlike(alike, name, figure);
        }
      }
      if (!isIndex) readText(key, ground);
    }
    groups.push({ numbers: figures });
    if (!Array.isArray(item)) continue;
    ground.amount(item.length);
    groups.push(...columnsOf(item, ground));
  }
}

/** The figures of a value that is one, and of a text those that stand in it. */
function leafOf(leaf: string | number, name: string, ground: Ground<Claim>): Figure[] {
  const isNumber = typeof leaf === 'number' || /^\s*-?\d+(?:\.\d+)?\s*$/.test(leaf);
  if (!isNumber) {
    readText(String(leaf), ground);
    return [];
  }
  const figure = { value: Number(leaf), isPercent: isPercentName(name) };
  ground.amount(figure.value, figure.isPercent);
  if (!/cents?$/i.test(name)) return [figure];
  ground.amount(figure.value / 100);
  return [figure, { value: figure.value / 100, isPercent: false }];
}

function isPercentName(name: string): boolean {
  return /percent|pct|百分|%/i.test(name);
}

/** Of rows, each column; and for each field that sorts them, how many rows and what sums each of its values has. */
function columnsOf(rows: readonly unknown[], ground: Ground<Claim>): Group[] {
  const records = rows.filter((row) => typeof row === 'object' && row !== null) as Record<string, unknown>[];
  if (records.length < 2) return [];
  const columns = new Map<string, number[]>();
  const labels = new Map<string, unknown[]>();
  for (const [index, record] of records.entries()) {
    for (const [key, field] of Object.entries(record)) {
      const number =
        typeof field === 'number'
          ? field
          : typeof field === 'string' && field.trim() !== ''
            ? Number(field)
            : Number.NaN;
      const isNumber = Number.isFinite(number);
      if (isNumber) (columns.get(key) ?? setTo(columns, key, [])).push(number);
      if (typeof field === 'string' || typeof field === 'boolean') {
        const label = typeof field === 'string' && /^\d{4}-\d{2}-\d{2}T/.test(field) ? field.slice(0, 10) : field;
        const byRow = labels.get(key) ?? setTo(labels, key, []);
        byRow[index] = label;
      }
    }
  }
  const found: Group[] = [...columns.values()].map((numbers) => ({ numbers: numbers.map(asFigure) }));
  for (const byRow of labels.values()) found.push(...summedBy(byRow, records, ground));
  return found;
}

function setTo<K, V>(map: Map<K, V>, key: K, value: V): V {
  map.set(key, value);
  return value;
}

function asFigure(value: number): Figure {
  return { value, isPercent: false };
}

function summedBy(
  labels: readonly unknown[],
  records: readonly Record<string, unknown>[],
  ground: Ground<Claim>,
): Group[] {
  const counts = new Map<unknown, number>();
  const sums = new Map<string, Map<unknown, number>>();
  for (const [index, record] of records.entries()) {
    const label = labels[index];
    if (label === undefined) continue;
    counts.set(label, (counts.get(label) ?? 0) + 1);
    if (counts.size > mostGroups) return [];
    for (const [key, field] of Object.entries(record)) {
      const number = typeof field === 'string' && field.trim() === '' ? Number.NaN : Number(field);
      if ((typeof field !== 'number' && typeof field !== 'string') || !Number.isFinite(number)) continue;
      const sum = sums.get(key) ?? setTo(sums, key, new Map<unknown, number>());
      sum.set(label, (sum.get(label) ?? 0) + number);
    }
  }
  if (counts.size === records.length) return [];
  const grouped = [counts, ...sums.values()].map((byLabel) => [...byLabel.entries()]);
  for (const [label, sum] of grouped.flat()) {
    ground.amount(sum);
    ground.amount(sum / (counts.get(label) ?? 1));
  }
  return grouped.map((entries) => ({ numbers: entries.map(([, sum]) => asFigure(sum)) }));
}

/** The numbers of a text; those of a line are a record, and lines with equally many numbers make columns. */
function collectText(text: string, name: string, groups: Group[], ground: Ground<Claim>, alike: Alike): void {
  readText(text, ground);
  let rows: number[][] = [];
  const endTable = () => {
    for (let column = 0; rows.length > 1 && column < (rows[0]?.length ?? 0); column++) {
      groups.push({ numbers: rows.map((row) => asFigure(row[column] ?? 0)) });
    }
    if (rows.length > 1) ground.amount(rows.length);
    rows = [];
  };
  for (const line of claimsOf(text).split('\n')) {
    const numbers = readNumerals(line).map(({ value }) => value);
    if (numbers.length === 0) continue;
    if (rows[0]?.length !== numbers.length) endTable();
    rows.push(numbers);
    groups.push({ numbers: numbers.map(asFigure) });
    numbers.forEach((value, index) => {
      noteAlike(alike, `${name}#${numbers.length}.${index}`, asFigure(value));
    });
  }
  endTable();
}

/** Whatever digits a text holds may be repeated, those of dates and names included. */
function readText(text: string, ground: Ground<Claim>): void {
  if (!/\d/.test(text) || ground.hasRead(text)) return;
  const ready = readable(text);
  for (const { value, unscaled, ratio } of readNumerals(ready)) {
    ground.amount(value, ratio === 0.01);
    if (unscaled !== null) ground.amount(unscaled);
  }
}

function walk(value: unknown, name: string, see: (leaf: string | number, name: string) => void): void {
  const stack: { item: unknown; name: string }[] = [{ item: value, name }];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const { item } = top;
    if (typeof item === 'string' || typeof item === 'number') see(item, top.name);
    if (typeof item !== 'object' || item === null) continue;
    const children = Object.entries(item).map(([key, child]) => ({ item: child, name: key }));
    stack.push(...children.reverse());
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
