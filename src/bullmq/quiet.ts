/**
 * Logs the errors of connections without a flood: a server that is down repeats one message on every connection, every two
 * seconds. And bounds what would otherwise wait for such a server for ever.
 */
import { describeThrown, PawlError } from '../core/errors.js';
import type { Log } from '../ports.js';

const silenceMs = 30_000;
/** A lost lock does not stop a call; the acknowledgement that fails for it is expected, and ignored. */
const expected = /could not renew lock|Missing lock|Lock mismatch|Missing key for job|is not in the (active )?state/;

/** A listener for `error` events: each message once in 30 s as a warning, expected ones only for debugging. */
export function quietly(log: Log, where: Record<string, unknown>): (error: unknown) => void {
  const said = new Map<string, number>();
  return (error) => {
    const message = describeThrown(error).slice(0, 500);
    if (expected.test(message))
      return log.debug({ ...where, error: message }, 'queue: an acknowledgement came too late');
    const now = Date.now();
    if (now - (said.get(message) ?? 0) < silenceMs)
      return log.debug({ ...where, error: message }, 'queue: error again');
    if (said.size > 100) said.clear();
    said.set(message, now);
    log.warn({ ...where, error: message }, 'queue: error');
  };
}

/** What the work gives, or `queue_unreachable` when it fails or does not answer in time. */
export async function answered<T>(within: number, what: string, work: () => Promise<T>): Promise<T> {
  try {
    const value = await settledWithin(within, work());
    if (value === tooLate) throw new PawlError('queue_unreachable', `${what}: no answer within ${within} ms`);
    return value;
  } catch (error) {
    if (error instanceof PawlError) throw error;
    throw new PawlError('queue_unreachable', `${what}: ${describeThrown(error)}`, { cause: error });
  }
}

export const tooLate = Symbol('too late');

/** The promise's value, or `tooLate`; what it does afterwards is nobody's concern, its rejection included. */
export async function settledWithin<T>(ms: number, work: Promise<T>): Promise<T | typeof tooLate> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof tooLate>((resolve) => {
    timer = setTimeout(resolve, ms, tooLate);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}
