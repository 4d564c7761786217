/**
 * The two real queues as the contract suite sees them, and their raw sides for tests that reach behind the ports.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectionOptions, createPostgresBackend, Queue, Worker, type WorkerOptions } from 'bullmq';
import { Redis } from 'ioredis';
import type pg from 'pg';
import { connectQueue, type QueueBackend } from '../../src/bullmq/connect.js';
import { queuePoolSize, queueSilenceMs } from '../../src/bullmq/postgres.js';
import type { Dispatch, Log } from '../../src/ports.js';
import { createPool } from '../../src/postgres/pool.js';
import type { QueuePeer, QueueWorld } from '../contract/queue.js';
import { createTestDatabase, createTestRedis } from '../support/services.js';

export const queues = ['llm', 'tool'];

export interface LoggedLine {
  level: 'debug' | 'info' | 'warn' | 'error';
  fields: Record<string, unknown>;
  message: string;
}

export function memoryLog(lines: LoggedLine[] = []): Log {
  const at = (level: LoggedLine['level']) => (fields: Record<string, unknown>, message: string) =>
    void lines.push({ level, fields, message });
  const log: Log = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}

/** A real queue, and BullMQ itself on the same jobs, as a dashboard has it. */
export interface RealWorld extends QueueWorld {
  kind: 'redis' | 'postgres';
  connect(options?: { url?: string; log?: Log; lazy?: boolean }): Promise<QueueBackend>;
  url: string;
  dashboard(queue: string): Queue;
  /** A worker of BullMQ's own, with none of Pawl's settings. */
  rawWorker(queue: string, processor: () => Promise<unknown>, options: Partial<WorkerOptions>): Worker;
  /** Another worker holds the job from now on. */
  stealLock(queue: string, jobId: string): Promise<void>;
  /** Makes every fetch fail with an error of the server's; gives the undoing. */
  breakFetching(queue: string): Promise<() => Promise<void>>;
}

export function openPool(url: string, workers = queues.length): pg.Pool {
  return createPool({
    url,
    max: queuePoolSize(workers),
    applicationName: 'pawl queue test',
    silenceMs: queueSilenceMs,
    settings: { search_path: 'bullmq' },
  });
}

export async function openWorld(kind: 'redis' | 'postgres'): Promise<RealWorld> {
  const closing: (() => Promise<unknown>)[] = [];
  const world = kind === 'redis' ? await redisWorld(closing) : await postgresWorld(closing);
  const peer = async (): Promise<QueuePeer> => world.connect();
  return {
    ...world,
    kind,
    peer,
    async retryFailed(dispatch: Dispatch) {
      const job = await world
        .dashboard(dispatch.queue)
        .getJob(`${dispatch.runId}.${dispatch.seq}.${dispatch.dispatch}`);
      if (job === undefined) throw new Error('no such job');
      await job.retry('failed');
    },
    async close() {
      for (const close of closing.reverse()) await close();
    },
  };
}

type Raw = Pick<RealWorld, 'connect' | 'url' | 'dashboard' | 'wipe' | 'rawWorker' | 'stealLock' | 'breakFetching'>;

async function redisWorld(closing: (() => Promise<unknown>)[]): Promise<Raw> {
  const { url, drop } = await createTestRedis();
  closing.push(drop);
  const client = new Redis(url, { maxRetriesPerRequest: null });
  await client.flushdb();
  closing.push(() => client.quit());
  return {
    url,
    connect: async (options = {}) =>
      connectQueue({ kind: 'redis', url, prefixId: 'test', queues, log: memoryLog(), ...options }),
    dashboard: (name) => {
      const queue = new Queue(`pawl-${name}`, { connection: client as ConnectionOptions, prefix: '{pawl:test}' });
      closing.push(() => queue.close());
      return queue;
    },
    rawWorker: (name, processor, options) =>
      new Worker(`pawl-${name}`, processor, { ...options, connection: { url }, prefix: '{pawl:test}' }),
    stealLock: async (name, id) => void (await client.set(`{pawl:test}:pawl-${name}:${id}:lock`, 'other')),
    async breakFetching(name) {
      await client.set(`{pawl:test}:pawl-${name}:wait`, 'no list');
      return async () => void (await client.del(`{pawl:test}:pawl-${name}:wait`));
    },
    wipe: async () => void (await client.flushdb()),
  };
}

async function postgresWorld(closing: (() => Promise<unknown>)[]): Promise<Raw> {
  const { url, drop } = await createTestDatabase({ empty: true });
  closing.push(drop);
  const pool = openPool(url, 2);
  closing.push(() => pool.end());
  return {
    url,
    async connect({ url: through, log = memoryLog() } = {}) {
      const own = openPool(through ?? url);
      try {
        const backend = await connectQueue({ kind: 'postgres', pool: own, queues, log });
        let closed: Promise<unknown> | undefined;
        return {
          ...backend,
          async close() {
            // With a server that does not answer, ending the pool waits for ever; the leak check says whether it ended.
            closed ??= backend.close().then(() => Promise.race([own.end(), delay(500)]));
            await closed;
          },
        };
      } catch (error) {
        await own.end();
        throw error;
      }
    },
    dashboard: (name) => {
      const queue = new Queue(`pawl-${name}`, { connection: pool }, createPostgresBackend);
      closing.push(() => queue.close());
      return queue as unknown as Queue;
    },
    rawWorker: (name, processor, options) =>
      new Worker(
        `pawl-${name}`,
        processor,
        { ...options, connection: pool },
        createPostgresBackend,
      ) as unknown as Worker,
    stealLock: async (name, id) =>
      void (await pool.query(`UPDATE bullmq.job SET lock_token = 'other' WHERE queue = $1 AND id = $2`, [
        `pawl-${name}`,
        id,
      ])),
    async breakFetching() {
      await pool.query('ALTER FUNCTION bullmq.next_signal RENAME TO elsewhere');
      return async () => void (await pool.query('ALTER FUNCTION bullmq.elsewhere RENAME TO next_signal'));
    },
    wipe: async () => void (await pool.query('TRUNCATE bullmq.job, bullmq.meta, bullmq.event CASCADE')),
  };
}
