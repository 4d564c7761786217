import fc from 'fast-check';
import { expect, it } from 'vitest';
import { maxRetryAfterMs, retryDelayMs } from '../../src/core/retry.js';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const attempt = fc.integer({ min: 1, max: 10_000 });
const baseMs = fc.integer({ min: 0, max: 60_000 });
const capMs = fc.integer({ min: 60_000, max: 3_600_000 });

it('doubles from attempt to attempt, half of it drawn, up to the cap', () => {
  const delay = (attempt: number, random: number) =>
    retryDelayMs({ attempt, baseMs: 1_000, capMs: 60_000, retryAfterMs: null, random });
  expect([1, 2, 3, 4].map((n) => delay(n, 0))).toEqual([500, 1_000, 2_000, 4_000]);
  expect([1, 2, 3, 4].map((n) => delay(n, 0.5))).toEqual([750, 1_500, 3_000, 6_000]);
  expect(delay(50, 0)).toBe(30_000);
  expect(delay(5_000, 0.999_999)).toBe(60_000);
});

it('stays between half of the exponential delay and the cap', () => {
  fc.assert(
    fc.property(attempt, baseMs, capMs, random, (attempt, baseMs, capMs, random) => {
      const delay = retryDelayMs({ attempt, baseMs, capMs, retryAfterMs: null, random });
      const exponential = Math.min(capMs, baseMs * 2 ** Math.min(attempt - 1, 52));
      expect(Number.isInteger(delay)).toBe(true);
      expect(delay).toBeGreaterThanOrEqual(Math.floor(exponential / 2));
      expect(delay).toBeLessThanOrEqual(capMs);
    }),
  );
});

it('is never sooner than the provider asked, nor much later than both rules say', () => {
  const retryAfterMs = fc.integer({ min: 0, max: 10 * maxRetryAfterMs });
  fc.assert(
    fc.property(attempt, baseMs, capMs, retryAfterMs, random, (attempt, baseMs, capMs, retryAfterMs, random) => {
      const delay = retryDelayMs({ attempt, baseMs, capMs, retryAfterMs, random });
      const asked = Math.min(retryAfterMs, maxRetryAfterMs);
      expect(delay).toBeGreaterThanOrEqual(asked);
      expect(delay).toBeLessThanOrEqual(Math.max(capMs, asked + 5_001));
    }),
  );
});

it('takes a Retry-After that makes no sense for none', () => {
  const given = { attempt: 1, baseMs: 1_000, capMs: 60_000, random: 0 };
  for (const retryAfterMs of [Number.NaN, -5, 0]) expect(retryDelayMs({ ...given, retryAfterMs })).toBe(500);
});
