/**
 * The suspects of a process: steps that were in a worker's hands when it died. A process runs one at a time beside its
 * normal steps, so that a step that kills takes no second suspect with it. Those that met it busy were put off. It hands them
 * back to the queue one after the other, at once where it is free and else now and then, for whoever is free: or a crash of
 * many harmless steps would be worked off at the pace of the sweep.
 */
import { bringForward } from '../core/recover.js';
import type { Clock, Delivery, Dispatch, Store } from '../ports.js';

export interface SuspectsParts {
  store: Store;
  clock: Clock;
  dispatch(dispatches: readonly Dispatch[]): Promise<void>;
}

/** After this long the sweep has dispatched what was put off, and it comes back as another delivery. */
const rememberedMs = 6_000;
/** What was handed back is taken by then, by this process or by another: one that is still free goes on with the next. */
const takenWithinMs = 100;
/** A process that is busy hands one back in this time: where all are busy, none of them does much else than to refuse. */
const busyPauseMs = 300;

export class Suspects {
  private token: string | null = null;
  /** When each was put off. */
  private readonly waiting = new Map<Delivery, number>();
  private isHandingBack = false;
  private whenFree = new AbortController();

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
    this.whenFree.abort();
  }

  /** The delivery's step was put off. */
  await(delivery: Delivery): void {
    this.waiting.set(delivery, this.parts.clock.monotonicMs());
    if (!this.isHandingBack) void this.handBackAll();
  }

  private async handBackAll(): Promise<void> {
    const { clock } = this.parts;
    this.isHandingBack = true;
    for (const [delivery, sinceMs] of this.waiting) {
      if (clock.monotonicMs() - sinceMs > rememberedMs) {
        this.waiting.delete(delivery);
        continue;
      }
      this.whenFree = new AbortController();
      if (this.token !== null) await clock.sleep(busyPauseMs, this.whenFree.signal);
      if (await this.handBack(delivery)) await clock.sleep(takenWithinMs);
    }
    this.isHandingBack = false;
  }

  /** False where somebody else has dispatched it meanwhile. Where the database does not answer, the sweep finds it. */
  private async handBack(delivery: Delivery): Promise<boolean> {
    this.waiting.delete(delivery);
    const { runId, seq, dispatch } = delivery;
    const changed = await this.parts.store
      .change(runId, { seqs: [seq] }, (draft) => bringForward(draft, seq, dispatch))
      .catch(() => null);
    if (changed === null || changed.dispatches.length === 0) return false;
    await this.parts.dispatch(changed.dispatches);
    return true;
  }
}
