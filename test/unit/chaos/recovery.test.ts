/** How long a kill costs, as the lines of the processes tell it. */
import { describe, expect, it } from 'vitest';
import type { Evidence, Fault, WorkerLine } from '../../chaos/campaign/evidence.js';
import { tellingLines } from '../../chaos/campaign/evidence.js';
import { recoveriesOf } from '../../chaos/campaign/recovery.js';
import { figuresOf } from '../../chaos/recovery/kills.js';

const step = { runId: 'run_1', seq: 2, attemptsMade: 0, attempt: null, token: null };

function gap(at: number, pid: number, gap: 'before_claim' | 'after_claim', dispatch = 1): WorkerLine {
  return { at, worker: `a${pid}`, pid, what: 'gap', gap, dispatch, ...step };
}
function refused(at: number, pid: number, refusal: string): WorkerLine {
  return { at, worker: `a${pid}`, pid, what: 'refused', runId: 'run_1', seq: 2, dispatch: 2, refusal };
}
function log(at: number, msg: string, fields: Record<string, unknown>): WorkerLine {
  return { at, worker: 'm5', pid: 5, what: 'log', level: 'warn', msg, fields };
}
function kill(pid: number, hitAt: number, heldAt: 'before_claim' | 'after_claim' | 'after_record' | null): Fault {
  const inFlight = heldAt === null ? [] : [{ runId: 'run_1', seq: 2, gap: heldAt, token: null }];
  const fault = { id: pid, kind: 'kill', target: `a${pid}`, beganAt: hitAt, endedAt: hitAt, failed: null } as const;
  return { ...fault, details: { pid, hitAt }, inFlight };
}
function evidence(nemesis: Fault[], workers: WorkerLine[], steps: object[] = []): Evidence {
  return { nemesis, workers, tables: { steps } } as unknown as Evidence;
}
const ready: WorkerLine = { at: 0, worker: 'a1', pid: 1, what: 'ready', workerId: 'worker_1' };
const dead = (at: number) => log(at, tellingLines.declaredDead, { workerId: 'worker_1' });
const rescued = (at: number) => log(at, tellingLines.rescued, { runId: 'run_1', seq: 2 });

describe('the time from a kill to the next claim of a step elsewhere', () => {
  it('is told with what it was spent on', () => {
    const lines = [ready, gap(900, 1, 'after_claim'), dead(9_000), rescued(9_100), gap(9_150, 2, 'before_claim', 2)];
    const rest = [refused(9_160, 2, 'suspect_slot'), gap(9_500, 3, 'before_claim', 3), gap(9_510, 3, 'after_claim', 3)];
    const { times } = recoveriesOf(evidence([kill(1, 1_000, 'after_claim')], [...lines, ...rest]), 'kills');
    expect(times).toEqual([
      {
        ms: 8_510,
        gap: 'after_claim',
        furtherKills: 0,
        waits: {
          'the verdict that the process is dead': 8_000,
          'the claim to be taken back': 100,
          'a process to fetch it': 50,
          'the claim': 20,
          'its turn as a suspect': 340,
        },
      },
    ]);
  });

  it('counts the kills of whoever had the step by then, and no others', () => {
    const kills = [kill(1, 1_000, 'before_claim'), kill(2, 11_000, 'before_claim'), kill(4, 12_000, null)];
    const lines = [gap(990, 1, 'before_claim'), gap(10_990, 2, 'before_claim', 2), gap(20_000, 3, 'before_claim', 3)];
    const { times } = recoveriesOf(evidence(kills, [...lines, gap(20_010, 3, 'after_claim', 3)]), 'kills');
    expect(times.map(({ ms, furtherKills }) => [ms, furtherKills])).toEqual([
      [19_010, 1],
      [9_010, 0],
    ]);
    expect(times[0]?.waits).toEqual({
      'the sweep to find it': 9_990,
      'the claim': 20,
      'a taker that was killed with it': 9_000,
    });
  });

  it('knows a taker that only waited for its turn as a suspect, and one that had given the step up', () => {
    const kills = [kill(1, 1_000, 'after_claim'), kill(2, 10_000, null), kill(3, 14_000, null)];
    const lines = [gap(9_000, 2, 'before_claim', 2), refused(9_010, 2, 'suspect_slot')];
    const rest = [gap(13_000, 3, 'before_claim', 2), refused(13_010, 3, 'stale'), gap(15_000, 4, 'after_claim', 3)];
    const { times } = recoveriesOf(evidence(kills, [...lines, ...rest]), 'kills');
    expect(times[0]?.furtherKills).toBe(1);
    expect(times[0]?.waits['a taker that was killed while it waited for its turn as a suspect']).toBe(3_000);
  });

  it('is missing for a reason that is counted', () => {
    const once = [{ run_id: 'run_1', seq: 2, effect: 'once' }];
    const back = [gap(2_000, 2, 'after_claim')];
    const of = (fault: Fault, lines: WorkerLine[], steps: object[] = [], others: Fault[] = []) =>
      recoveriesOf(evidence([fault, ...others], lines, steps), 'kills').without;
    const wiped = { ...kill(9, 1_500, null), kind: 'queue_wiped' } as const;
    expect(of(kill(1, 1_000, 'after_claim'), back, once)).toMatchObject({ 'calls of once tools': 1 });
    expect(of(kill(1, 1_000, 'after_record'), back)).toMatchObject({ 'recorded before the kill': 1 });
    expect(of(kill(1, 1_000, 'after_claim'), [])).toMatchObject({ 'ended without another claim': 1 });
    expect(of(kill(1, 1_000, 'after_claim'), back, [], [wiped])).toMatchObject({ 'disturbed by another fault': 1 });
  });
});

it('the pieces of a measure add up, and what met further kills is told apart', () => {
  const time = (ms: number, furtherKills: number) => {
    const found = Math.min(ms, 9_000);
    const waits = { 'the sweep to find it': found, 'its turn as a suspect': ms - found };
    return { ms, gap: 'before_claim' as const, furtherKills, waits };
  };
  const without = {
    'calls of once tools': 1,
    'recorded before the kill': 0,
    'ended without another claim': 2,
    'disturbed by another fault': 0,
  };
  const piece = { minutes: 5, kills: 3, 'kills that hit a step in flight': 2, breaches: 0, without, load: [1, 2] };
  const figures = figuresOf([
    { ...piece, seed: 1, times: [time(9_000, 0), time(19_000, 1)] },
    { ...piece, seed: 2, times: [time(13_000, 0)] },
  ]);
  expect(figures).toMatchObject({
    seeds: [1, 2],
    kills: 6,
    'steps in flight': 3,
    'of them fetched and not yet claimed': 3,
    ms: { n: 3, max: 19_000 },
    'ms of those that met no further kill': { n: 2, max: 13_000 },
    'ms of those that met 1 further': { n: 1, max: 19_000 },
    'over 12 s, by what they waited for beyond what a death takes': { 'its turn as a suspect': 2 },
    'without a time': { 'calls of once tools': 2, 'ended without another claim': 4 },
  });
});
