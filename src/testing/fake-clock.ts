/**
 * A clock driven by hand: time passes only in `advance`, which wakes each sleeper in its order and lets what it wakes go on
 * before the next. What sleeps on it depends on no real time, so a test of hours takes none.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../ports.js';

interface Sleeper {
  atMs: number;
  wake: () => void;
}

export class FakeClock implements Clock {
  #elapsedMs = 0;
  readonly #startMs: number;
  readonly #sleepers = new Set<Sleeper>();

  constructor(startAt = new Date('2026-01-05T09:00:00.000Z')) {
    this.#startMs = startAt.getTime();
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  /** The time of day, for a store that dates its rows by this clock. */
  now(): Date {
    return new Date(this.#startMs + this.#elapsedMs);
  }

  /** As the system's clock: an abort ends the sleep, and is no error. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const sleeper = { atMs: this.#elapsedMs + Math.max(0, ms), wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }

  /** Lets time pass. Resolves when everything that was woken meanwhile sleeps again, waits for something else, or is done. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#elapsedMs + ms;
    await turn();
    for (let next = this.#nextBefore(untilMs); next !== undefined; next = this.#nextBefore(untilMs)) {
      this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
      next.wake();
      await turn();
    }
    this.#elapsedMs = untilMs;
  }

  /** Lets time pass until somebody is woken; not at all when nobody sleeps. */
  async toNext(): Promise<void> {
    const next = this.#nextBefore(Number.POSITIVE_INFINITY);
    if (next === undefined) return;
    this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
    next.wake();
    await turn();
  }

  /** Lets time pass at once, as for a process that was frozen: all who should have been woken meanwhile wake at its end. */
  async jump(ms: number): Promise<void> {
    this.#elapsedMs += ms;
    await this.advance(0);
  }

  #nextBefore(untilMs: number): Sleeper | undefined {
    let first: Sleeper | undefined;
    for (const sleeper of this.#sleepers) {
      if (sleeper.atMs <= untilMs && (first === undefined || sleeper.atMs < first.atMs)) first = sleeper;
    }
    return first;
  }
}
