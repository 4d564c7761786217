import { describe, expect, it } from 'vitest';
import {
  countOf,
  formatAge,
  formatCached,
  formatCost,
  formatMs,
  formatSpan,
  formatTokens,
} from '../../../src/cli/format.js';
import { noUsage } from '../../../src/core/run.js';

const now = new Date('2026-03-01T12:00:00Z');

describe('numbers as people read them', () => {
  it.each([
    [0, '0.0 s'],
    [340, '0.3 s'],
    [59_949, '59.9 s'],
    [59_960, '1m00s'],
    [125_000, '2m05s'],
    [3_599_600, '1h00m'],
    [3_720_000, '1h02m'],
    [3 * 86_400_000 + 4 * 3_600_000, '3d04h'],
    [-5, '0.0 s'],
  ])('%d ms is %s', (ms, text) => expect(formatMs(ms)).toBe(text));

  it('an age has one unit, and none is negative', () => {
    expect(formatAge('2026-03-01T11:59:48Z', now)).toBe('12s');
    expect(formatAge('2026-03-01T08:59:48Z', now)).toBe('3h');
    expect(formatAge('2026-02-01T12:00:00Z', now)).toBe('28d');
    expect(formatAge('2026-03-01T12:00:05Z', now)).toBe('0s');
  });

  it('a span goes on until now while its end is open', () => {
    expect(formatSpan('2026-03-01T11:59:58Z', null, now)).toBe('2.0 s');
    expect(formatSpan(null, null, now)).toBe('');
  });

  it('money shows its estimates, and is left out where no price is known', () => {
    expect(formatCost({ ...noUsage, costUsd: 0.00213 })).toBe('$0.0021');
    expect(formatCost({ ...noUsage, costUsd: 12.345, estimated: true })).toBe('~$12.35');
    expect(formatCost({ ...noUsage, costUsd: 0.00001 })).toBe('<$0.0001');
    expect(formatCost(noUsage)).toBe('');
    expect(formatCost(null)).toBe('');
  });

  it('tokens and counts are grouped', () => {
    expect(formatTokens({ ...noUsage, inputTokens: 1_204, outputTokens: 88 })).toBe('1,204 in, 88 out');
    expect(formatTokens(noUsage)).toBe('');
    expect(formatCached({ ...noUsage, inputTokens: 1_200, cachedInputTokens: 756 })).toBe('63 % cached');
    expect(formatCached({ ...noUsage, inputTokens: 1_200_000, cachedInputTokens: 1 })).toBe('1 % cached');
    expect([formatCached({ ...noUsage, inputTokens: 1_200 }), formatCached(null)]).toEqual(['', '']);
    expect([countOf(1, 'run'), countOf(5_000, 'run')]).toEqual(['1 run', '5,000 runs']);
  });
});
