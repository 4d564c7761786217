/**
 * How long to wait before the next attempt: exponential with jitter, under a cap, and never sooner than the provider asked.
 * Pure; the queue waits. Who may retry at all: decide.ts.
 */

/** A provider that asks for longer than this is tried again after this time. */
export const maxRetryAfterMs = 15 * 60_000;

export interface RetryDelay {
  /** The attempt that failed, from 1. */
  attempt: number;
  baseMs: number;
  capMs: number;
  /** What the provider asked for; null when it did not. */
  retryAfterMs: number | null;
  /** From 0 up to 1. */
  random: number;
}

/**
 * Half of the exponential delay is fixed and half is drawn ("equal jitter"), so that many steps that failed together come
 * back apart, and none at once. Retry-After is a floor, above the cap too, with a tenth (at most 5 s) drawn on top.
 */
export function retryDelayMs({ attempt, baseMs, capMs, retryAfterMs, random }: RetryDelay): number {
  const exponential = Math.min(capMs, baseMs * 2 ** Math.min(Math.max(attempt, 1) - 1, 52));
  const drawn = exponential / 2 + (exponential / 2) * random;
  if (retryAfterMs === null || !(retryAfterMs > 0)) return Math.round(drawn);
  const asked = Math.min(retryAfterMs, maxRetryAfterMs);
  return Math.ceil(Math.max(drawn, asked + Math.min(asked / 10, 5_000) * random));
}
