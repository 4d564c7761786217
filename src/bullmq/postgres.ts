/**
 * Jobs kept in Postgres by BullMQ's own backend, in schema `bullmq`. All its objects borrow connections from one pool that
 * the caller owns: `search_path=bullmq`, direct, and large enough (see `queuePoolSize`), since each worker keeps one for
 * LISTEN for good, and a pool without a free one makes everything wait.
 */
import {
  assertSchemaCompatibility,
  type BackendFactory,
  type IQueueBackend,
  LATEST_SCHEMA_VERSION,
  type PgPool,
  type PgPoolClient,
  PostgresConnection,
  PostgresQueueBackend,
  runMigrations,
  SchemaMigrationRequiredError,
  SchemaVersionMismatchError,
} from 'bullmq';
import type { Pool } from 'pg';
import { describeThrown, PawlError } from '../core/errors.js';
import type { Log, Presence } from '../ports.js';
import { type Ground, inChunks, keptEvents } from './ground.js';
import { quietly } from './quiet.js';

const schema = 'bullmq';
const epochField = 'pawlEpoch';
/** A worker polls at least this often, so that a lost notification costs seconds; BullMQ would allow an hour. */
const longestBlockSeconds = 5;

/** A statement of the pool's not answered for this long was sent into a dead connection; the queue's are short. */
export const queueSilenceMs = 6_000;

/** Connections the pool needs: three to share, and one for each worker's LISTEN. */
export function queuePoolSize(workers: number): number {
  return 3 + workers;
}

export async function openPostgres({ pool, log }: { pool: Pool; log: Log }): Promise<Ground> {
  const lent = lend(pool, log);
  // Each backend adds a listener of its own to the pool.
  pool.setMaxListeners(0);
  await migrate(pool);
  await checkSearchPath(pool);

  let workers = 0;
  const factory: BackendFactory<IQueueBackend> = (name, options, { withBlockingConnection: isWorker = false } = {}) => {
    const connection = new MigratedConnection(lent);
    if (isWorker) {
      workers += 1;
      connection.once('close', () => {
        workers -= 1;
      });
      // Found now, or as a worker that waits for ever.
      if (queuePoolSize(workers) > pool.options.max) {
        throw new PawlError('internal', `${workers} workers need a pool of ${queuePoolSize(workers)} connections`);
      }
    }
    return new PolledBackend(connection, name, { ...options, connection: lent }, true, isWorker ? name : undefined);
  };

  return {
    kind: 'postgres',
    factory,
    queueConnection: {},
    workerConnection: {},
    prefix: schema,

    async opened() {},

    async ping() {
      await pool.query('SELECT 1');
    },

    async probe(jobs) {
      const found: Presence[] = [];
      for (const chunk of inChunks(jobs, 5_000)) {
        const { rows } = await pool.query<{ presence: Presence }>(
          `SELECT CASE j.state WHEN 'waiting' THEN 'ready' WHEN 'active' THEN 'active' ELSE 'absent' END AS presence
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (queue, id, n)
             LEFT JOIN ${schema}.job j ON j.queue = asked.queue AND j.id = asked.id
            ORDER BY asked.n`,
          [chunk.map(({ name }) => name), chunk.map(({ id }) => id)],
        );
        found.push(...rows.map(({ presence }) => presence));
      }
      return found;
    },

    // The epoch is kept beside each queue's settings and, a second time, among the jobs: whoever empties either, or puts an
    // old copy of either back, loses it.
    async readEpoch(names) {
      const { rows } = await pool.query<{ epoch: string | null }>(
        `SELECT CASE WHEN count(m.value) = cardinality($1::text[]) AND count(DISTINCT m.value) = 1
                      AND min(m.value) = (SELECT data->>'epoch' FROM ${schema}.job WHERE queue = 'pawl' AND id = 'epoch')
                     THEN min(m.value) END AS epoch
           FROM ${schema}.meta m WHERE m.queue = ANY($1::text[]) AND m.field = $2`,
        [names, epochField],
      );
      return rows[0]?.epoch ?? null;
    },

    async writeEpoch(names, epoch) {
      await pool.query(
        `WITH kept AS (
           INSERT INTO ${schema}.job (queue, id, seq, name, state, data, added_at_ms)
           VALUES ('pawl', 'epoch', 0, 'epoch', 'completed', jsonb_build_object('epoch', $3::text), 0)
           ON CONFLICT (queue, id) DO UPDATE SET data = EXCLUDED.data)
         INSERT INTO ${schema}.meta (queue, field, value)
         SELECT queue, field, value FROM unnest($1::text[]) AS queue,
                (VALUES ($2, $3), ('opts.maxLenEvents', $4)) AS fields (field, value)
         ON CONFLICT (queue, field) DO UPDATE SET value = EXCLUDED.value`,
        [names, epochField, epoch, String(keptEvents)],
      );
    },

    async heal(error) {
      if (!isSchemaGone(error)) return false;
      log.warn({ error: describeThrown(error) }, 'queue: its tables are gone; making them anew');
      await migrate(pool);
      return true;
    },

    // The pool is its owner's to end.
    async close() {},
  };
}

/** The tables are known to be there before any of these is made; the original remembers a first failure for ever. */
class MigratedConnection extends PostgresConnection {
  override async waitUntilReady(): Promise<void> {}
}

class PolledBackend extends PostgresQueueBackend {
  override get maximumBlockTimeout(): number {
    return longestBlockSeconds;
  }
}

/** The pool as BullMQ sees it: it cannot end it, and a connection it drops can no longer crash the process. */
function lend(pool: Pool, log: Log): PgPool {
  const onError = quietly(log, { connection: 'postgres' });
  pool.on('error', onError);
  const lent: PgPool = {
    query: ((text: string, params?: readonly unknown[]) =>
      pool.query(text, params === undefined ? undefined : [...params])) as PgPool['query'],
    async connect() {
      const client = (await pool.connect()) as unknown as PgPoolClient;
      const release = client.release.bind(client);
      client.release = (destroy) => {
        // BullMQ takes all listeners off a client before it drops it: an error while it closes would be nobody's.
        if (destroy) client.on('error', onError);
        release(destroy);
      };
      return client;
    },
    end: async () => undefined,
    on: () => lent,
    removeAllListeners: () => lent,
  };
  return lent;
}

/** Brings the schema up to date. BullMQ takes an advisory lock, so any number of starters may do this at once. */
async function migrate(pool: Pool): Promise<void> {
  const client = await pool.connect();
  let failed = true;
  try {
    const version = await assertSchemaCompatibility(client, schema).catch((error) => {
      if (error instanceof SchemaMigrationRequiredError) return 0;
      throw error;
    });
    // Nothing to do needs no right to create schemas.
    if (version < LATEST_SCHEMA_VERSION) await runMigrations(client, schema);
    failed = false;
  } catch (error) {
    if (error instanceof SchemaVersionMismatchError) {
      throw new PawlError('schema_mismatch', `schema ${schema}: ${describeThrown(error)}`, { cause: error });
    }
    throw error;
  } finally {
    client.release(failed);
  }
}

async function checkSearchPath(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ name: string | null }>('SELECT current_schema() AS name');
  if (rows[0]?.name !== schema) throw new PawlError('internal', `the queue's pool needs search_path=${schema}`);
}

function isSchemaGone(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  // No such schema, table, function, type.
  return code === '3F000' || code === '42P01' || code === '42883' || code === '42704';
}
