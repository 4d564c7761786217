/**
 * Faults of a worker's process: killed at random or in a gap, told to stop, stopped and let go on, its event loop blocked,
 * its clock wrong. A place that is hit is followed by a new process; others work meanwhile.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { gaps } from '../../../src/engine/gaps.js';
import { between, type FaultMaker, type Made, type Scene } from './faults.js';
import type { Place, WrongClock } from './fleet.js';
import type { Random } from './random.js';

const againWithinMs = 60_000;
const stopWithinMs = 1_500;

/** Takes a place in hand. It may be the last that works. */
async function onPlace(
  scene: Scene,
  random: Random,
  hit: (place: Place) => Promise<Omit<Made, 'target'>>,
  may: (place: Place) => boolean = () => true,
): Promise<Made> {
  const able = scene.fleet.idle().filter(may);
  if (able.length === 0) return { target: 'none', failed: 'no process is idle' };
  const place = random.pick(able);
  place.busy = true;
  try {
    return { target: place.name, ...(await hit(place)) };
  } finally {
    place.busy = false;
  }
}

const takesSteps = (place: Place) => place.role !== 'maintenance';

/** Half of them are followed at once, as by a service manager, the others after a while. */
function followLater(place: Place, random: Random, clock: WrongClock | null = null): void {
  place.restartWith({ afterMs: random.chance(0.5) ? 0 : random.int(100, 1_500), clock });
}

async function endBy(place: Place, signal: 'SIGKILL' | 'SIGTERM', now: () => number) {
  const hit = { pid: place.pid, at: now() };
  place.signal(signal);
  await place.gone();
  return hit;
}

async function followed(place: Place): Promise<{ failed?: string }> {
  return (await place.readyAgain(againWithinMs)) ? {} : { failed: 'no process followed in time' };
}

export function killFaults(now: () => number): FaultMaker[] {
  return [
    {
      kind: 'kill',
      weight: 30,
      make: (scene, random) =>
        onPlace(
          scene,
          random,
          async (place) => {
            followLater(place, random);
            const hit = await endBy(place, 'SIGKILL', now);
            // Others may be killed while this one is still starting.
            place.busy = false;
            return { hit, details: { pid: hit.pid } };
          },
          (place) => takesSteps(place) || random.chance(0.25),
        ),
    },
    {
      kind: 'kill_at_gap',
      weight: 30,
      make: (scene, random) =>
        onPlace(
          scene,
          random,
          async (place) => {
            const { pid } = place;
            const gap = random.pick(gaps);
            // Before the claim nobody knows yet of what effect the step is.
            const effect =
              gap === 'before_claim' || random.chance(0.4)
                ? null
                : random.pick(['llm', 'none', 'idempotent', 'once'] as const);
            followLater(place, random);
            place.tell({ do: 'die_at', gap, effect });
            const died = await Promise.race([place.gone().then(() => true), delay(scene.times.gapWithinMs, false)]);
            const details = { pid, gap, effect };
            if (died) return { hit: { pid, at: now() }, details };
            place.tell({ do: 'live' });
            return { details, failed: 'no such delivery came' };
          },
          takesSteps,
        ),
    },
  ];
}

export function processFaults(now: () => number): FaultMaker[] {
  const startWrong = (scene: Scene, random: Random, clock: WrongClock) =>
    onPlace(
      scene,
      random,
      async (place) => {
        place.restartWith({ afterMs: 0, clock });
        const hit = await endBy(place, 'SIGKILL', now);
        return { hit, details: { pid: hit.pid, ...clock }, ...(await followed(place)) };
      },
      takesSteps,
    );

  return [
    {
      kind: 'sigterm',
      weight: 8,
      make: (scene, random) =>
        onPlace(scene, random, async (place) => {
          followLater(place, random);
          const hit = await endBy(place, 'SIGTERM', now);
          return { hit, details: { pid: hit.pid, tookMs: Math.round(now() - hit.at) } };
        }),
    },
    {
      kind: 'zombie',
      weight: 26,
      aside: true,
      make: (scene, random) =>
        onPlace(
          scene,
          random,
          async (place) => {
            const forMs = between(random, scene.times.zombieMs);
            const gap = random.pick(['after_claim', 'after_call'] as const);
            // It stops itself where its step is in the balance, and is stopped wherever it is when no step comes.
            place.tell({ do: 'stop_at', gap });
            await delay(stopWithinMs);
            const hit = { pid: place.pid, at: now() };
            place.signal('SIGSTOP');
            await delay(forMs);
            place.tell({ do: 'live' });
            place.signal('SIGCONT');
            return { hit, details: { pid: hit.pid, gap, forMs } };
          },
          takesSteps,
        ),
    },
    {
      kind: 'blocked_loop',
      weight: 4,
      aside: true,
      make: (scene, random) =>
        onPlace(
          scene,
          random,
          async (place) => {
            const hit = { pid: place.pid, at: now() };
            const forMs = between(random, scene.times.blockedMs);
            place.tell({ do: 'block', ms: forMs });
            await delay(forMs);
            return { hit, details: { pid: hit.pid, forMs } };
          },
          takesSteps,
        ),
    },
    {
      kind: 'clock_off',
      weight: 3,
      make: (scene, random) => startWrong(scene, random, { offMs: random.pick([-1, 1]) * 3_600_000, afterMs: 0 }),
    },
    {
      kind: 'clock_jump',
      weight: 2,
      make: (scene, random) =>
        startWrong(scene, random, { offMs: random.pick([-1, 1]) * 3_600_000, afterMs: random.int(3_000, 6_000) }),
    },
  ];
}
