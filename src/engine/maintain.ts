/**
 * Maintenance: finds whatever a crash between any two lines left behind, by status and from rows alone. Any number of
 * processes may run it. A worker is declared dead only after its beat stood still for a time during which this process's
 * own writes succeeded without a gap, by its own monotonic clock: a database that was away kills nobody.
 */

import type { Draft } from '../core/draft.js';
import { PawlError } from '../core/errors.js';
import { type ClaimDeath, meetDeadline, releaseClaim, wakeServed } from '../core/recover.js';
import { takeThread } from '../core/thread.js';
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
/** Runs changed at once: what a dead worker held must not wait for each other, nor take the connections of a whole process. */
const changedAtOnce = 4;
/** A write of our own that took longer than this is a gap: others' beats may have been held up as well. */
const slowWriteMs = 2_000;
const overdueGraceMs = 10_000;
const sweepWorkersEveryMs = 600_000;
const sweepResultsEveryMs = 60_000;
const resultsAtOnce = 1_000;

export class Maintenance {
  private readonly beats = new Map<string, { beat: number; sinceMs: number }>();
  private readonly sweep: Sweep;
  private gaplessSinceMs: number;
  private lastWriteMs: number;
  private sweptWorkersMs = Number.NEGATIVE_INFINITY;
  private sweptResultsMs = Number.NEGATIVE_INFINITY;

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
    await Promise.all([
      this.keepBreathing(signal),
      this.keep('a round', () => this.look(), signal),
      // Beside the rounds: steps that a queue has lost do not wait until the claims of a dead worker are taken back.
      this.keep('a sweep', () => this.sweep.round(), signal),
    ]);
  }

  private async keepBreathing(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // The rounds say that the database is away.
      await this.breathe().catch(() => {});
      await this.parts.clock.sleep(this.options.everyMs, signal);
    }
  }

  private async keep(name: string, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const { log, clock } = this.parts;
    let isAway = false;
    while (!signal.aborted) {
      try {
        await work();
        if (isAway) log.info({}, 'maintenance: the services answer again');
        isAway = false;
      } catch (error) {
        if (!isAway) log.warn({ cause: String(error) }, `maintenance: ${name} failed; trying again`);
        isAway = true;
      }
      await clock.sleep(this.options.everyMs, signal);
    }
  }

  /** One breath and one look at everything, for whoever drives maintenance by hand. */
  async round(): Promise<void> {
    await this.breathe();
    await this.look();
    await this.sweep.round();
  }

  /** Each part goes on where another failed only in the next round. */
  private async look(): Promise<void> {
    await this.judgeWorkers();
    await this.releaseClaims();
    await this.meetDeadlines();
    await this.wakeRuns();
    await this.sweepWorkers();
    await this.sweepResults();
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
    const dead = await watch.claimsOfDeadWorkers(batch);
    await someAtOnce(dead, (claim) => this.release(claim, claim.stopped === true ? 'dropped' : 'crash'));
    if (clock.monotonicMs() - this.gaplessSinceMs < this.options.deathMs) return;
    await someAtOnce(await watch.droppedClaims(batch), (claim) => this.release(claim, 'dropped'));
    await someAtOnce(await watch.overdueClaims(overdueGraceMs, batch), (claim) => this.release(claim, 'overdue'));
  }

  private async release({ runId, seq, token }: HeldClaim, death: ClaimDeath): Promise<void> {
    const released = await this.change(runId, { seqs: [seq] }, (draft) => releaseClaim(draft, seq, token, death));
    if (released === true) this.parts.log.warn({ runId, seq, cause: death }, 'a lost claim was taken back');
  }

  private async meetDeadlines(): Promise<void> {
    await someAtOnce(await this.parts.watch.runsPastDeadline(batch), (id) => this.change(id, 'open', meetDeadline));
  }

  private async wakeRuns(): Promise<void> {
    const { watch } = this.parts;
    await someAtOnce(await watch.runsServedAgain(batch), (id) => this.change(id, 'open', wakeServed));
    await someAtOnce(await watch.runsAwaitingThread(batch), (id) => this.change(id, 'open', takeThread));
  }

  private async sweepWorkers(): Promise<void> {
    const now = this.parts.clock.monotonicMs();
    if (now - this.sweptWorkersMs < sweepWorkersEveryMs) return;
    await this.parts.watch.sweepWorkers();
    this.sweptWorkersMs = now;
  }

  /** Where more have expired than go at once, the next round goes on. */
  private async sweepResults(): Promise<void> {
    const now = this.parts.clock.monotonicMs();
    if (now - this.sweptResultsMs < sweepResultsEveryMs) return;
    if ((await this.parts.watch.sweepResults(resultsAtOnce)) < resultsAtOnce) this.sweptResultsMs = now;
  }

  /** Changes one run and dispatches what became pending. A run that cannot be changed stops only itself. */
  private async change<T>(runId: string, scope: StepScope, rule: (draft: Draft) => T): Promise<T | null> {
    let dispatches: readonly Dispatch[] = [];
    let value: T | null = null;
    try {
      const changed = await this.parts.store.change(runId, scope, rule);
      if (changed !== null) ({ value, dispatches } = changed);
    } catch (error) {
      // Somebody else was first, and what was to be done is done or has to wait.
      if (error instanceof PawlError && error.code === 'conflict') return null;
      this.parts.log.error({ runId, cause: String(error) }, 'maintenance could not change a run');
      return null;
    }
    await this.sweep.dispatch(dispatches);
    return value;
  }
}

async function someAtOnce<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const rest = items.values();
  const lane = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: changedAtOnce }, lane));
}
