/**
 * Waits for a condition by looking again, for a bounded number of looks; a test never sleeps for luck. Looks and not
 * seconds, since a busy machine gives fewer of them in the same time, to what is looked at as well.
 */
import { setTimeout as delay } from 'node:timers/promises';

export const lookEveryMs = 100;

/** What the probe found, as soon as it finds something (neither undefined nor false). Throws, naming what it waited for. */
export async function until<T>(
  what: string,
  looks: number,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
): Promise<T> {
  for (let look = 0; look < looks; look++) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    await delay(lookEveryMs);
  }
  throw new Error(`looked ${looks} times in vain for ${what}`);
}
