/** Faults of the net before a service: slow, reset, half open, frozen, refused; and the reply that never arrives. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Swallowed } from './evidence.js';
import { between, type FaultMaker, type Made, type Scene } from './faults.js';
import { swallowOne } from './net.js';
import type { NetProxy } from './proxy.js';
import type { Random } from './random.js';

type Break = (
  proxies: readonly NetProxy[],
  forMs: number,
  random: Random,
  frozenMs: number,
) => Promise<Record<string, unknown>>;

/** Half of them hit everybody's way to the service, the others that of one process, which the rest then takes for dead. */
const on =
  (make: Break) =>
  async (scene: Scene, random: Random): Promise<Made> => {
    const nets = random.chance(0.5) ? scene.nets : [random.pick(scene.nets)];
    const isRedis = scene.redis !== null && random.chance(0.5);
    const proxies = nets.flatMap(({ postgres, redis }) => (isRedis ? (redis ?? []) : postgres));
    const details = await make(proxies, between(random, scene.times.awayMs), random, scene.times.frozenMs);
    const whose = nets.length === 1 ? (nets[0]?.name ?? '') : 'all';
    return { target: isRedis ? 'redis' : 'postgres', details: { ...details, whose } };
  };

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

const swallowWithinMs = 3_000;

export const netFaults: FaultMaker[] = [
  {
    kind: 'net_latency',
    weight: 4,
    make: on(async (proxies, forMs, random) => {
      const delayMs = random.int(5, 200);
      for (const proxy of proxies) proxy.delay(delayMs);
      await delay(2 * forMs);
      for (const proxy of proxies) proxy.delay(0);
      return { delayMs, forMs: 2 * forMs };
    }),
  },
  {
    kind: 'net_reset',
    weight: 4,
    make: on(async (proxies) => ({ connections: sum(proxies.map((proxy) => proxy.reset())) })),
  },
  {
    kind: 'net_half_open',
    weight: 3,
    make: on(async (proxies, _, random) => {
      const kept = random.chance(0.5);
      return { kept, connections: sum(proxies.map((proxy) => proxy.halfOpen(kept))) };
    }),
  },
  {
    kind: 'net_frozen',
    weight: 4,
    make: on(async (proxies, shortMs, random, frozenMs) => {
      const forMs = random.chance(0.5) ? frozenMs : shortMs;
      for (const proxy of proxies) proxy.freeze(true);
      await delay(forMs);
      for (const proxy of proxies) proxy.freeze(false);
      return { forMs };
    }),
  },
  {
    kind: 'net_refused',
    weight: 3,
    make: on(async (proxies, forMs) => {
      await Promise.all(proxies.map((proxy) => proxy.refuse(true)));
      await delay(forMs);
      await Promise.all(proxies.map((proxy) => proxy.refuse(false)));
      return { forMs };
    }),
  },
];

export const swallowedReply: FaultMaker = {
  kind: 'reply_swallowed',
  weight: 18,
  async make({ nets }, random) {
    const what = random.weighted<Swallowed>([
      { item: 'record', weight: 6 },
      { item: 'claim', weight: 3 },
      { item: 'start', weight: 1 },
      { item: 'rescue', weight: 1 },
      { item: 'command', weight: 1 },
    ]);
    const lost = await swallowOne(nets, what, swallowWithinMs);
    if (lost === null) return { target: 'postgres', details: { what }, failed: 'none came' };
    const { runId, seq, token } = lost;
    return { target: 'postgres', details: { what }, inFlight: [{ runId, seq, token }] };
  },
};
