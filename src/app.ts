/**
 * The composition root: the only place where the engine meets its adapters. `openClient` is what a door needs that only
 * starts and looks at runs; `startWorkerProcess` is a worker, its maintenance, or both. Nothing here reads the environment:
 * settings come from src/config.ts.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Board, BoardOptions } from './bullmq/board.js';
import { connectQueue, type QueueBackend } from './bullmq/connect.js';
import { queuePoolSize, queueSilenceMs } from './bullmq/postgres.js';
import type { Agent } from './core/agent.js';
import { PawlError } from './core/errors.js';
import type { OnGap } from './engine/gaps.js';
import { Maintenance } from './engine/maintain.js';
import { createRuns, type Runs } from './engine/runs.js';
import { startWorker } from './engine/worker.js';
import type { Clock, Embedder, Ids, Llm, Log } from './ports.js';
import { checkSchema } from './postgres/migrate.js';
import { asPawlError, createLane, createPool, workerPoolSize } from './postgres/pool.js';
import { createReads } from './postgres/reads.js';
import { Route } from './postgres/route.js';
import { createStore } from './postgres/store.js';
import { createWatch } from './postgres/watch.js';
import { createWorkers } from './postgres/workers.js';

export { migrate } from './postgres/migrate.js';

export interface ServiceSettings {
  databaseUrl: string;
  /** Null: the queue lives in the same Postgres. */
  redisUrl: string | null;
  log: Log;
}

export interface Client {
  runs: Runs;
  queueKind: 'redis' | 'postgres';
  /** The queue dashboard; closed with the client. */
  board(options: BoardOptions): Promise<Board['app']>;
  /** Throws `database_unreachable` or `queue_unreachable`. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }).catch(() => {}),
};

/** Ids that begin with their time, so that new rows lie side by side in an index. */
export const systemIds: Ids = {
  runId: () => `run_${timeId()}`,
  workerId: () => `worker_${timeId()}`,
  claimToken: () => randomUUID(),
  random: () => Math.random(),
};

function timeId(): string {
  return (
    Date.now().toString(36).padStart(9, '0') +
    BigInt(`0x${randomBytes(10).toString('hex')}`)
      .toString(36)
      .padStart(16, '0')
  );
}

/** For doors and other services: accepts runs, shows them, commands them. */
export async function openClient(settings: ServiceSettings): Promise<Client> {
  const { log } = settings;
  const route = new Route();
  const pool = createPool({ url: settings.databaseUrl, route, max: 5, applicationName: 'pawl client' });
  try {
    const queue = await openQueueOf(pool, settings, { route, workers: 0, lazy: true });
    const runs = createRuns({
      store: createStore(pool),
      reads: createReads(pool),
      queue: queue.backend.queue,
      clock: systemClock,
      ids: systemIds,
      log,
    });
    const boards: Board[] = [];
    return {
      runs,
      queueKind: queue.backend.kind,
      async board(options) {
        const board = await queue.backend.board(options);
        boards.push(board);
        return board.app;
      },
      async ping() {
        await checkDatabase(pool);
        await queue.backend.ping();
      },
      async close() {
        await Promise.all(boards.map((board) => board.close()));
        await queue.close();
        await pool.end();
      },
    };
  } catch (error) {
    await pool.end().catch(() => {});
    throw error;
  }
}

export interface WorkerSettings extends ServiceSettings {
  role: 'all' | 'steps' | 'maintenance';
  agents: readonly Agent[];
  llm: Llm;
  embedder?: Embedder | null;
  /** Deliveries at once for each queue. */
  concurrency: number;
  /** Queues to serve; null: `llm`, `tool` and every pool of the agents' tools. */
  queues: readonly string[] | null;
  heartbeatMs: number;
  deathMs: number;
  /** How long the queue leaves a job with a worker that is silent; absent: 30 s. */
  lockMs?: number;
  onGap?: OnGap;
}

export interface WorkerProcess {
  /** Null in the maintenance role. */
  workerId(): string | null;
  queueKind: 'redis' | 'postgres';
  /** Stops in good order, or at the latest after the time given. */
  stop(withinMs: number): Promise<void>;
}

const maintenanceEveryMs = 500;

/** A worker by its role. Throws when the database or the queue does not answer at the start; later it waits for both. */
export async function startWorkerProcess(settings: WorkerSettings): Promise<WorkerProcess> {
  const { log, role } = settings;
  const queues = queuesOf(settings);
  const runsSteps = role !== 'maintenance';
  const route = new Route();
  const pool = createPool({
    url: settings.databaseUrl,
    route,
    max: workerPoolSize(settings.concurrency),
    applicationName: `pawl worker (${role})`,
  });
  const workers = runsSteps ? queues.length : 0;
  const queue = await openQueueOf(pool, settings, { route, workers, lazy: false }).catch(async (error) => {
    await pool.end().catch(() => {});
    throw error;
  });
  const lanes = {
    claims: createLane(settings.databaseUrl, 'claims', route),
    records: createLane(settings.databaseUrl, 'records', route),
  };
  const parts = {
    store: createStore(pool, lanes),
    watch: createWatch(pool),
    queue: queue.backend.queue,
    clock: systemClock,
    ids: systemIds,
    log,
  };
  const worker = runsSteps
    ? await startWorker(
        {
          ...parts,
          llm: settings.llm,
          embedder: settings.embedder ?? null,
          agents: new Map(settings.agents.map((agent) => [agent.name, agent])),
          workers: createWorkers(pool, {
            url: settings.databaseUrl,
            everyMs: settings.heartbeatMs,
            slots: settings.concurrency * queues.length,
            log,
          }),
          consumer: ({ handler }) =>
            queue.backend.consumer({ queues, concurrency: settings.concurrency, lockMs: settings.lockMs, handler }),
          ...(settings.onGap === undefined ? {} : { onGap: settings.onGap }),
        },
        role === 'all' ? 'all' : 'steps',
      )
    : null;
  const maintenance = new AbortController();
  const maintaining =
    role === 'steps'
      ? Promise.resolve()
      : new Maintenance(parts, { deathMs: settings.deathMs, everyMs: maintenanceEveryMs }).run(maintenance.signal);

  return {
    workerId: () => worker?.id() ?? null,
    queueKind: queue.backend.kind,
    async stop(withinMs) {
      const until = performance.now() + withinMs;
      const left = () => Math.max(100, until - performance.now());
      maintenance.abort();
      // What is kept back closes the connections.
      await worker?.stop(withinMs - Math.min(1_000, withinMs * 0.1));
      await within(left() / 3, maintaining);
      await within(left() / 2, queue.close());
      await within(left(), Promise.all([pool, lanes.claims, lanes.records].map((each) => each.end())));
    },
  };
}

/**
 * Nothing that is cut off from its server may hold up an exit. The timer keeps the process: where every connection is gone
 * nothing else does, and Node would end it with 13 in the middle of its good order.
 */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  await Promise.race([work.catch(() => {}), delay(ms, undefined, { signal: over.signal }).catch(() => {})]);
  over.abort();
}

