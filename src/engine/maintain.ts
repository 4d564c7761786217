/**
 * Maintenance: finds whatever a crash between any two lines left behind, by status and from rows alone. Any number of
 * processes may run it. A worker is declared dead only after its beat stood still for a time during which this process's
 * own writes succeeded without a gap, by its own monotonic clock: a database that was away kills nobody.
 */

import type { Draft } from '../core/draft.js';
import { type ClaimDeath, meetDeadline, releaseClaim, wakeServed } from '../core/recover.js';
import type { Clock, Dispatch, HeldClaim, Log, Queue, StepScope, Store, Watch } from '../ports.js';
import { Sweep } from './sweep.js';

export interface MaintenanceParts {
  store: Store;
  watch: Watch;
  queue: Queue;
  clock: Clock;
  log: Log;
}

export interface MaintenanceOptions {
  /** A beat that stands still for this long is a death. */
  deathMs: number;
  everyMs: number;
}

const batch = 500;
/** A write of our own that took longer than this is a gap: others' beats may have been held up as well. */
const slowWriteMs = 2_000;
const overdueGraceMs = 10_000;
const sweepWorkersEveryMs = 600_000;

export class Maintenance {
  private readonly beats = new Map<string, { beat: number; sinceMs: number }>();
  private readonly sweep: Sweep;
  private gaplessSinceMs: number;
  private lastWriteMs: number;
  private sweptWorkersMs = Number.NEGATIVE_INFINITY;
  private away = false;

  constructor(
    private readonly parts: MaintenanceParts,
    private readonly options: MaintenanceOptions,
  ) {
    this.sweep = new Sweep(parts);
    this.gaplessSinceMs = parts.clock.monotonicMs();
    this.lastWriteMs = this.gaplessSinceMs;
  }

  /**
   * Runs rounds until the signal aborts, and breathes beside them: a round held up by the queue is no gap in our writes. A
   * round that fails is logged, and the next one starts afresh.
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.keepBreathing(signal), this.keepLooking(signal)]);
  }

  private async keepBreathing(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // The rounds say that the database is away.
      await this.breathe().catch(() => {});
      await this.parts.clock.sleep(this.options.everyMs, signal);
    }
  }

  private async keepLooking(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.look();
        if (this.away) this.parts.log.info({}, 'maintenance: the services answer again');
        this.away = false;
      } catch (error) {
        if (!this.away) this.parts.log.warn({ cause: String(error) }, 'maintenance: a round failed; trying again');
        this.away = true;
      }
      await this.parts.clock.sleep(this.options.everyMs, signal);
    }
  }

  /** One breath and one look at everything, for whoever drives maintenance by hand. */
  async round(): Promise<void> {
    await this.breathe();
    await this.look();
  }

  /** Each part goes on where another failed only in the next round. */
  private async look(): Promise<void> {
    await this.judgeWorkers();
    await this.releaseClaims();
    await this.meetDeadlines();
    await this.wakeRuns();
    await this.sweep.round();
    await this.sweepWorkers();
  }

  private async breathe(): Promise<void> {
    const { watch, clock } = this.parts;
    const before = clock.monotonicMs();
    try {
      await watch.breathe();
    } catch (error) {
      this.gaplessSinceMs = clock.monotonicMs();
      throw error;
    }
    const now = clock.monotonicMs();
    if (now - before > slowWriteMs || before - this.lastWriteMs > slowWriteMs + this.options.everyMs) {
      this.gaplessSinceMs = now;
    }
    this.lastWriteMs = now;
  }

  private async judgeWorkers(): Promise<void> {
    const { watch, clock, log } = this.parts;
    const workers = await watch.liveWorkers();
    const now = clock.monotonicMs();
    const seen = new Set(workers.map((worker) => worker.id));
    for (const id of this.beats.keys()) if (!seen.has(id)) this.beats.delete(id);
    for (const { id, beat } of workers) {
      const known = this.beats.get(id);
      if (known === undefined || known.beat !== beat) this.beats.set(id, { beat, sinceMs: now });
      else if (now - Math.max(known.sinceMs, this.gaplessSinceMs) >= this.options.deathMs) {
        if (await watch.declareDead(id, beat)) log.warn({ workerId: id }, 'a worker is declared dead');
      }
    }
  }

  private async releaseClaims(): Promise<void> {
    const { watch, clock } = this.parts;
    for (const claim of await watch.claimsOfDeadWorkers(batch)) {
      await this.release(claim, claim.stopped === true ? 'dropped' : 'crash');
    }
    if (clock.monotonicMs() - this.gaplessSinceMs < this.options.deathMs) return;
    for (const claim of await watch.droppedClaims(batch)) await this.release(claim, 'dropped');
    for (const claim of await watch.overdueClaims(overdueGraceMs, batch)) await this.release(claim, 'overdue');
  }

  private async release({ runId, seq, token }: HeldClaim, death: ClaimDeath): Promise<void> {
    const released = await this.change(runId, { seqs: [seq] }, (draft) => releaseClaim(draft, seq, token, death));
    if (released === true) this.parts.log.warn({ runId, seq, cause: death }, 'a lost claim was taken back');
  }

  private async meetDeadlines(): Promise<void> {
    for (const id of await this.parts.watch.runsPastDeadline(batch)) await this.change(id, 'open', meetDeadline);
  }

  private async wakeRuns(): Promise<void> {
    for (const id of await this.parts.watch.runsServedAgain(batch)) await this.change(id, 'open', wakeServed);
  }

  private async sweepWorkers(): Promise<void> {
    const now = this.parts.clock.monotonicMs();
    if (now - this.sweptWorkersMs < sweepWorkersEveryMs) return;
    await this.parts.watch.sweepWorkers();
    this.sweptWorkersMs = now;
  }

  /** Changes one run and dispatches what became pending. A run that cannot be changed stops only itself. */
  private async change<T>(runId: string, scope: StepScope, rule: (draft: Draft) => T): Promise<T | null> {
    let dispatches: readonly Dispatch[] = [];
    let value: T | null = null;
    try {
      const changed = await this.parts.store.change(runId, scope, rule);
      if (changed !== null) ({ value, dispatches } = changed);
    } catch (error) {
      this.parts.log.error({ runId, cause: String(error) }, 'maintenance could not change a run');
      return null;
    }
    await this.sweep.dispatch(dispatches);
    return value;
  }
}
