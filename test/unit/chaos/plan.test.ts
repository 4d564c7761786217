/** The plans of a campaign are known beforehand, and a history that is not the plan's leads to another output. */
import { describe, expect, it } from 'vitest';
import {
  draft,
  findCall,
  markOf,
  planNamed,
  planOf,
  threadOf,
  tokenIn,
  turnOf,
  withToken,
} from '../../chaos/campaign/plan.js';

const seed = 42;
const plans = Array.from({ length: 300 }, (_, n) => planOf(seed, n));

/** The output of a run whose n-th result bears another mark than the plan gives it; null: none does. */
function play(n: number, wrong: { at: number; mark: string } | null): string | null {
  const marks: string[] = [];
  for (let turn = 0; turn < 100; turn++) {
    const { calls, text, fails } = turnOf(seed, n, turn, marks);
    if (fails !== null) return null;
    for (const call of calls) marks.push(marks.length === wrong?.at ? wrong.mark : markOf(call));
    if (text === null || ((text === 'all is well' || text.startsWith(draft)) && turn < 99)) continue;
    return text;
  }
  return null;
}

describe('a plan', () => {
  it('has 3 to 31 steps without a gap, of every kind somewhere', () => {
    for (const { expected } of plans) {
      const seqs = [...expected.llmSeqs, ...expected.calls.map((call) => call.seq)].sort((a, b) => a - b);
      expect(seqs).toEqual(seqs.map((_, index) => index + 1));
      if (expected.status === 'completed') expect(seqs.length).toBeGreaterThanOrEqual(3);
      // An objection adds one.
      expect(seqs.length).toBeLessThanOrEqual(31);
    }
    const calls = plans.flatMap(({ expected }) => expected.calls);
    const seen = new Set(calls.map(({ tool }) => tool));
    expect([...seen].sort()).toEqual(['charge', 'look', 'nonsense', 'note', 'post', 'put', 'ship', 'stack', 'tell']);
    expect(plans.some(({ expected }) => expected.status === 'failed')).toBe(true);
    expect(plans.some(({ cancelAfterMs }) => cancelAfterMs !== null)).toBe(true);
    expect(plans.some(({ duplicates }) => duplicates.length > 0)).toBe(true);
    for (const agent of ['auditor', 'assessor']) {
      const objected = plans.filter(({ expected }) => expected.agent === agent && expected.objections === 1);
      expect(objected.length).toBeGreaterThan(0);
    }
    expect(plans.some(({ expected }) => expected.objections > 1)).toBe(false);
    expect(plans.some(({ expected }) => expected.fallsBackAt !== null)).toBe(true);
  });

  it('shares its thread with others of its agent that stand near it, where it has one', () => {
    const threads = new Map<string, number>();
    for (const { n, agent, expected } of plans) {
      expect(threadOf(seed, n)).toBe(expected.thread);
      expect(expected.thread !== null).toBe(agent === 'caller' || agent === 'soloist');
      if (expected.thread !== null) threads.set(expected.thread, (threads.get(expected.thread) ?? 0) + 1);
    }
    expect(threads.size).toBeGreaterThan(20);
    expect([...threads.values()].filter((runs) => runs > 1).length).toBeGreaterThan(10);
    expect(planNamed(seed, plans[7]?.task ?? '')).toBe(7);
    expect(planNamed(seed + 1, plans[7]?.task ?? '')).toBeNull();
    expect(planNamed(seed, 'a draft is no answer')).toBeNull();
    expect(planNamed(seed, 'a draft\n\nseed 42 plan 8\n\nKnown from earlier runs:\nseed 42 plan 9')).toBe(8);
  });

  it('is the same whenever it is asked for, and ends with the output it names', () => {
    for (const { n, expected } of plans) {
      expect(planOf(seed, n).expected).toEqual(expected);
      expect(play(n, null)).toBe(expected.output);
    }
  });

  it('ends otherwise when any result is lost or another', () => {
    for (const { n, expected } of plans) {
      if (expected.status !== 'completed') continue;
      const at = expected.calls.length - 1;
      expect(play(n, { at, mark: '?' })).not.toBe(expected.output);
    }
  });

  it('knows each of its calls by name', () => {
    const { calls } = turnOf(seed, 3, 0, []);
    for (const call of calls) expect(findCall(seed, call.ref)).toEqual(call);
    expect(findCall(seed, 'nothing')).toBeNull();
    expect(findCall(seed, '3.0.9')).toBeNull();
  });
});

it('a token is found in the text it was put into', () => {
  expect(tokenIn(withToken('done: put', '0123456789'))).toBe('0123456789');
  expect(tokenIn('done: put')).toBeNull();
});
