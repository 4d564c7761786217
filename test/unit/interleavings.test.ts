/**
 * The protocol in process: ten seconds of interleavings of two workers, maintenance, client and faults, each a function of
 * its seed. `npm run interleavings` plays for longer.
 */
import { describe, expect, it } from 'vitest';
import { playOne, type Told } from '../interleavings/play.js';
import type { Ground } from '../interleavings/process.js';

const forMs = 10_000;
/** Seeds that once found a fault of the engine, with what it was. */
const keptSeeds: readonly { seed: number; found: string }[] = [
  { seed: 8, found: 'the facts of a call that stood still between its result and them were lost' },
];
/** All who try it on one day try the same ones. */
const firstOfDay = Math.floor(Date.now() / 86_400_000) * 1_000_000;

const story = ({ seed, story, broken }: Told) =>
  `npm run interleavings -- --seed ${seed} --count 1\n${[...story, ...broken].join('\n')}`;

describe('whatever is called in whatever order, lost, killed and frozen', () => {
  it('every run comes to its known end, and the invariants hold', { timeout: 60_000 }, async () => {
    const kept = keptSeeds.map(({ seed }) => seed);
    const endsAt = performance.now() + forMs;
    let played = 0;
    for (let next = firstOfDay; performance.now() < endsAt; played++) {
      const told = await playOne(kept.shift() ?? next++);
      expect(told.broken, story(told)).toEqual([]);
    }
    console.log(`${played} interleavings from seed ${firstOfDay} on`);
  });

  it.each<[string, (ground: Ground) => void]>([
    ['a sweep that finds nothing', ({ watch }) => Object.assign(watch, { dueSteps: async () => [] })],
    [
      'claims that nobody takes back',
      ({ watch }) => Object.assign(watch, { claimsOfDeadWorkers: async () => [], overdueClaims: async () => [] }),
    ],
    [
      'a record that writes whatever claim it comes from',
      ({ tables, store }) => {
        const { change } = store;
        store.change = (runId, scope, rule, options) => {
          if (options?.receipt === undefined) return change(runId, scope, rule, options);
          for (const step of tables.runs.get(runId)?.steps.values() ?? []) {
            if (step.claim !== null) step.claim.token = options.receipt;
          }
          return change(runId, scope, rule, options);
        };
      },
    ],
    [
      'hearts that are taken for dead though they beat',
      ({ tables, watch }) => {
        const { liveWorkers, declareDead } = watch;
        watch.liveWorkers = async () => (await liveWorkers()).map((worker) => ({ ...worker, beat: 0 }));
        watch.declareDead = async (id) => declareDead(id, tables.workers.get(id)?.beat ?? 0);
      },
    ],
    [
      'calls that were lost and cost nothing',
      ({ tables, store }) => {
        const { change } = store;
        store.change = async (runId, scope, rule, options) => {
          const before = tables.runs.get(runId)?.run.usage;
          const changed = await change(runId, scope, rule, options);
          const run = tables.runs.get(runId)?.run;
          if (options?.receipt === undefined && run !== undefined && before !== undefined) run.usage = before;
          return changed;
        };
      },
    ],
    [
      'jobs of old dispatches that claim their steps',
      ({ tables, store }) => {
        const { change } = store;
        store.change = async (runId, scope, rule, options) => {
          const before = new Map([...(tables.runs.get(runId)?.steps ?? [])].map(([seq, step]) => [seq, step.dispatch]));
          const changed = await change(runId, scope, rule, options);
          for (const [seq, dispatch] of before)
            Object.assign(tables.runs.get(runId)?.steps.get(seq) ?? {}, { dispatch });
          return changed;
        };
      },
    ],
  ])('finds out %s', { timeout: 60_000 }, async (_name, spoil) => {
    for (let seed = 0; seed < 2_000; seed++) {
      if ((await playOne(seed, spoil)).broken.length > 0) return;
    }
    expect.fail('nobody noticed');
  });
});
