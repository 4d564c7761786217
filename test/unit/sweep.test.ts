/** How often the sweep looks, on a clock by hand. */
import { expect, it } from 'vitest';
import { Sweep } from '../../src/engine/sweep.js';
import type { DueStep, Presence, Queue, Watch } from '../../src/ports.js';

/** A queue that knows every step but those taken out of it, and rounds of a second each. */
function sweeping(dueSteps: number) {
  let now = 0;
  const looks: number[] = [];
  const added: number[] = [];
  const where = new Map<number, Presence>();
  const due = Array.from({ length: dueSteps }, (_, n) => ({ runId: 'run_1', seq: n + 1, dispatch: 1, queue: 'llm' }));
  const watch = {
    dueSteps: async (_: number, after: DueStep | null, size: number) => {
      if (after === null) looks.push(now);
      return due.slice(after?.seq ?? 0, (after?.seq ?? 0) + size);
    },
    raiseDispatch: async (steps: readonly DueStep[]) => steps,
    unshownDeaths: async () => [],
    queueEpoch: async () => 1,
    raiseQueueEpoch: async () => false,
  } as unknown as Watch;
  const queue = {
    probe: async (steps: readonly DueStep[]) => steps.map(({ seq }) => where.get(seq) ?? 'ready'),
    add: async (steps: readonly DueStep[]) => {
      for (const { seq } of steps) {
        added.push(now);
        where.delete(seq);
      }
    },
    readEpoch: async () => '1',
  } as unknown as Queue;
  const clock = { monotonicMs: () => now } as never;
  const log = { info() {}, warn() {} } as never;
  const sweep = new Sweep({ watch, queue, clock, log });
  return {
    looks,
    added,
    where,
    async pass(seconds: number) {
      for (let n = 0; n < seconds; n++) {
        await sweep.round();
        now += 1_000;
      }
    },
  };
}

it('looks at a short backlog every other second, and at a long one every eighth', async () => {
  const short = sweeping(100);
  await short.pass(60);
  expect(short.looks.slice(-4)).toEqual([52_000, 54_000, 56_000, 58_000]);
  const long = sweeping(101);
  await long.pass(60);
  expect(long.looks.slice(-4)).toEqual([30_000, 38_000, 46_000, 54_000]);
});

it('looks at a long backlog every fifth second while jobs of it are being claimed, others at every look', async () => {
  const long = sweeping(10_000);
  for (let second = 0; second < 60; second++) {
    long.where.clear();
    long.where.set(second + 1, 'active');
    await long.pass(1);
  }
  expect(long.looks.slice(-3)).toEqual([46_000, 51_000, 56_000]);
  expect(long.added).toEqual([]);
});

it.each(
  [0, 1, 2, 3, 4, 5, 6, 7].flatMap((phase) => [
    { dueSteps: 50, withinSeconds: 8, phase },
    { dueSteps: 5_000, withinSeconds: 14, phase },
  ]),
)(
  'hands a step over again whose worker died with its job, within $withinSeconds s, $phase s on, beside $dueSteps due steps',
  async ({ dueSteps, withinSeconds, phase }) => {
    const { pass, where, added } = sweeping(dueSteps);
    await pass(60 + phase);
    where.set(7, 'active');
    await pass(withinSeconds + 1);
    expect(added.length).toBe(1);
  },
);
