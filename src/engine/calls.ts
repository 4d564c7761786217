/**
 * Calls in flight: for each claim an AbortController and the reason it was pulled. A `once` call is never aborted by the
 * end of its run, only at shutdown or when its claim was lost. Deadlines are kept by the monotonic clock.
 */
import type { AbortCause } from '../core/outcome.js';
import { sumOf, type Usage } from '../core/run.js';
import type { StepState } from '../core/step.js';
import type { Heart } from '../ports.js';

export class Call {
  private step: StepState | null = null;
  cause: AbortCause | null = null;
  /** Of the race that is on. */
  onAbort: (() => void) | null = null;
  /** When the claim was answered, by the monotonic clock. */
  claimedAtMs = 0;
  isClaimed = false;
  /** What was spent on its behalf beside what its outcome says; null: nothing. */
  spent: Usage | null = null;

  /** `claimSentAtMs`: when the claim was sent, by the monotonic clock: the call's deadline counts from there. */
  constructor(
    readonly token: string,
    readonly claimSentAtMs: number,
    /** The registration it is claimed under, whose beats list it. */
    public heart: Heart | null,
    private readonly monotonicMs: () => number,
  ) {}

  begin(step: StepState): void {
    this.step = step;
  }

  /** Milliseconds until the claim's deadline; 0 or less: it must not start any more. */
  remainingMs(): number {
    const timeoutMs = this.step?.timeoutMs ?? 0;
    return this.claimSentAtMs + timeoutMs - this.monotonicMs();
  }

  spend(usage: Usage): void {
    this.spent = sumOf(this.spent, usage);
  }

  abort(cause: AbortCause): void {
    if (this.cause !== null) return;
    if (cause === 'ending' && this.step?.effect === 'once') return;
    this.cause = cause;
    this.onAbort?.();
  }
}

export type Timed<T> = { ended: 'returned'; value: T } | { ended: 'threw'; thrown: unknown } | { ended: 'timeout' };

export type Raced<T> =
  | Timed<T>
  | { ended: 'aborted' }
  /** Aborted before it began, or too late for its claim. */
  | { ended: 'not_started' };

/** A process that stops has a second or two to record what it holds. */
const stoppingMs = 100;

/**
 * Runs work under a time of its own: for what is told of a result that is in hand, which counts whatever has become of the call
 * meanwhile. Only where the process stops is it hurried, or the result itself would come too late.
 */
export function raceTime<T>(call: Call, timeoutMs: number, work: () => T | Promise<T>): Promise<Timed<T>> {
  const outer = call.onAbort;
  return new Promise((resolve) => {
    const late = () => end({ ended: 'timeout' });
    let timer = setTimeout(late, timeoutMs);
    const hurry = () => {
      if (call.cause !== 'shutdown') return;
      clearTimeout(timer);
      timer = setTimeout(late, stoppingMs);
    };
    const end = (timed: Timed<T>) => {
      clearTimeout(timer);
      if (call.onAbort === hurry) call.onAbort = outer;
      resolve(timed);
    };
    call.onAbort = hurry;
    hurry();
    (async () => work())().then(
      (value) => end({ ended: 'returned', value }),
      (thrown: unknown) => end({ ended: 'threw', thrown }),
    );
  });
}

/** The signal is made when it is first asked for: most tools never do. */
export type Stop = Pick<AbortController, 'signal'>;

/**
 * Runs work under the call's deadline and its abort, and does not wait for work that heeds neither: what it does later is
 * nobody's business. `work` gets the signal that fires at either, and may hold a race of its own.
 */
export function raceCall<T>(call: Call, timeoutMs: number, work: (stop: Stop) => T | Promise<T>): Promise<Raced<T>> {
  if (call.cause !== null || timeoutMs <= 0) return Promise.resolve({ ended: 'not_started' });
  const stopped = new AbortController();
  const outer = call.onAbort;
  return new Promise((resolve) => {
    let isOver = false;
    const end = (raced: Raced<T>) => {
      // By then another race may be on.
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      if (call.onAbort === abort) call.onAbort = outer;
      resolve(raced);
    };
    // The race ends before its signal fires, or work that heeds the signal would seem to have ended by itself.
    const stop = (raced: Raced<T>, why: string) => {
      end(raced);
      stopped.abort(new Error(why));
    };
    // In whole milliseconds, since Node keeps a list of timers for each duration that it meets.
    const waitMs = Math.ceil(timeoutMs);
    const timer = setTimeout(() => stop({ ended: 'timeout' }, `timed out after ${timeoutMs} ms`), waitMs);
    const abort = () => {
      stop({ ended: 'aborted' }, `aborted: ${call.cause}`);
      outer?.();
    };
    call.onAbort = abort;
    // What throws before it first waits has thrown all the same.
    (async () => work(stopped))().then(
      (value) => end({ ended: 'returned', value }),
      (thrown: unknown) => end({ ended: 'threw', thrown }),
    );
  });
}
