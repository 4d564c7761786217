/**
 * Loads a CSV of orders, ours or anyone's, as a table that describes itself: which column is the date, which the sales,
 * what "last 7 days" means. A model, real or scripted, knows nothing of the table but that description.
 */
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PawlError } from '../core/errors.js';
import { loadTable } from '../tools/load-table.js';
import { pickColumns, quoteName } from './columns.js';
import { type CsvColumn, readCsv, toIdentifier } from './csv-table.js';

export interface LoadedTable {
  schema: string;
  table: string;
  rows: number;
  /** The column of a row's date, and the SQL expression of its sales. */
  date: string;
  sales: string;
  /** First and last day in the data, and the first of the last 7 days, as YYYY-MM-DD. */
  firstDay: string;
  lastDay: string;
  sinceDay: string;
}

/** The orders in the repository, made by generate-orders.ts. */
export const ordersCsv = fileURLToPath(new URL('../../data/orders.csv', import.meta.url));

/** Values listed in a column's description at most. */
const listed = 20;

export async function loadOrders(adminUrl: string, csvPath = ordersCsv, schema = 'shop'): Promise<LoadedTable> {
  const csv = await readCsv(csvPath);
  const picked = pickColumns(csv.columns);
  if ('missing' in picked) {
    const names = csv.columns.map(({ header, type }) => `${header} (${type})`).join(', ');
    throw new PawlError('invalid_input', `${csv.file} needs ${picked.missing}; its columns are ${names}.`);
  }
  const table = toIdentifier(basename(csvPath).replace(/\.[^.]*$/, ''));
  const loaded: LoadedTable = { schema, table, rows: csv.rows, ...picked, firstDay: '', lastDay: '', sinceDay: '' };
  await loadTable(adminUrl, {
    schema,
    name: table,
    replaces: '% rows loaded from %',
    columns: csv.columns.map((column) => ({ ...column, description: describeColumn(column) })),
    describe: async (ask) => {
      const day = `${quoteName(picked.date)}::date`;
      const [range] = await ask(
        `select min(${day})::text as first, max(${day})::text as last, (max(${day}) - 6)::text as since
         from ${quoteName(schema)}.${quoteName(table)}`,
      );
      loaded.firstDay = String(range?.first);
      loaded.lastDay = String(range?.last);
      loaded.sinceDay = String(range?.since);
      return describeTable(loaded, csv.file);
    },
  });
  return loaded;
}

function describeTable({ rows, date, sales, firstDay, lastDay, sinceDay }: LoadedTable, file: string): string {
  return (
    `${rows} rows loaded from ${file}, from ${firstDay} to ${lastDay}. The date of a row is ${quoteName(date)}; ` +
    `its sales are ${sales}. "Last 7 days" counts back from the newest date in the data, not from today: ` +
    `${sinceDay} to ${lastDay}, both included.`
  );
}

function describeColumn({ header, type, values }: CsvColumn): string {
  const different = new Set(values.filter((value) => value !== null));
  const named = `"${header}" in the file.`;
  if (type === 'text' && different.size > 0 && different.size <= listed && different.size < values.length) {
    return `${named} ${different.size} different values: ${[...different].sort().join(', ')}.`;
  }
  return `${named} Example: ${values.find((value) => value !== null) ?? 'none'}.`;
}
