/** What `pawl doctor` asks of a database, over one connection of its own. It changes nothing. */
import pg from 'pg';
import type { DatabaseFacts, WorkFacts } from '../core/checkup.js';
import { checkSchema } from './migrate.js';
import { asPawlError } from './pool.js';

export interface DatabaseReport {
  facts: DatabaseFacts;
  /** Why this program cannot work on the schema; null when it can. */
  schemaFault: string | null;
  /** Null where the schema is not there. */
  work: WorkFacts | null;
}

/** Throws `database_unreachable`. */
export async function inspectDatabase(url: string): Promise<DatabaseReport> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'pawl doctor',
    connectionTimeoutMillis: 5_000,
    query_timeout: 10_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const facts = await readFacts(client);
    const schemaFault = await checkSchema(client).then(
      () => null,
      (error: unknown) => asPawlError(error).message,
    );
    return { facts, schemaFault, work: schemaFault === null ? await readWork(client) : null };
  } catch (error) {
    throw asPawlError(error);
  } finally {
    await client.end().catch(() => {});
  }
}

async function readFacts(client: pg.Client): Promise<DatabaseFacts> {
  const askedAt = Date.now();
  const clock = await client.query<{ now: Date }>('select clock_timestamp() as now');
  const roundTripMs = Date.now() - askedAt;
  const { rows } = await client.query<{
    version: number;
    role: string;
    replica: boolean;
    may_write: boolean;
    used: number;
    max: number;
  }>(`
    select current_setting('server_version_num')::int as version, current_user::text as role, pg_is_in_recovery() as replica,
      case when to_regclass('pawl.runs') is null then has_database_privilege(current_database(), 'CREATE')
           else has_table_privilege(current_user, 'pawl.runs', 'INSERT')
            and has_table_privilege(current_user, 'pawl.runs', 'UPDATE') end as may_write,
      (select sum(numbackends)::int from pg_stat_database) as used,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max`);
  const row = rows[0];
  if (row === undefined) throw new Error('Postgres answered without a row');
  return {
    version: row.version,
    role: row.role,
    isReplica: row.replica,
    mayWrite: row.may_write,
    connections: { used: row.used, max: row.max },
    clockAheadMs: (clock.rows[0]?.now.getTime() ?? askedAt) - (askedAt + roundTripMs / 2),
    roundTripMs,
  };
}

async function readWork(client: pg.Client): Promise<WorkFacts> {
  const workers = await client.query<{ id: string; host: string; pid: number; silent_ms: number; lag_ms: number }>(
    `select id, host, pid, (extract(epoch from clock_timestamp() - beat_at) * 1000)::int as silent_ms, loop_lag_ms as lag_ms
       from pawl.workers where state = 'live' order by started_at`,
  );
  const due = await client.query<{ due: number; oldest_ms: number | null }>(
    `select count(*)::int as due, (extract(epoch from clock_timestamp() - min(due_at)) * 1000)::float8 as oldest_ms
       from pawl.steps where status = 'pending' and due_at <= clock_timestamp()`,
  );
  return {
    workers: workers.rows.map(({ silent_ms: silentMs, lag_ms: loopLagMs, ...rest }) => ({
      ...rest,
      silentMs,
      loopLagMs,
    })),
    dueSteps: due.rows[0]?.due ?? 0,
    oldestDueMs: due.rows[0]?.oldest_ms ?? null,
  };
}
