/**
 * `sql_query`: lets a model read one schema of a Postgres database. What keeps it harmless is the database itself: a role
 * with nothing but SELECT in that schema (data-role.ts), one statement in a read-only transaction that is always rolled
 * back, a time limit and a row limit kept by the server. No SQL is ever read or rewritten here.
 */
import pg from 'pg';
import { z } from 'zod';
import { defineTool } from '../core/tool.js';
import { LimitedQuery, type LimitedResult } from './limited-query.js';
import { describeSqlError, SqlQueryError } from './sql-error.js';

export interface SqlQueryOptions {
  /** Connection of the role that prepareDataRole made, never an owner's. */
  databaseUrl: string;
  /** Schema the role may read; the search path of every query. */
  schema: string;
  /** Rows returned at most; further ones are left on the server. Default 200. */
  rowLimit?: number;
  /** Time a query may take. Default 10 s. */
  timeoutMs?: number;
  /** Bytes read from the server at most, for one query. Default 4 MB. */
  maxBytes?: number;
  name?: string;
  description?: string;
}

export interface SqlRows {
  columns: string[];
  /**
   * One array per row, in the order of `columns`. Integers up to 32 bits, floats and booleans are JSON values; everything
   * else is the text Postgres writes, so that numeric, bigint, dates and times come back exactly.
   */
  rows: (string | number | boolean | null)[][];
  rowCount: number;
  /** True when there were more rows than the limit. */
  truncated: boolean;
  note?: string;
}

const settings = (timeoutMs: number, schema: string) => `
  begin transaction read only;
  set local statement_timeout = ${Math.ceil(timeoutMs)};
  set local idle_in_transaction_session_timeout = ${Math.ceil(timeoutMs) + 5_000};
  set local search_path = ${pg.escapeIdentifier(schema)};
  set local timezone = 'UTC';
  set local datestyle = 'ISO, YMD';
  set local intervalstyle = 'iso_8601';
  set local bytea_output = 'hex';
  select rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
    or exists (select from pg_auth_members m where m.member = r.oid) as powerful
  from pg_roles r where rolname = session_user`;

const number = (text: string): number | string => (Number.isFinite(Number(text)) ? Number(text) : text);
const readers = new Map<number, (text: string) => number | string | boolean>([
  [16, (text) => text === 't'],
  [21, number],
  [23, number],
  [26, number],
  [700, number],
  [701, number],
]);

/** Runs one read-only statement as the given role; throws SqlQueryError with what the server said. */
export async function runSqlQuery(
  sql: string,
  options: Omit<SqlQueryOptions, 'name' | 'description'>,
  signal?: AbortSignal,
): Promise<SqlRows> {
  const { databaseUrl, schema, rowLimit = 200, timeoutMs = 10_000, maxBytes = 4_000_000 } = options;
  if (sql.includes('\0')) throw new SqlQueryError('The query holds a NUL character, which SQL cannot.');
  if (sql.trim() === '') throw new SqlQueryError('The query is empty. Send one SELECT statement.');
  signal?.throwIfAborted();
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: Math.min(timeoutMs, 10_000),
    application_name: 'pawl sql_query',
  });
  client.on('error', () => {});
  await client.connect();
  const watch = guard(client, databaseUrl, { timeoutMs: timeoutMs + 2_000, maxBytes, signal });
  try {
    const checked = await client.query(settings(timeoutMs, schema));
    const last: unknown = Array.isArray(checked) ? checked.at(-1)?.rows[0]?.powerful : undefined;
    if (last !== false) {
      throw new SqlQueryError(
        'Refused: the role of sql_query has powers beyond reading. Make one with prepareDataRole.',
      );
    }
    return asRows(await runLimited(client, sql, rowLimit), rowLimit);
  } catch (error) {
    throw watch.cause() ?? describeSqlError(error, { schema, timeoutMs });
  } finally {
    watch.end();
    await watch.close();
  }
}

