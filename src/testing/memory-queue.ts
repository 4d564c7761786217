/**
 * The queue and consumer ports in memory, for tests of the engine: passes the suite of the real ones (test/contract/queue.ts).
 * Nothing happens between two awaits of the test: jobs are handed out on add, resume and the end of a delivery, delays run
 * on the clock given. Besides the ports it does what befalls a real queue: wiped, unreachable, its worker killed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { PawlError } from '../core/errors.js';
import type { Clock, Consumer, Delivery, DeliveryEnd, Dispatch, Presence, Queue } from '../ports.js';

type JobState = 'ready' | 'active' | 'delayed' | 'completed' | 'failed';

export interface MemoryJob extends Dispatch {
  state: JobState;
  attemptsMade: number;
  /** How its last delivery ended. */
  note: string | null;
}

interface Fetcher {
  queues: readonly string[];
  /** Deliveries under way, by queue. */
  underWay: Map<string, number>;
  concurrency: number;
  fetching: boolean;
  /** Told after each acknowledgement with nothing left under way. */
  onIdle: () => void;
  handler: (delivery: Delivery) => Promise<DeliveryEnd>;
}

/** As in BullMQ, for a handler that threw. */
const fallbackRetryMs = 5_000;

export class MemoryQueue implements Queue {
  readonly kind = 'memory';
  readonly queue: Queue = this;
  readonly #jobs = new Map<string, MemoryJob>();
  readonly #fetchers: Fetcher[] = [];
  readonly #sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  #generation = new AbortController();
  #epoch: string | null = null;
  #reachable = true;

  constructor(options: { clock?: Pick<Clock, 'sleep'> } = {}) {
    const { clock } = options;
    this.#sleep = (ms, signal) => (clock ? clock.sleep(ms, signal) : delay(ms, undefined, { signal, ref: false }));
  }

