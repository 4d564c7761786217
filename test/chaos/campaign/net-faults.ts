/** Faults of the net before a service: slow, reset, half open, frozen, refused; and the reply that never arrives. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Swallowed } from './evidence.js';
import { between, type FaultMaker, type Made, type Scene } from './faults.js';
import type { NetProxy } from './proxy.js';
import type { Random } from './random.js';

type Break = (proxy: NetProxy, forMs: number, random: Random) => Promise<Record<string, unknown>>;

const on =
  (make: Break) =>
  async (scene: Scene, random: Random): Promise<Made> => {
    const { postgres, redis } = scene.net;
    const isRedis = redis !== null && random.chance(0.5);
    const details = await make(isRedis ? redis : postgres, between(random, scene.times.awayMs), random);
    return { target: isRedis ? 'redis' : 'postgres', details };
  };

const swallowWithinMs = 3_000;

export const netFaults: FaultMaker[] = [
  {
    kind: 'net_latency',
    weight: 4,
    make: on(async (proxy, forMs, random) => {
      const delayMs = random.int(5, 200);
      proxy.delay(delayMs);
      await delay(2 * forMs);
      proxy.delay(0);
      return { delayMs, forMs: 2 * forMs };
    }),
  },
  { kind: 'net_reset', weight: 4, make: on(async (proxy) => ({ connections: proxy.reset() })) },
  {
    kind: 'net_half_open',
    weight: 3,
    make: on(async (proxy, _, random) => {
      const kept = random.chance(0.5);
      return { kept, connections: proxy.halfOpen(kept) };
    }),
  },
  {
    kind: 'net_frozen',
    weight: 3,
    make: on(async (proxy, forMs) => {
      proxy.freeze(true);
      await delay(forMs);
      proxy.freeze(false);
      return { forMs };
    }),
  },
  {
    kind: 'net_refused',
    weight: 3,
    make: on(async (proxy, forMs) => {
      await proxy.refuse(true);
      await delay(forMs);
      await proxy.refuse(false);
      return { forMs };
    }),
  },
];

export const swallowedReply: FaultMaker = {
  kind: 'reply_swallowed',
  weight: 10,
  async make({ net }, random) {
    const what = random.weighted<Swallowed>([
      { item: 'record', weight: 6 },
      { item: 'claim', weight: 3 },
      { item: 'start', weight: 1 },
    ]);
    const lost = await net.postgres.swallow(what, swallowWithinMs);
    if (lost === null) return { target: 'postgres', details: { what }, failed: 'none came' };
    const { runId, seq, token } = lost;
    return { target: 'postgres', details: { what }, inFlight: [{ runId, seq, token }] };
  },
};
