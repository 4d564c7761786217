/**
 * Calls in flight: for each claim an AbortController and the reason it was pulled. A `once` call is never aborted by the
 * end of its run, only at shutdown or when its claim was lost. Deadlines are kept by the monotonic clock.
 */
import type { AbortCause } from '../core/outcome.js';
import type { StepState } from '../core/step.js';
import type { Heart } from '../ports.js';

export class Call {
  private readonly controller = new AbortController();
  private step: StepState | null = null;
  cause: AbortCause | null = null;
  /** When the claim was answered, by the monotonic clock. */
  claimedAtMs = 0;
  isClaimed = false;

  /** `claimSentAtMs`: when the claim was sent, by the monotonic clock: the call's deadline counts from there. */
  constructor(
    readonly token: string,
    readonly claimSentAtMs: number,
    /** The registration it is claimed under, whose beats list it. */
    public heart: Heart | null,
    private readonly monotonicMs: () => number,
  ) {}

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  begin(step: StepState): void {
    this.step = step;
  }

  /** Milliseconds until the claim's deadline; 0 or less: it must not start any more. */
  remainingMs(): number {
    const timeoutMs = this.step?.timeoutMs ?? 0;
    return this.claimSentAtMs + timeoutMs - this.monotonicMs();
  }

  abort(cause: AbortCause): void {
    if (this.cause !== null) return;
    if (cause === 'ending' && this.step?.effect === 'once') return;
    this.cause = cause;
    this.controller.abort(new Error(`aborted: ${cause}`));
  }
}

export type Raced<T> =
  | { ended: 'returned'; value: T }
  | { ended: 'threw'; thrown: unknown }
  | { ended: 'timeout' }
  | { ended: 'aborted' }
  /** Aborted before it began, or too late for its claim. */
  | { ended: 'not_started' };

/**
 * Runs work under the call's deadline and its abort, and does not wait for work that heeds neither: what it does later is
 * nobody's business. `work` gets a signal that fires at either.
 */
export async function raceCall<T>(
  call: Call,
  timeoutMs: number,
  work: (signal: AbortSignal) => T | Promise<T>,
): Promise<Raced<T>> {
  if (call.cause !== null || timeoutMs <= 0) return { ended: 'not_started' };
  const deadline = new AbortController();
  const signal = AbortSignal.any([call.signal, deadline.signal]);
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const stopped = new Promise<Raced<T>>((resolve) => {
    timer = setTimeout(() => {
      resolve({ ended: 'timeout' });
      deadline.abort(new Error(`timed out after ${timeoutMs} ms`));
    }, timeoutMs);
    onAbort = () => resolve({ ended: 'aborted' });
    call.signal.addEventListener('abort', onAbort, { once: true });
  });
  const returned = (async (): Promise<Raced<T>> => {
    try {
      return { ended: 'returned', value: await work(signal) };
    } catch (thrown) {
      return { ended: 'threw', thrown };
    }
  })();
  try {
    return await Promise.race([returned, stopped]);
  } finally {
    clearTimeout(timer);
    call.signal.removeEventListener('abort', onAbort);
  }
}
