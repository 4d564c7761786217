/**
 * Chooses by a seed which of all the calls that processes wait for comes next, how it ends, and which process dies of it.
 * Every call of a port is a choice; what lies between two of them runs in one go, as it does in a process. Time passes on
 * a clock by hand, when nothing else is left to do or as a choice. Next: process.ts, play.ts.
 */
import { PawlError } from '../../src/core/errors.js';
import type { FakeClock } from '../../src/testing/fake-clock.js';
import type { Random } from '../chaos/campaign/random.js';

/** What may befall one call: made or not, answered or not, its process alive or not. */
export type Fate = 'done' | 'lost' | 'unheard' | 'killed_before' | 'killed_after' | 'frozen';
const faults: readonly Exclude<Fate, 'done'>[] = ['lost', 'unheard', 'killed_before', 'killed_after', 'frozen'];

/** Who waits for a call. */
export interface Caller {
  readonly name: string;
  isFrozen: boolean;
  isDead: boolean;
  kill(): void;
  freeze(): void;
}

/** What a call goes to; the engine may not outlive the silence of some. */
export type Port = 'database' | 'queue' | 'outside';

interface Pending {
  caller: Caller;
  port: Port;
  what: string;
  make: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

const faultEvery = 0.03;
/** Of the calls that could as well be made at once, as many wait for their turn. */
const switchAt = 0.5;
const timePasses = 0.04;

export class Scheduler {
  faultsLeft: number;
  readonly told: string[] = [];
  actions = 0;
  #pending: Pending[] = [];

  constructor(
    readonly clock: FakeClock,
    private readonly random: Random,
    { faults: count }: { faults: number },
  ) {
    this.faultsLeft = count;
  }

  /** Answered when its turn comes; never, if the caller dies first. */
  call<T>(caller: Caller, port: Port, what: string, make: () => T | Promise<T>): Promise<T> {
    if (caller.isDead) return new Promise(() => {});
    if (!caller.isFrozen && !this.random.chance(switchAt)) return Promise.resolve(make());
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({ caller, port, what, make, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  /** One action, and all that follows from it until everybody waits again. */
  async step(): Promise<void> {
    this.actions += 1;
    const able = this.#pending.filter(({ caller }) => !caller.isFrozen);
    if (able.length === 0 || this.random.chance(timePasses)) await this.clock.toNext();
    else await this.#make(this.random.pick(able));
  }

  /** What a killed process waited for is nobody's any more. */
  forget(caller: Caller): void {
    this.#pending = this.#pending.filter((pending) => pending.caller !== caller);
  }

  /** For the story of a play that failed. */
  tell(line: string): void {
    this.told.push(`${String(this.clock.monotonicMs()).padStart(7)} ${line}`);
  }

  async #make(pending: Pending): Promise<void> {
    this.#pending.splice(this.#pending.indexOf(pending), 1);
    const { caller, what, make, resolve, reject } = pending;
    const fate = this.#fateOf(pending);
    if (fate !== 'done') this.tell(`${what} of ${caller.name}: ${fate}`);
    if (fate === 'frozen') caller.freeze();
    if (fate === 'killed_before') caller.kill();
    else if (fate === 'lost') reject(silence(pending.port));
    else {
      // A dead process's calls that were on their way still arrive.
      const made = Promise.resolve().then(make);
      if (fate === 'killed_after') {
        await made.catch(() => {});
        caller.kill();
      } else if (fate === 'unheard') {
        await made.catch(() => {});
        reject(silence(pending.port));
      } else made.then(resolve, reject);
    }
    await turn();
  }

  #fateOf({ port }: Pending): Fate {
    if (this.faultsLeft <= 0 || !this.random.chance(faultEvery)) return 'done';
    this.faultsLeft -= 1;
    const fate = this.random.pick(faults);
    // What answers for the world outside is a value of its own, and its faults are the scripts'.
    return port === 'outside' && (fate === 'lost' || fate === 'unheard') ? 'killed_after' : fate;
  }
}

function silence(port: Port): PawlError {
  const code = port === 'queue' ? 'queue_unreachable' : 'database_unreachable';
  return new PawlError(code, 'no answer');
}

/** Lets everything that can go on do so. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
