/** The suspects that met a process busy with another: when it hands them back to the queue, on a clock by hand. */
import { beforeEach, describe, expect, it } from 'vitest';
import { Suspects, type SuspectsParts } from '../../src/engine/suspects.js';
import type { Delivery } from '../../src/ports.js';
import { FakeClock } from '../../src/testing/fake-clock.js';

let clock: FakeClock;
let called: number[];
let suspects: Suspects;
/** Steps that somebody else has dispatched meanwhile. */
let gone: Set<number>;

beforeEach(() => {
  clock = new FakeClock();
  called = [];
  gone = new Set();
  const parts = {
    clock,
    store: {
      change: async (runId: string, { seqs: [seq = 0] }: { seqs: number[] }) => ({
        dispatches: gone.has(seq) ? [] : [{ queue: 'tool', runId, seq, dispatch: 2 }],
      }),
    },
    dispatch: async (dispatches: readonly { seq: number }[]) => void called.push(...dispatches.map(({ seq }) => seq)),
  };
  suspects = new Suspects(parts as unknown as SuspectsParts);
});

const delivery = (seq: number) => ({ runId: 'run_1', seq, dispatch: 1, attemptsMade: 0 }) as Delivery;

describe('suspects that were put off', () => {
  beforeEach(() => {
    expect(suspects.take('busy')).toBe(true);
    expect(suspects.take('other')).toBe(false);
    for (const seq of [1, 2, 3]) suspects.await(delivery(seq));
  });

  it('are handed back one after the other by a process that is free, also where others take them', async () => {
    await clock.advance(100);
    expect(called).toEqual([]);
    suspects.free('busy');
    await clock.advance(0);
    expect(called).toEqual([1]);
    await clock.advance(500);
    expect(called).toEqual([1, 2, 3]);
  });

  it('wait for a moment while the process has taken the one that it called', async () => {
    suspects.free('busy');
    await clock.advance(0);
    suspects.take('first');
    await clock.advance(300);
    expect(called).toEqual([1]);
    suspects.free('first');
    await clock.advance(0);
    expect(called).toEqual([1, 2]);
  });

  it('are handed back one after the other by a process that is busy for longer', async () => {
    await clock.advance(200);
    expect(called).toEqual([]);
    await clock.advance(200);
    expect(called).toEqual([1]);
    await clock.advance(1_000);
    expect(called).toEqual([1, 2, 3]);
    suspects.free('busy');
    await clock.advance(5_000);
    expect(called).toEqual([1, 2, 3]);
  });

  it('are passed over without a pause where somebody else has dispatched them', async () => {
    gone = new Set([1, 2]);
    suspects.free('busy');
    await clock.advance(0);
    expect(called).toEqual([3]);
  });
});

it('so many that the sweep comes first are forgotten, and not kept for as long as a process is busy', async () => {
  suspects.take('busy');
  for (let seq = 1; seq <= 1_000; seq++) suspects.await(delivery(seq));
  await clock.advance(7_000);
  const handedBack = called.length;
  expect(handedBack).toBeGreaterThan(10);
  expect(handedBack).toBeLessThan(30);
  suspects.free('busy');
  await clock.advance(60_000);
  expect(called).toHaveLength(handedBack);
});

it('a suspect that was put off when the process has become free is handed back at once', async () => {
  suspects.await(delivery(1));
  await clock.advance(0);
  expect(called).toEqual([1]);
});
