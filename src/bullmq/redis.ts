/**
 * Jobs kept in Redis. Two kinds of connection: one shared by all queues that gives up at once when Redis is away, since a
 * dispatch that fails is made good by the sweep, and two for each worker, which wait for it to come back.
 */
import { createRedisBackend, type RedisOptions } from 'bullmq';
import { Redis } from 'ioredis';
import type { Log, Presence } from '../ports.js';
import { type Ground, inChunks, type JobRef, keptEvents } from './ground.js';
import { quietly, settledWithin } from './quiet.js';

/** Commands in one pipeline: large enough to be one round trip, small enough not to hold Redis up. */
const pipelineJobs = 500;
const epochField = 'pawlEpoch';
const reconnectWithinMs = 2_000;

export interface RedisGroundOptions {
  url: string;
  /** Names the database this queue belongs to, so that two deployments on one Redis never meet. */
  prefixId: string;
  log: Log;
  answerWithinMs: number;
}

export function openRedis({ url, prefixId, log, answerWithinMs }: RedisGroundOptions): Ground {
  const shared = {
    connectTimeout: answerWithinMs,
    // A connection that died without a word is made anew. Whoever waits for a job asks again sooner than that: worker.ts.
    socketTimeout: answerWithinMs,
    retryStrategy: (times: number) => Math.min(reconnectWithinMs, 50 * 2 ** Math.min(times, 10)),
    // A replica that was the primary answers READONLY until the connection is made anew.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
  const client = new Redis(url, {
    ...shared,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: answerWithinMs,
    connectionName: 'pawl-queue',
  });
  client.on('error', quietly(log, { connection: 'redis' }));
  const connected = new Promise<void>((resolve, reject) => {
    client.once('ready', resolve);
    client.once('error', reject);
    client.once('end', () => reject(new Error('Connection is closed.')));
  });
  connected.catch(() => undefined);
  // The braces put all keys of a deployment into one slot of a Redis Cluster.
  const prefix = `{pawl:${prefixId}}`;
  const key = (name: string, part: string) => `${prefix}:${name}:${part}`;
  const workerConnection: RedisOptions = { ...shared, url, maxRetriesPerRequest: null };

  async function pipeline(commands: (string | number)[][]): Promise<unknown[]> {
    const replies = (await client.pipeline(commands).exec()) ?? [];
    return replies.map(([error, value]) => {
      if (error) throw error;
      return value;
    });
  }

  return {
    kind: 'redis',
    factory: openBackend,
    queueConnection: client,
    workerConnection,
    prefix,

    async opened() {
      if (client.status !== 'ready') await connected;
    },

    async ping() {
      if (client.status !== 'ready') await connected;
      await client.ping();
      await warnOfEviction(client, log);
    },

    async probe(jobs) {
      const found: Presence[] = [];
      for (const chunk of inChunks(jobs, pipelineJobs)) found.push(...(await probeChunk(pipeline, key, chunk)));
      return found;
    },

    async readEpoch(names) {
      const values = await pipeline(names.map((name) => ['hget', key(name, 'meta'), epochField]));
      const [first] = values;
      return typeof first === 'string' && values.every((value) => value === first) ? first : null;
    },

    async writeEpoch(names, epoch) {
      await pipeline(
        names.map((name) => ['hset', key(name, 'meta'), epochField, epoch, 'opts.maxLenEvents', keptEvents]),
      );
    },

    heal: async () => false,

    async close() {
      // Frozen or cut off, it is dropped without a word.
      if (client.status === 'ready')
        await settledWithin(
          1_000,
          client.quit().catch(() => undefined),
        );
      client.disconnect();
    },
  };
}

/**
 * BullMQ's own backend, whose client sends together what is sent in one turn. So jobs are added one by one: the pipeline that
 * BullMQ would make for them is made with a method for each of its scripts, and costs as much as ten jobs.
 */
const openBackend: Ground['factory'] = (...given) => {
  const backend = createRedisBackend(...given);
  backend.client.then((client) => sendTogether(client as unknown as Redis)).catch(() => undefined);
  backend.addJobs = (entries) =>
    Promise.all(entries.map(({ job, jobId, parentKeyOpts }) => backend.addJob(job, jobId, parentKeyOpts)));
  return backend;
};

const gathering = new WeakSet<Redis['stream']>();

/**
 * What a client sends in one turn of the event loop goes in one system call, and is read by Redis in one: the steps of a
 * batch end their jobs at the same time.
 */
function sendTogether(client: Redis): void {
  const gatherWrites = () => {
    const { stream } = client;
    // A client that several queues share is met with each of them.
    if (gathering.has(stream)) return;
    gathering.add(stream);
    const write = stream.write.bind(stream) as (...given: unknown[]) => boolean;
    stream.write = (...given: unknown[]) => {
      if (stream.writableCorked === 0) {
        stream.cork();
        process.nextTick(() => stream.uncork());
      }
      return write(...given);
    };
  };
  client.on('connect', gatherWrites);
  if (client.status === 'connect' || client.status === 'ready') gatherWrites();
}

/**
 * Existence and the finished and delayed sets by id first, then how much waits, then what is active: a job that moves on
 * while this is read is then seen at its later place. With nothing waiting, a job that is neither finished nor active is a
 * hash without a list (Redis evicted the list): absent, or its step would wait for ever.
 */
async function probeChunk(
  pipeline: (commands: (string | number)[][]) => Promise<unknown[]>,
  key: (name: string, part: string) => string,
  jobs: readonly JobRef[],
): Promise<Presence[]> {
  const names = [...new Set(jobs.map(({ name }) => name))];
  const replies = await pipeline([
    ...jobs.flatMap(({ name, id }) => [
      ['exists', key(name, id)],
      ['zscore', key(name, 'completed'), id],
      ['zscore', key(name, 'failed'), id],
      ['zscore', key(name, 'delayed'), id],
    ]),
    ...names.flatMap((name) => [
      ['llen', key(name, 'wait')],
      ['llen', key(name, 'paused')],
      ['zcard', key(name, 'prioritized')],
    ]),
    ...names.map((name) => ['lrange', key(name, 'active'), 0, -1]),
  ]);
  const waiting = new Map<string, number>();
  const active = new Map<string, Set<unknown>>();
  names.forEach((name, n) => {
    const lengths = replies.slice(4 * jobs.length + 3 * n, 4 * jobs.length + 3 * n + 3);
    waiting.set(
      name,
      lengths.reduce<number>((sum, length) => sum + Number(length), 0),
    );
    active.set(name, new Set(replies[4 * jobs.length + 3 * names.length + n] as unknown[]));
  });
  return jobs.map(({ name, id }, n) => {
    const [exists, ...sets] = replies.slice(4 * n, 4 * n + 4);
    if (active.get(name)?.has(id)) return 'active';
    const elsewhere = exists !== 1 || sets.some((score) => score !== null);
    return elsewhere || (waiting.get(name) ?? 0) === 0 ? 'absent' : 'ready';
  });
}

/** Any policy but noeviction lets Redis drop jobs when it is full. Servers that do not tell are left alone. */
async function warnOfEviction(client: Redis, log: Log): Promise<void> {
  const info = await client.info('memory').catch(() => '');
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    log.warn({ policy }, 'Redis may drop jobs when it is full: set maxmemory-policy to noeviction');
  }
}
