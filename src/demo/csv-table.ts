/**
 * Reads anyone's CSV file into typed columns: UTF-8 or UTF-16, comma, semicolon, tab or bar, quoted or not. What cannot be
 * read is one error that names the line and the column.
 */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { CsvError, parse } from 'csv-parse/sync';
import { PawlError } from '../core/errors.js';
import { type ColumnType, isAmbiguousDate, readValues } from './csv-values.js';

export interface CsvColumn {
  /** Name in SQL: lower case, letters, digits and `_`. */
  name: string;
  /** Name in the file. */
  header: string;
  type: ColumnType;
  values: (string | null)[];
}

export interface CsvTable {
  file: string;
  columns: CsvColumn[];
  rows: number;
}

const maxBytes = 200_000_000;

export async function readCsv(path: string): Promise<CsvTable> {
  const file = basename(path);
  const bytes = await readFile(path).catch((error: unknown) => {
    throw new PawlError('invalid_input', `${path} cannot be read: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  });
  if (bytes.length > maxBytes) fail(file, `is larger than ${maxBytes / 1_000_000} MB`);
  return readCsvText(decode(bytes, file), file);
}

export function readCsvText(text: string, file: string): CsvTable {
  const [head, ...records] = parseRecords(text, file);
  if (head === undefined) fail(file, 'is empty: its first line must name the columns');
  if (records.length === 0) fail(file, 'has no rows below the line of column names');
  const names = nameColumns(head.record, file);
  const columns = head.record.map((header, i): CsvColumn => {
    const texts = records.map(({ record }) => record[i] ?? '');
    if (isAmbiguousDate(texts)) {
      fail(
        file,
        `column "${header}": ${texts.find((t) => t !== '')} can be read two ways; write dates like 2026-06-28`,
      );
    }
    const { type, values, expected } = readValues(texts);
    const good = values.map((value, row) => {
      const line = records[row]?.line;
      if (value === undefined)
        fail(file, `line ${line}, column "${header}": ${JSON.stringify(texts[row])} is not ${expected}`);
      if (value?.includes('\0')) fail(file, `line ${line}, column "${header}" holds a NUL character`);
      return value;
    });
    return { name: names[i] ?? '', header, type, values: good };
  });
  return { file, columns, rows: records.length };
}

interface CsvRecord {
  record: string[];
  /** Line of the file on which the record ends. */
  line: number;
}

function parseRecords(text: string, file: string): CsvRecord[] {
  try {
    const parsed: unknown = parse(text, {
      bom: true,
      delimiter: findDelimiter(text),
      info: true,
      trim: true,
      skip_empty_lines: true,
    });
    // With `info`, each record comes wrapped; the package's types do not say so.
    const wrapped = parsed as { record: string[]; info: { lines: number } }[];
    return wrapped.map(({ record, info }) => ({ record, line: info.lines }));
  } catch (error) {
    if (error instanceof CsvError) fail(file, `cannot be read as CSV: ${error.message}`);
    throw error;
  }
}

function findDelimiter(text: string): string {
  const head = (/^\uFEFF?\s*([^\r\n]*)/.exec(text)?.[1] ?? '').replace(/"[^"]*"/g, '');
  const count = (sign: string) => head.split(sign).length;
  return [',', ';', '\t', '|'].reduce((best, sign) => (count(sign) > count(best) ? sign : best));
}

function decode(bytes: Buffer, file: string): string {
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
  try {
    return new TextDecoder(utf16 ? 'utf-16le' : 'utf-8', { fatal: true }).decode(bytes);
  } catch {
    return fail(file, 'is not UTF-8; save it as UTF-8');
  }
}

function nameColumns(headers: string[], file: string): string[] {
  const seen = new Map<string, string>();
  return headers.map((header, i) => {
    if (header === '') fail(file, `line 1: column ${i + 1} has no name`);
    const name = toIdentifier(header);
    const other = seen.get(name);
    if (other !== undefined) fail(file, `line 1: columns "${other}" and "${header}" have the same name`);
    seen.set(name, header);
    return name;
  });
}

/** A name as SQL takes it: `Order Date` and `orderDate` become `order_date`. */
export function toIdentifier(header: string): string {
  let name = header
    .normalize('NFC')
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1_$2')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_]+/gu, '_')
    .replace(/^_+|_+$/g, '');
  if (!/^\p{L}/u.test(name)) name = `c_${name}`;
  while (Buffer.byteLength(name) > 60) name = [...name].slice(0, -1).join('');
  return name;
}

function fail(file: string, problem: string): never {
  throw new PawlError('invalid_input', `${file} ${problem}.`);
}