function queuesOf(settings: WorkerSettings): string[] {
  const pools = settings.agents.flatMap((agent) => agent.tools.map((tool) => tool.queue));
  const all = [...new Set(['llm', 'tool', ...pools])];
  const asked = settings.queues;
  if (asked === null) return all;
  const unknown = asked.filter((name) => !all.includes(name));
  if (unknown.length > 0) {
    throw new PawlError(
      'config_invalid',
      `PAWL_QUEUES names ${unknown.join(', ')}; the queues of this config are ${all.join(', ')}`,
    );
  }
  return [...asked];
}

interface OpenedQueue {
  backend: QueueBackend;
  close(): Promise<void>;
}

async function openQueueOf(
  pool: pg.Pool,
  settings: ServiceSettings,
  { route, workers, lazy }: { route: Route; workers: number; lazy: boolean },
): Promise<OpenedQueue> {
  const { log } = settings;
  const queues = ['llm', 'tool'];
  await checkDatabase(pool);
  if (settings.redisUrl !== null) {
    const { rows } = await pool.query<{ id: string }>('select id from pawl.instance');
    const backend = await connectQueue({
      kind: 'redis',
      url: settings.redisUrl,
      prefixId: rows[0]?.id ?? 'pawl',
      queues,
      log,
      lazy,
    });
    return { backend, close: () => backend.close() };
  }
  const queuePool = createPool({
    url: settings.databaseUrl,
    route,
    max: queuePoolSize(workers),
    applicationName: 'pawl queue',
    silenceMs: queueSilenceMs,
    // The queue is a wake-up call: what a crash of the server takes back of it, stalls and the sweep make good.
    settings: { search_path: 'bullmq', synchronous_commit: 'off' },
  });
  try {
    const backend = await connectQueue({ kind: 'postgres', pool: queuePool, queues, log });
    return {
      backend,
      async close() {
        await backend.close();
        await queuePool.end();
      },
    };
  } catch (error) {
    await queuePool.end().catch(() => {});
    throw error;
  }
}

async function checkDatabase(pool: pg.Pool): Promise<void> {
  try {
    await checkSchema(pool);
  } catch (error) {
    throw asPawlError(error);
  }
}
