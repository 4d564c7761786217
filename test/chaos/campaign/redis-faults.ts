/** Faults of a Redis that holds the queue: wiped, restarted, restored old, full, demoted, its clients and scripts gone. */
import { setTimeout as delay } from 'node:timers/promises';
import { between, type FaultMaker, type Made, type Scene } from './faults.js';
import type { Random } from './random.js';
import type { RedisService } from './redis-service.js';

type Break = (
  redis: RedisService,
  forMs: number,
  random: Random,
  scene: Scene,
) => Promise<Record<string, unknown> | undefined>;

const on =
  (make: Break) =>
  async (scene: Scene, random: Random): Promise<Made> => {
    if (scene.redis === null) return { target: 'redis', failed: 'there is none' };
    const forMs = between(random, scene.times.awayMs);
    return { target: 'redis', details: (await make(scene.redis, forMs, random, scene)) ?? {} };
  };

export const redisFaults: FaultMaker[] = [
  {
    kind: 'queue_wiped',
    weight: 20,
    make: on(async ({ client }) => ({ keys: await client.dbsize(), answer: await client.flushall() })),
  },
  {
    kind: 'queue_restarted_empty',
    weight: 5,
    make: on(async (redis, afterMs) => {
      await redis.restart('empty', afterMs);
      return { afterMs };
    }),
  },
  {
    kind: 'queue_restored_old',
    weight: 5,
    make: on(async (redis, ageMs, random, { queues }) => {
      await redis.keepCopy();
      await delay(2 * ageMs);
      const afterMs = random.int(0, 500);
      await redis.restart('copy', afterMs);
      await queues.resumeAll();
      return { ageMs: 2 * ageMs, afterMs };
    }),
  },
  {
    kind: 'queue_out_of_memory',
    weight: 4,
    make: on(async ({ client }, forMs) => {
      await client.config('SET', 'maxmemory', '1');
      await delay(forMs);
      await client.config('SET', 'maxmemory', '0');
      return { forMs };
    }),
  },
  {
    kind: 'queue_read_only',
    weight: 4,
    make: on(async ({ client }, forMs) => {
      await client.replicaof('127.0.0.1', 1);
      await delay(forMs);
      await client.replicaof('NO', 'ONE');
      return { forMs };
    }),
  },
  {
    kind: 'queue_clients_killed',
    weight: 4,
    make: on(async ({ client }) => ({ clients: await client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes') })),
  },
  {
    kind: 'queue_scripts_flushed',
    weight: 3,
    make: on(async ({ client }) => ({ answer: await client.script('FLUSH') })),
  },
];
