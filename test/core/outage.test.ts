import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countFailure, longestTrialMs, type Outage, takeTrial } from '../../src/core/outage.js';

const rule = { failures: 4, windowMs: 60_000, trialMs: 30_000 };
const start = Date.parse('2026-01-05T09:00:00Z');
const at = (ms: number) => new Date(start + ms);

/** Failures of these runs, a second apart, with so many calls gone well before each. */
function count(runs: readonly string[], { wellBefore = 0, everyMs = 1_000 } = {}): Outage {
  let outage: Outage | null = null;
  runs.forEach((runId, index) => {
    const failure = { agent: 'a', tool: 't', runId, calls: wellBefore + 1, rule };
    outage = countFailure(outage, failure, at(index * everyMs));
  });
  if (outage === null) throw new Error('nothing was counted');
  return outage;
}

describe('an outage', () => {
  it('opens at its number of failures, of three runs at least', () => {
    expect(count(['1', '2', '3']).openedAt).toBeNull();
    expect(count(['1', '2', '3', '1'])).toMatchObject({ openedAt: at(3_000), trialAt: at(33_000) });
    expect(count(['1', '2', '1', '2', '1', '2']).openedAt).toBeNull();
  });

  it('does not open where more calls go well than fail, nor on failures far apart', () => {
    const runs = ['1', '2', '3', '4', '5', '6', '7', '8'];
    expect(count(runs, { wellBefore: 1 }).openedAt).not.toBeNull();
    expect(count(runs, { wellBefore: 2 }).openedAt).toBeNull();
    expect(count(runs, { everyMs: 25_000 }).openedAt).toBeNull();
  });

  it('stays as it is while more calls fail that were under way', () => {
    const open = count(['1', '2', '3', '4']);
    expect(countFailure(open, { agent: 'a', tool: 't', runId: '9', calls: 5, rule }, at(9_000))).toBe(open);
  });

  it('lets one call through at a time, less and less often', () => {
    let outage = count(['1', '2', '3', '4']);
    expect(takeTrial(outage, rule, at(32_999))).toBeNull();
    const waits: number[] = [];
    for (let trial = 0; trial < 8; trial++) {
      const now = outage.trialAt ?? at(0);
      const taken = takeTrial(outage, rule, now);
      if (taken === null) throw new Error('a trial is due');
      expect(takeTrial(taken, rule, now)).toBeNull();
      waits.push((taken.trialAt?.getTime() ?? 0) - now.getTime());
      outage = taken;
    }
    expect(waits.slice(0, 5)).toEqual([60_000, 120_000, 240_000, 480_000, longestTrialMs]);
    expect(waits.at(-1)).toBe(longestTrialMs);
  });

  it('is never found where no three runs failed, whatever else happens', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('1', '2'), fc.nat(20), fc.nat(30_000))), (failures) => {
        let outage: Outage | null = null;
        let ms = 0;
        for (const [runId, calls, laterMs] of failures) {
          ms += laterMs;
          outage = countFailure(outage, { agent: 'a', tool: 't', runId, calls, rule }, at(ms));
          expect(outage.openedAt).toBeNull();
          expect(outage.runs.length).toBeLessThanOrEqual(3);
        }
      }),
    );
  });
});
