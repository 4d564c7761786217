/**
 * A process in a play: a worker or maintenance whose ports are the scheduler's to answer. It can die between any two of
 * their calls, and it can stand still for a while and go on, its heart with it.
 */
import type { Agent } from '../../src/core/agent.js';
import { Maintenance } from '../../src/engine/maintain.js';
import { startWorker } from '../../src/engine/worker.js';
import type { Clock, DeliveryEnd, Dispatch, Ids, Llm, Queue, Store, Watch } from '../../src/ports.js';
import type { MemoryQueue } from '../../src/testing/memory-queue.js';
import type { Tables } from '../../src/testing/memory-store.js';
import { MemoryWorkers } from '../../src/testing/memory-workers.js';
import { quietLog } from '../support/quiet-log.js';
import type { Caller, Port, Scheduler } from './scheduler.js';

export interface Ground {
  scheduler: Scheduler;
  tables: Tables;
  store: Store;
  watch: Watch;
  queue: MemoryQueue;
  ids: Ids;
  /** How long a process that was told to freeze does. */
  frozenMs(): number;
  /** A process is no more. */
  onDeath(process: Process): void;
}

const beatEveryMs = 2_000;
const maintainEveryMs = 2_000;
export const deathMs = 8_000;
const stallMs = 30_000;

export class Process implements Caller {
  isFrozen = false;
  isDead = false;
  readonly #active = new Map<string, Dispatch>();
  readonly #over = new AbortController();
  #whenDead = () => {};

  constructor(
    readonly name: string,
    private readonly ground: Ground,
  ) {}

  async work(agents: readonly Agent[], llm: Llm, concurrency: number): Promise<void> {
    const { ground } = this;
    // A frozen heart does not beat: to it the database is away.
    const own = Object.create(ground.tables, {
      reachable: { get: () => ground.tables.reachable && !this.isFrozen && !this.isDead },
    }) as Tables;
    const hearts = new MemoryWorkers(own, beatEveryMs);
    this.#whenDead = () => hearts.stopAll();
    const worker = await startWorker(
      {
        ...this.#ports(),
        llm: this.bound(llm, 'outside', ['complete', 'countTokens']),
        ids: ground.ids,
        agents: new Map(agents.map((agent) => [agent.name, agent])),
        workers: this.bound(hearts, 'database', ['register']),
        consumer: ({ handler }) => {
          return ground.queue.consumer({
            queues: ['llm', 'tool'],
            concurrency,
            handler: (delivery) => this.#handle(delivery, handler(delivery)),
          });
        },
      },
      'steps',
    );
    const stopHearts = this.#whenDead;
    this.#whenDead = () => {
      stopHearts();
      void worker.stop(0);
    };
    if (this.isDead) this.#whenDead();
  }

  maintain(): void {
    void new Maintenance(this.#ports(), { deathMs, everyMs: maintainEveryMs }).run(this.#over.signal);
  }

  kill(): void {
    if (this.isDead) return;
    this.isDead = true;
    this.#over.abort();
    this.ground.scheduler.forget(this);
    this.#whenDead();
    void this.#stall();
    this.ground.onDeath(this);
  }

  freeze(): void {
    this.isFrozen = true;
    void this.ground.scheduler.clock.sleep(this.ground.frozenMs()).then(() => {
      this.isFrozen = false;
    });
  }

  /** The same port, each of the methods named a call of the scheduler's; of a dead process nothing is ever answered. */
  bound<T extends object>(port: T, kind: Port, methods: readonly (keyof T & string)[]): T {
    const bound = Object.create(port) as T;
    for (const method of methods) {
      const make = (port[method] as (...args: unknown[]) => unknown).bind(port);
      const what = `${kind}.${method}`;
      Object.assign(bound, {
        [method]: (...args: unknown[]) => this.ground.scheduler.call(this, kind, what, () => make(...args)),
      });
    }
    return bound;
  }

  #ports() {
    const { store, watch, queue, scheduler } = this.ground;
    return {
      store: this.bound<Store>(store, 'database', Object.keys(store) as (keyof Store)[]),
      watch: this.bound<Watch>(watch, 'database', Object.keys(watch) as (keyof Watch)[]),
      queue: this.bound<Queue>(queue, 'queue', ['add', 'probe', 'remove', 'readEpoch', 'writeEpoch']),
      clock: this.#clock(scheduler.clock),
      log: quietLog,
    };
  }

  /** Whoever sleeps wakes only while the process lives and does not stand still. */
  #clock(clock: Clock): Clock {
    return {
      monotonicMs: () => clock.monotonicMs(),
      sleep: async (ms, signal) => {
        await clock.sleep(ms, signal);
        while (this.isFrozen) await clock.sleep(100);
        if (this.isDead) await new Promise(() => {});
      },
    };
  }

  async #handle(delivery: Dispatch, handled: Promise<DeliveryEnd>): Promise<DeliveryEnd> {
    const id = `${delivery.runId}.${delivery.seq}.${delivery.dispatch}`;
    this.#active.set(id, delivery);
    const end = await handled;
    if (this.isDead) return new Promise(() => {});
    this.#active.delete(id);
    return end;
  }

  /** The queue hands out the jobs of a dead worker again when their locks have expired. */
  async #stall(): Promise<void> {
    const { scheduler, queue } = this.ground;
    await scheduler.clock.sleep(stallMs);
    for (const job of this.#active.values()) {
      if ((await queue.probe([job]).catch(() => []))[0] === 'active') queue.stall(job);
    }
  }
}
