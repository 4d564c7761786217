/** What a measure is given, and what several of them need: a theatre at default times, and a steady load. */
import { setTimeout as delay } from 'node:timers/promises';
import { Clients } from '../campaign/clients.js';
import type { Backend } from '../campaign/evidence.js';
import { type Plan, planOf } from '../campaign/plan.js';
import { profiles } from '../campaign/profiles.js';
import { inTheatre, type Theatre } from '../campaign/theatre.js';

export interface Setting {
  seed: number;
  backend: Backend;
  /** Null: as long as the measure needs. */
  minutes: number | null;
  /** Made anew; gone afterwards. */
  folder: string;
  say: (line: string) => void;
}

export type Measure = (setting: Setting) => Promise<object>;

export async function atDefaultTimes<T>(
  setting: Setting,
  layout: string,
  play: (theatre: Theatre) => Promise<T>,
): Promise<T> {
  const { heartbeatMs, deathMs, concurrency } = profiles.real;
  return inTheatre({ ...setting, heartbeatMs, deathMs, concurrency, layout }, play);
}

/** Runs that end well by themselves, one after the other, until the play is over. */
export async function underLoad<T>(
  theatre: Theatre,
  { seed, startEveryMs, openRuns }: { seed: number; startEveryMs: number; openRuns: number },
  play: () => Promise<T>,
): Promise<T> {
  const clients = new Clients({
    ...theatre,
    seed,
    services: theatre.services('clients'),
    plans: plansThatEndWell(seed),
    openRuns,
    startEveryMs,
  });
  await clients.open();
  let over = false;
  const starting = clients.startAll(() => !over);
  try {
    return await play();
  } finally {
    over = true;
    await starting;
    await clients.close();
  }
}

const longestLoad = 100_000;

function* plansThatEndWell(seed: number): Iterable<Plan> {
  for (let n = 0; n < longestLoad; n++) {
    const plan = planOf(seed, n);
    if (plan.expected.status === 'completed' && !plan.expected.cancels) yield plan;
  }
}

/** Waits until it is so, and says how long that took; throws where it takes longer than the time given. */
export async function until(isSo: () => Promise<boolean>, withinMs: number, what: string): Promise<number> {
  const began = performance.now();
  while (!(await isSo())) {
    if (performance.now() - began > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(50);
  }
  return Math.round(performance.now() - began);
}
