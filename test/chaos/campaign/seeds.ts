/**
 * Seeds under which a campaign once found a fault of the engine. CI replays one a day on each queue, in turn; a campaign
 * that finds a new one leaves its seed here, with what it was. A seed draws what runs do and what is broken, and other
 * things since runs do more than they did then: what was found has a test of its own besides.
 */
import type { Backend } from './evidence.js';

export interface KeptSeed {
  backend: Backend;
  seed: number;
  found: string;
}

export const keptSeeds: readonly KeptSeed[] = [
  {
    backend: 'postgres',
    seed: 7,
    found: 'a statement sent into a connection that had died without a word was waited for, for ever',
  },
  { backend: 'redis', seed: 6, found: 'a model call that was not answered in time cost its run nothing' },
];

/** The kept seed of that day; null where none is kept. */
export function seedOfDay(backend: Backend, day = Math.floor(Date.now() / 86_400_000)): number | null {
  const mine = keptSeeds.filter((kept) => kept.backend === backend);
  return mine[day % mine.length]?.seed ?? null;
}
