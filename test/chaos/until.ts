/** Waits for a condition by asking again, for a bounded time; a test never sleeps for luck. */
import { setTimeout as delay } from 'node:timers/promises';

/** What the probe found, as soon as it finds something (neither undefined nor false). Throws, naming what it waited for. */
export async function until<T>(
  what: string,
  withinMs: number,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  everyMs = 100,
): Promise<T> {
  const endsAt = performance.now() + withinMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endsAt) throw new Error(`waited ${withinMs} ms in vain for ${what}`);
    await delay(everyMs);
  }
}
