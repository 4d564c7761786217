/**
 * Jobs kept in Redis. Two kinds of connection: one shared by all queues that gives up at once when Redis is away, since a
 * dispatch that fails is made good by the sweep, and two for each worker, which wait for it to come back.
 */
import { createRedisBackend, type RedisOptions } from 'bullmq';
import { Redis } from 'ioredis';
import type { Log, Presence } from '../ports.js';
import { type Ground, inChunks, type JobRef, keptEvents } from './ground.js';
import { quietly, settledWithin } from './quiet.js';

/** Jobs asked about at once: enough for one round trip, few enough not to hold Redis up. */
const probedAtOnce = 500;
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
      for (const chunk of inChunks(jobs, probedAtOnce)) found.push(...(await probeChunk(pipeline, key, chunk)));
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
 * Where jobs of one queue are, by one look of Redis's: a backlog of ten thousand asked about command by command kept a process
 * busy with commands. With nothing waiting, a job that is neither finished nor active is a hash without a list (Redis evicted
 * the list): absent, or its step would wait for ever. Answers places in `presences`, from 0.
 */
const probeScript = `
local active = {}
for _, id in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do active[id] = true end
local waiting = redis.call('llen', KEYS[2]) + redis.call('llen', KEYS[3]) + redis.call('zcard', KEYS[4])
local found = {}
for n, id in ipairs(ARGV) do
  if active[id] then found[n] = 1
  elseif waiting == 0 or redis.call('exists', KEYS[7 + n]) == 0 or redis.call('zscore', KEYS[5], id)
    or redis.call('zscore', KEYS[6], id) or redis.call('zscore', KEYS[7], id) then found[n] = 2
  else found[n] = 0 end
end
return found`;

const probedParts = ['active', 'wait', 'paused', 'prioritized', 'completed', 'failed', 'delayed'];
const presences: readonly Presence[] = ['ready', 'active', 'absent'];

async function probeChunk(
  pipeline: (commands: (string | number)[][]) => Promise<unknown[]>,
  key: (name: string, part: string) => string,
  jobs: readonly JobRef[],
): Promise<Presence[]> {
  const idsOf = new Map<string, string[]>();
  for (const { name, id } of jobs) {
    const ids = idsOf.get(name);
    if (ids === undefined) idsOf.set(name, [id]);
    else ids.push(id);
  }
  const asked = [...idsOf].map(([name, ids]) => {
    const keys = [...probedParts, ...ids].map((part) => key(name, part));
    return ['eval', probeScript, keys.length, ...keys, ...ids];
  });
  const replies = (await pipeline(asked)) as number[][];
  const answersOf = new Map([...idsOf.keys()].map((name, n) => [name, (replies[n] ?? []).values()]));
  return jobs.map(({ name, id }) => {
    const presence = presences[answersOf.get(name)?.next().value ?? -1];
    // No answer is not absence: the sweep would hand the whole backlog over again.
    if (presence === undefined) throw new Error(`Redis did not say where job ${id} is`);
    return presence;
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