  async add(dispatches: readonly Dispatch[]): Promise<void> {
    this.#answer();
    for (const dispatch of dispatches) {
      if (this.#jobs.has(idOf(dispatch))) continue;
      const { queue, runId, seq } = dispatch;
      this.#jobs.set(idOf(dispatch), {
        queue,
        runId,
        seq,
        dispatch: dispatch.dispatch,
        state: 'ready',
        attemptsMade: 0,
        note: null,
      });
    }
    this.#handOut();
  }

  async probe(dispatches: readonly Dispatch[]): Promise<Presence[]> {
    this.#answer();
    return dispatches.map((dispatch) => {
      const state = this.#jobs.get(idOf(dispatch))?.state;
      return state === 'ready' || state === 'active' ? state : 'absent';
    });
  }

  async remove(dispatches: readonly Dispatch[]): Promise<void> {
    this.#answer();
    for (const dispatch of dispatches) {
      if (this.#jobs.get(idOf(dispatch))?.state !== 'active') this.#jobs.delete(idOf(dispatch));
    }
  }

  async readEpoch(): Promise<string | null> {
    this.#answer();
    return this.#epoch;
  }

  async writeEpoch(epoch: string): Promise<void> {
    this.#answer();
    this.#epoch = epoch;
  }

  async close(): Promise<void> {
    this.#generation.abort();
  }

  consumer(options: {
    queues: readonly string[];
    concurrency: number;
    handler: (delivery: Delivery) => Promise<DeliveryEnd>;
  }): Consumer {
    const fetcher: Fetcher = { ...options, underWay: new Map(), fetching: false, onIdle: () => {} };
    const set = (fetching: boolean) => {
      fetcher.fetching = fetching;
      this.#handOut();
    };
    return {
      start: async () => {
        this.#fetchers.push(fetcher);
        set(true);
      },
      pause: () => set(false),
      resume: () => set(true),
      stop: async (withinMs) => {
        set(false);
        const at = this.#fetchers.indexOf(fetcher);
        if (at >= 0) this.#fetchers.splice(at, 1);
        if (isIdle(fetcher)) return;
        const giveUp = new AbortController();
        const idle = new Promise<void>((resolve) => {
          fetcher.onIdle = resolve;
        });
        await Promise.race([idle, delay(withinMs, undefined, { signal: giveUp.signal }).catch(() => {})]);
        giveUp.abort();
      },
    };
  }

  /** Everything the queue kept, in the order it was added. */
  jobs(): readonly Readonly<MemoryJob>[] {
    return [...this.#jobs.values()];
  }

  /** What Retry in a dashboard does to a failed job; the count of attempts is kept. */
  retryFailed(dispatch: Dispatch): void {
    const job = this.#jobs.get(idOf(dispatch));
    if (job?.state !== 'failed') throw new PawlError('conflict', `${idOf(dispatch)} is not failed`);
    job.state = 'ready';
    this.#handOut();
  }

  /** A worker died with this job: the queue hands it out again, and counts nothing. */
  stall(dispatch: Dispatch): void {
    const job = this.#jobs.get(idOf(dispatch));
    if (job?.state !== 'active') throw new PawlError('conflict', `${idOf(dispatch)} is not active`);
    this.#jobs.set(idOf(dispatch), { ...job, state: 'ready' });
    this.#handOut();
  }

  /** Forgets everything, deliveries under way and their ends included. */
  wipe(): void {
    this.#jobs.clear();
    this.#epoch = null;
    this.#generation.abort();
    this.#generation = new AbortController();
  }

  /** From now on nothing is answered and nothing handed out, until it is set back. */
  setReachable(reachable: boolean): void {
    this.#reachable = reachable;
    this.#handOut();
  }

  #answer(): void {
    if (!this.#reachable) throw new PawlError('queue_unreachable', 'the queue does not answer');
  }

  #handOut(): void {
    if (!this.#reachable) return;
    for (const job of this.#jobs.values()) {
      if (job.state !== 'ready') continue;
      const fetcher = this.#fetchers.find(
        ({ fetching, queues, underWay, concurrency }) =>
          fetching && queues.includes(job.queue) && (underWay.get(job.queue) ?? 0) < concurrency,
      );
      if (fetcher !== undefined) void this.#deliver(fetcher, job);
    }
  }

  async #deliver(fetcher: Fetcher, job: MemoryJob): Promise<void> {
    const { queue, runId, seq, dispatch, attemptsMade } = job;
    job.state = 'active';
    fetcher.underWay.set(queue, (fetcher.underWay.get(queue) ?? 0) + 1);
    const end = await fetcher
      .handler({ queue, runId, seq, dispatch, attemptsMade })
      .catch((): DeliveryEnd => ({ end: 'retry', delayMs: fallbackRetryMs, note: 'the handler threw' }));
    fetcher.underWay.set(queue, (fetcher.underWay.get(queue) ?? 0) - 1);
    // A job wiped or given to another worker meanwhile: the acknowledgement comes too late.
    if (this.#jobs.get(idOf(job)) === job) this.#end(job, end);
    if (isIdle(fetcher)) fetcher.onIdle();
    this.#handOut();
  }

  #end(job: MemoryJob, end: DeliveryEnd): void {
    if (end.end !== 'hand_back') job.note = end.note;
    switch (end.end) {
      case 'complete':
        job.state = 'completed';
        return;
      case 'fail':
        job.state = 'failed';
        job.attemptsMade += 1;
        return;
      case 'hand_back':
        job.state = 'ready';
        return;
      case 'retry':
        job.state = 'delayed';
        job.attemptsMade += 1;
        void this.#sleep(end.delayMs, this.#generation.signal).then(
          () => {
            if (this.#jobs.get(idOf(job)) !== job || job.state !== 'delayed') return;
            job.state = 'ready';
            this.#handOut();
          },
          () => {},
        );
    }
  }
}

function idOf({ runId, seq, dispatch }: Dispatch): string {
  return `${runId}.${seq}.${dispatch}`;
}

function isIdle({ underWay }: Fetcher): boolean {
  return [...underWay.values()].every((count) => count === 0);
}
