/**
 * The queries of the scripted analyst, and how it reads their answers. Each query opens with a comment that says what it
 * is for, by which a later turn finds its answer again. Pure.
 */
import { pickColumns, quoteName, type SalesColumns } from './columns.js';

const purposes = { tables: 'tables and columns', days: 'sales by day', groups: 'sales by group' } as const;
export type Purpose = keyof typeof purposes;

export const purposeOf = (query: unknown): Purpose | undefined =>
  (Object.keys(purposes) as Purpose[]).find(
    (key) => typeof query === 'string' && query.startsWith(`-- ${purposes[key]}\n`),
  );

/** `tried`: times it was asked before; then with shorter descriptions, as a long answer may have been cut. */
export const tablesQuery = (tried: number) => `-- ${purposes.tables}
select c.table_name, obj_description(r.oid, 'pg_class') as table_description,
  c.column_name, c.data_type,
  left(col_description(r.oid, c.ordinal_position::int), ${tried === 0 ? 400 : 60}) as column_description
from information_schema.columns c
join pg_class r on r.oid = format('%I.%I', c.table_schema, c.table_name)::regclass
where c.table_schema = current_schema()
order by c.table_name, c.ordinal_position`;

export interface SalesTable extends SalesColumns {
  table: string;
  /** A column of few values to compare by, where there is one. */
  group: string | null;
}

type Cell = string | number | boolean | null;
export type Rows = Record<string, Cell>[];

/** Reads `{columns, rows}` as one object per row; null when it is something else. */
export function readRows(value: Record<string, unknown> | null): Rows | null {
  if (!value || !Array.isArray(value.columns) || !Array.isArray(value.rows)) return null;
  const columns = value.columns as string[];
  return (value.rows as Cell[][]).map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i] ?? null])));
}

/** The table to analyse: the first whose description or columns say where its dates and sales are. */
export function readTable(rows: Rows): SalesTable | null {
  const tables = groupBy(rows, (row) => String(row.table_name));
  for (const [table, columns] of tables) {
    const said = String(columns[0]?.table_description ?? '');
    const found =
      readDescription(said) ??
      pickColumns(columns.map((c) => ({ name: String(c.column_name), type: String(c.data_type) })));
    if (!('missing' in found)) return { table, ...found, group: pickGroup(columns) };
  }
  return null;
}

function readDescription(text: string): SalesColumns | null {
  const date = /date of a row is "((?:[^"]|"")+)"/.exec(text)?.[1];
  const sales = /sales are ("(?:[^"]|"")+"(?: \* "(?:[^"]|"")+")?)/.exec(text)?.[1];
  return date === undefined || sales === undefined ? null : { date: date.replaceAll('""', '"'), sales };
}

const groupHints = [/categor|类别|品类|分类/, /product|产品|商品/, /region|地区|区域/, /channel|渠道/, /./];

function pickGroup(columns: Rows): string | null {
  const few = columns.filter((column) => / different values: /.test(String(column.column_description)));
  for (const hint of groupHints) {
    const found = few.find((column) => hint.test(String(column.column_name)));
    if (found) return String(found.column_name);
  }
  return null;
}

const sold = ({ table, date, sales }: SalesTable, more = '') =>
  `with sold as (select ${quoteName(date)}::date as day, ${sales} as sales${more} from ${quoteName(table)}),
newest as (select max(day) as day from sold)`;

export const daysQuery = (table: SalesTable) => `-- ${purposes.days}
${sold(table)}
select d.day::date::text as day, coalesce(sum(sold.sales), 0) as sales, count(sold.day)::int as rows
from newest cross join lateral generate_series(newest.day - 6, newest.day, interval '1 day') as d (day)
left join sold on sold.day = d.day::date
group by d.day
order by d.day`;

export const groupsQuery = (table: SalesTable, group: string) => `-- ${purposes.groups}
${sold(table, `, ${quoteName(group)} as name`)}
select sold.name, coalesce(sum(sold.sales) filter (where sold.day > newest.day - 7), 0) as this_week,
  coalesce(sum(sold.sales) filter (where sold.day <= newest.day - 7), 0) as week_before
from sold cross join newest
where sold.day > newest.day - 14
group by sold.name
order by this_week desc
limit 20`;

function groupBy<T>(rows: readonly T[], keyOf: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) groups.set(keyOf(row), [...(groups.get(keyOf(row)) ?? []), row]);
  return groups;
}
