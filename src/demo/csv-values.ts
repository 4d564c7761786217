/**
 * What the texts of a CSV column are: numbers, dates, or text. A column is what nine of ten of its values are, and the
 * others are then named as errors, so that one bad cell never turns a column of amounts into text unnoticed. Pure.
 */

export type ColumnType = 'integer' | 'bigint' | 'numeric' | 'date' | 'timestamp' | 'timestamptz' | 'text';

export interface Reading {
  type: ColumnType;
  /** Each value as Postgres takes it; null: empty; undefined: not of the column's type. */
  values: (string | null | undefined)[];
  /** What a value was expected to be, for an error. */
  expected: string;
}

const majority = 0.9;

export function readValues(texts: readonly string[]): Reading {
  const filled = texts.filter((text) => text !== '');
  for (const read of [asNumbers, asDates]) {
    const reading = read(texts);
    const good = reading.values.filter((value) => typeof value === 'string').length;
    if (filled.length > 0 && good >= filled.length * majority) return reading;
  }
  return { type: 'text', values: texts.map((text) => (text === '' ? null : text)), expected: 'text' };
}

const plain = /^-?(0|[1-9]\d*|[1-9]\d{0,2}(,\d{3})+)?(\.\d+)?$/;
const european = /^-?(0|[1-9]\d*|[1-9]\d{0,2}([. ]\d{3})+)(,\d+)?$/;

function asNumbers(texts: readonly string[]): Reading {
  const bare = texts.map(stripCurrency);
  // `1,5` or `1.234,56` somewhere: the comma is the decimal sign of the whole column.
  const comma =
    bare.some((text) => european.test(text) && /,(\d{1,2}|\d{4,})$/.test(text)) &&
    !bare.some((text) => /\.\d{1,2}$/.test(text));
  const values = bare.map((text) => {
    if (text === '') return null;
    if (comma) return european.test(text) ? text.replace(/[. ]/g, '').replace(',', '.') : undefined;
    return plain.test(text) && /\d/.test(text) ? text.replaceAll(',', '') : undefined;
  });
  const numbers = values.filter((value) => typeof value === 'string');
  const whole = numbers.every((value) => !value.includes('.') && value.length <= 18);
  const small = whole && numbers.every((value) => Math.abs(Number(value)) <= 2_147_483_647);
  return { type: small ? 'integer' : whole ? 'bigint' : 'numeric', values, expected: 'a number' };
}

function stripCurrency(text: string): string {
  const bare = text
    .replace(/[\u00a0\u202f]/g, ' ')
    .replace(/^(-?)\s*[$€£¥₹]\s*/u, '$1')
    .replace(/\s*[$€£¥₹元]$/u, '');
  return /^\(.+\)$/.test(bare) ? `-${bare.slice(1, -1)}` : bare;
}

const iso =
  /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ](\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?$/;
const local = /^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:[T ](\d{1,2}:\d{2}(?::\d{2})?))?$/;

function asDates(texts: readonly string[]): Reading {
  const dayFirst = isDayFirst(texts);
  let timed = false;
  let zoned = false;
  const values = texts.map((text) => {
    if (text === '') return null;
    const parts = iso.exec(text) ?? (dayFirst === null ? null : swap(local.exec(text), dayFirst));
    if (parts === null) return undefined;
    const [, year = '', month = '', day = '', time, zone] = parts;
    if (!isDay(Number(year), Number(month), Number(day))) return undefined;
    const date = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
    if (time === undefined) return date;
    if (!/^([01]?\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?$/.test(time)) return undefined;
    timed = true;
    zoned ||= zone !== undefined;
    return `${date} ${time}${zone ?? ''}`;
  });
  const type = zoned ? 'timestamptz' : timed ? 'timestamp' : 'date';
  return { type, values, expected: 'a date like 2026-06-28' };
}

/** Whether `03/04/2026` is the third of April here; null when the column does not tell. */
function isDayFirst(texts: readonly string[]): boolean | null {
  let first = 0;
  let second = 0;
  let dots = false;
  for (const text of texts) {
    const [, a, b] = local.exec(text) ?? [];
    first = Math.max(first, Number(a ?? 0));
    second = Math.max(second, Number(b ?? 0));
    dots ||= a !== undefined && text.includes('.');
  }
  if (first > 12 && second <= 12) return true;
  if (second > 12 && first <= 12) return false;
  return dots && second <= 12 ? true : null;
}

function swap(parts: RegExpExecArray | null, dayFirst: boolean): (string | undefined)[] | null {
  if (parts === null) return null;
  const [whole, a, b, year, time] = parts;
  return dayFirst ? [whole, year, b, a, time] : [whole, year, a, b, time];
}

function isDay(year: number, month: number, day: number): boolean {
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

/** Whether a column looks like dates that can be read two ways, `03/04/2026`. */
export function isAmbiguousDate(texts: readonly string[]): boolean {
  const filled = texts.filter((text) => text !== '');
  return filled.length > 0 && isDayFirst(filled) === null && filled.every((text) => local.test(text));
}
