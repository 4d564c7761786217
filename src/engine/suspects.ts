/**
 * The suspects of a process: steps that were in a worker's hands when it died. A process runs one at a time beside its
 * normal steps, so that a step that kills takes no second suspect with it. Those that met it busy were put off; it calls the
 * next as soon as it is free, or a crash of many harmless steps would be worked off at the pace of the sweep.
 */
import { bringForward } from '../core/recover.js';
import type { Clock, Delivery, Dispatch, Store } from '../ports.js';

export interface SuspectsParts {
  store: Store;
  clock: Clock;
  dispatch(dispatches: readonly Dispatch[]): Promise<void>;
}

/** After this long the sweep has dispatched what was put off. */
const rememberedMs = 6_000;

export class Suspects {
  private token: string | null = null;
  private readonly waiting: { delivery: Delivery; sinceMs: number }[] = [];

  constructor(private readonly parts: SuspectsParts) {}

  /** Whether the process may take one under this token. */
  take(token: string): boolean {
    if (this.token !== null && this.token !== token) return false;
    this.token = token;
    return true;
  }

  /** The call of that token is over, whether it was a suspect's or not. */
  free(token: string): void {
    if (this.token !== token) return;
    this.token = null;
    void this.callNext();
  }

  /** The delivery's step was put off. */
  async await(delivery: Delivery): Promise<void> {
    this.waiting.push({ delivery, sinceMs: this.parts.clock.monotonicMs() });
    if (this.token === null) await this.callNext();
  }

  /** Of those that nobody else has dispatched meanwhile. Where the database does not answer, the sweep finds them. */
  private async callNext(): Promise<void> {
    const { store, clock, dispatch } = this.parts;
    for (let next = this.waiting.shift(); next !== undefined; next = this.waiting.shift()) {
      if (clock.monotonicMs() - next.sinceMs > rememberedMs) continue;
      const { runId, seq, dispatch: of } = next.delivery;
      const changed = await store
        .change(runId, { seqs: [seq] }, (draft) => bringForward(draft, seq, of))
        .catch(() => null);
      if (changed === null || changed.dispatches.length === 0) continue;
      return dispatch(changed.dispatches);
    }
  }
}