function runLimited(client: pg.Client, sql: string, rowLimit: number): Promise<LimitedResult> {
  return new Promise((resolve, reject) => {
    client.query(new LimitedQuery(sql, rowLimit, (error, result) => (error ? reject(error) : resolve(result))));
  });
}

function asRows({ fields, rows, more }: LimitedResult, rowLimit: number): SqlRows {
  const read = fields.map((field) => readers.get(field.dataTypeID));
  const result: SqlRows = {
    columns: fields.map((field) => field.name),
    rows: rows.map((row) => row.map((text, i) => (text === null ? null : (read[i]?.(text) ?? text)))),
    rowCount: rows.length,
    truncated: more,
  };
  if (more) result.note = `Only the first ${rowLimit} rows. Aggregate, or narrow the query.`;
  if (fields.length === 0) result.note = 'The statement returned no rows and changed nothing. Send a SELECT.';
  return result;
}

/** Cancels the query on the server when the caller gives up, the answer grows too large or the server does not keep time. */
function guard(
  client: pg.Client,
  databaseUrl: string,
  limits: { timeoutMs: number; maxBytes: number; signal: AbortSignal | undefined },
) {
  let cause: unknown;
  let cancelled: Promise<void> | undefined;
  // pg keeps its socket and the backend's id on the client, unlisted in its types.
  const inner = client as unknown as { processID: number; connection: { stream: import('node:net').Socket } };
  const { stream } = inner.connection;
  const give = (why: unknown) => {
    cause ??= why;
    cancelled ??= cancelBackend(databaseUrl, inner.processID);
    stream.destroy();
  };
  let bytes = 0;
  const onData = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limits.maxBytes) {
      give(new SqlQueryError(`The answer is larger than ${limits.maxBytes} bytes. Select fewer columns or aggregate.`));
    }
  };
  const onAbort = () => give(limits.signal?.reason);
  const timer = setTimeout(
    () => give(new SqlQueryError(`The database did not answer within ${limits.timeoutMs} ms.`)),
    limits.timeoutMs,
  );
  stream.on('data', onData);
  limits.signal?.addEventListener('abort', onAbort, { once: true });
  if (limits.signal?.aborted) onAbort();
  return {
    cause: () => cause,
    end: () => {
      clearTimeout(timer);
      stream.off('data', onData);
      limits.signal?.removeEventListener('abort', onAbort);
    },
    close: async () => {
      await (cancelled ?? client.end().catch(() => {}));
    },
  };
}

/** Ends the given backend from a connection of the same role, which Postgres lets a role do to its own. */
async function cancelBackend(databaseUrl: string, pid: number): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 3_000, query_timeout: 3_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select pg_terminate_backend($1)', [pid]);
  } catch {
    // The server's own statement_timeout ends the query where this could not.
  } finally {
    await client.end().catch(() => {});
  }
}

const input = z.object({
  query: z
    .string()
    .min(1)
    .max(20_000)
    .describe('One SQL statement (PostgreSQL), usually a SELECT; no second one after a semicolon'),
});

export function sqlQuery(options: SqlQueryOptions) {
  const { rowLimit = 200, timeoutMs = 10_000, schema } = options;
  return defineTool({
    name: options.name ?? 'sql_query',
    description:
      options.description ??
      `Runs one read-only SQL statement (PostgreSQL) on schema "${schema}" and returns {columns, rows}. At most ${rowLimit} rows and ` +
        `${timeoutMs / 1000} s. Numeric and bigint values and dates come as text, exact. Tables and columns are described ` +
        'in information_schema and in their comments (obj_description, col_description).',
    input,
    effect: 'none',
    timeoutMs: timeoutMs + 15_000,
    maxOutputChars: 16_000,
    execute: async (args, ctx) => {
      try {
        return await runSqlQuery(args.query, options, ctx.signal);
      } catch (error) {
        // The database's answer to this query, which another attempt would only hear again: it goes to the model at once.
        if (error instanceof SqlQueryError) return { error: error.message };
        throw error;
      }
    },
  });
}
