/**
 * The sweep: hands every due step to the queue that the queue does not know of. It pages through what is due, asks the
 * queue a page at a time, and raises the dispatch of what is missing before it adds, so that a step found twice by two
 * sweepers still has one current job. Backs off while nothing was missing; a queue that lost its data ends the back-off.
 */
import type { Clock, Dispatch, DueStep, Log, Presence, Queue, Watch } from '../ports.js';

/** Steps due for less than this are left to those who made them pending. */
const overdueMs = 2_000;
/** An active job is taken for alive for this long after it was first seen so; its worker may have died since. */
const activeMs = 5_000;
const pageSize = 1_000;
const firstPauseMs = 1_000;
/** So few due steps cost little to ask for; a long backlog is looked at less often, by every process that sweeps. */
const shortBacklog = 100;
const longestPauseMs = 2_000;
const longestPauseOfLongMs = 8_000;
const epochEveryMs = 2_000;

export class Sweep {
  private readonly activeSince = new Map<string, number>();
  private nextAtMs = Number.NEGATIVE_INFINITY;
  private pauseMs = firstPauseMs;
  private epochAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly parts: { watch: Watch; queue: Queue; clock: Clock; log: Log }) {}

  async round(): Promise<void> {
    const { clock } = this.parts;
    if (await this.hasQueueForgotten()) {
      this.pauseMs = firstPauseMs;
      this.nextAtMs = Number.NEGATIVE_INFINITY;
    }
    if (clock.monotonicMs() < this.nextAtMs) return;
    // Also of a sweep that fails: a queue that refuses every job must not be asked as fast as rounds go.
    this.nextAtMs = clock.monotonicMs() + firstPauseMs;
    const missing = await this.sweepAll();
    const isQuiet = missing === 0 && this.backlog > 0;
    this.pauseMs = isQuiet ? Math.min(this.longestPauseMs(), this.pauseMs * 2) : firstPauseMs;
    this.nextAtMs = clock.monotonicMs() + this.pauseMs;
    await this.showDeaths();
  }

  /**
   * Jobs that are being claimed are looked at again when it can be told that nobody claims them. Of a long backlog some always
   * are.
   */
  private longestPauseMs(): number {
    const isClaiming = this.activeSince.size > 0;
    if (this.backlog <= shortBacklog) return isClaiming ? firstPauseMs : longestPauseMs;
    return isClaiming ? activeMs : longestPauseOfLongMs;
  }

  async dispatch(dispatches: readonly Dispatch[]): Promise<void> {
    if (dispatches.length === 0) return;
    try {
      await this.parts.queue.add(dispatches);
    } catch (error) {
      this.parts.log.warn(
        { steps: dispatches.length, cause: String(error) },
        'the queue does not answer; the sweep will dispatch',
      );
    }
  }

  /** Steps found due by the last sweep, most of them waiting in the queue for their turn. */
  private backlog = 0;

  private async sweepAll(): Promise<number> {
    const { watch, queue, log } = this.parts;
    const stillActive = new Set<string>();
    let missing = 0;
    this.backlog = 0;
    for (let after: DueStep | null = null; ; ) {
      const due: DueStep[] = await watch.dueSteps(overdueMs, after, pageSize);
      if (due.length === 0) break;
      this.backlog += due.length;
      const presence = await queue.probe(due);
      const absent = due.filter((step, index) => this.isAbsent(step, presence[index] ?? 'absent', stillActive));
      const raised = await watch.raiseDispatch(absent);
      if (raised.length > 0) {
        await queue.add(raised);
        log.info({ steps: raised.length }, 'due steps were missing in the queue and are dispatched again');
      }
      missing += raised.length;
      after = due.at(-1) ?? null;
      if (due.length < pageSize) break;
    }
    for (const id of this.activeSince.keys()) if (!stillActive.has(id)) this.activeSince.delete(id);
    return missing;
  }

  /** A pending step whose job is active is being claimed, or its worker died before it could claim. */
  private isAbsent(step: Dispatch, presence: Presence, stillActive: Set<string>): boolean {
    if (presence !== 'active') return presence === 'absent';
    const id = `${step.runId}.${step.seq}.${step.dispatch}`;
    stillActive.add(id);
    const now = this.parts.clock.monotonicMs();
    const since = this.activeSince.get(id) ?? now;
    this.activeSince.set(id, since);
    return now - since >= activeMs;
  }

  private async showDeaths(): Promise<void> {
    const { watch, queue } = this.parts;
    const dead = await watch.unshownDeaths(pageSize);
    if (dead.length === 0) return;
    const presence = await queue.probe(dead);
    await this.dispatch(await watch.raiseDispatch(dead.filter((_, index) => presence[index] === 'absent')));
  }

  /** The counter in the queue and the one in the database part when the queue is wiped, emptied or restored old. */
  private async hasQueueForgotten(): Promise<boolean> {
    const { watch, queue, clock, log } = this.parts;
    const now = clock.monotonicMs();
    if (now - this.epochAtMs < epochEveryMs) return false;
    this.epochAtMs = now;
    const [ours, theirs] = await Promise.all([watch.queueEpoch(), queue.readEpoch()]);
    const forgotten = theirs !== String(ours);
    if (await watch.raiseQueueEpoch(ours)) await queue.writeEpoch(String(ours + 1));
    // A deployment that never wrote one has nothing to miss.
    if (forgotten && ours > 0) log.warn({}, 'the queue is not as it was left: everything due is looked for now');
    return forgotten;
  }
}
