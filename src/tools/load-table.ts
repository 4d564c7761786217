/**
 * Puts rows into a table that sql_query can read: the schema, the table with typed columns, descriptions as comments, all
 * in one transaction. Values come as text and are cast by Postgres. An existing table of that name is replaced.
 */
import pg from 'pg';

interface TableColumn {
  name: string;
  /** A Postgres type. */
  type: string;
  description: string;
  /** One value a row, as text; null: NULL. */
  values: (string | null)[];
}

export interface NewTable {
  schema: string;
  name: string;
  columns: TableColumn[];
  /** Tables of the schema whose description matches this pattern of `like` go: those of an earlier load. */
  replaces?: string;
  /** Asked once the rows are in; its text becomes the table's description. */
  describe(ask: (sql: string) => Promise<Record<string, unknown>[]>): Promise<string>;
}

const batch = 2_000;

export async function loadTable(
  adminUrl: string,
  { schema, name, columns, replaces, describe }: NewTable,
): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 10_000 });
  client.on('error', () => {});
  await client.connect();
  const table = `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`;
  try {
    await client.query("begin; set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'");
    await client.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`);
    await client.query(`drop table if exists ${table}`);
    const earlier = await client.query(
      `select oid::regclass::text as name from pg_class
       where relnamespace = $1::regnamespace and relkind = 'r' and obj_description(oid, 'pg_class') like $2`,
      [pg.escapeIdentifier(schema), replaces ?? ''],
    );
    for (const { name: old } of earlier.rows) await client.query(`drop table ${old}`);
    const definitions = columns.map((column) => `${pg.escapeIdentifier(column.name)} ${column.type}`);
    await client.query(`create table ${table} (${definitions.join(', ')})`);
    const casts = columns.map((column, i) => `v${i}::${column.type}`);
    const arrays = columns.map((_, i) => `$${i + 1}::text[]`);
    const names = columns.map((_, i) => `v${i}`);
    const rows = columns[0]?.values.length ?? 0;
    for (let from = 0; from < rows; from += batch) {
      await client.query(
        `insert into ${table} select ${casts.join(', ')} from unnest(${arrays.join(', ')}) as rows (${names.join(', ')})`,
        columns.map((column) => column.values.slice(from, from + batch)),
      );
    }
    for (const column of columns) {
      const comment = pg.escapeLiteral(column.description);
      await client.query(`comment on column ${table}.${pg.escapeIdentifier(column.name)} is ${comment}`);
    }
    const description = await describe(async (sql) => (await client.query(sql)).rows);
    await client.query(`comment on table ${table} is ${pg.escapeLiteral(description)}`);
    await client.query('commit');
    await client.query(`analyze ${table}`);
  } finally {
    await client.end().catch(() => {});
  }
}
