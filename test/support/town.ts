/**
 * A whole Pawl in memory on a clock driven by hand: database, queue, maintenance and any number of workers, whose processes
 * can die between two awaits. Hours take no time, and nothing in it waits for a real timer but a call told to hang.
 */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Agent } from '../../src/core/agent.js';
import type { Draft } from '../../src/core/draft.js';
import { isFinal, type RunState } from '../../src/core/run.js';
import type { NewRun } from '../../src/core/view.js';
import { Maintenance } from '../../src/engine/maintain.js';
import { type RunningWorker, startWorker, type WorkerParts } from '../../src/engine/worker.js';
import type { Clock, Dispatch, Ids, Llm, StepScope } from '../../src/ports.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { MemoryQueue } from '../../src/testing/memory-queue.js';
import { inOrder, type RunRows } from '../../src/testing/memory-runs.js';
import { type MemoryWorld, memoryWorld } from '../../src/testing/memory-world.js';
import { brokenInvariants } from './invariants.js';
import { quietLog } from './quiet-log.js';

export interface TownWorker extends RunningWorker {
  /** SIGKILL: from now on nothing of it goes on, and nobody is told. Its jobs stall when their locks expire. */
  kill(): void;
}

export class Town {
  readonly clock = new FakeClock();
  readonly world: MemoryWorld = memoryWorld({ clock: this.clock });
  readonly queue = new MemoryQueue({ clock: this.clock });
  readonly #workers = new Set<TownWorker>();
  readonly #stopMaintenance = new AbortController();
  #made = 0;

  constructor({ maintenance = true } = {}) {
    const { store, watch } = this.world;
    const parts = { store, watch, queue: this.queue, clock: this.clock, log: quietLog };
    if (maintenance) {
      void new Maintenance(parts, { deathMs: 8_000, everyMs: 500 }).run(this.#stopMaintenance.signal);
    }
  }

  /** Jitter is none: every delay is the shortest. */
  private readonly ids: Ids = {
    runId: () => `run_${++this.#made}`,
    workerId: () => `worker_${++this.#made}`,
    claimToken: () => randomUUID(),
    random: () => 0,
  };

  async startWorker(
    given: { agents: readonly Agent[]; llm: Llm; concurrency?: number } & Pick<WorkerParts, 'onGap' | 'embedder'>,
  ): Promise<TownWorker> {
    const life = new Life();
    const { store, watch } = this.world;
    const active = new Map<string, Dispatch>();
    let id = '';
    const worker = await startWorker(
      {
        store: life.bound(store),
        watch: life.bound(watch),
        queue: life.bound(this.queue),
        llm: life.bound(given.llm),
        clock: life.bound<Clock>(this.clock),
        ids: this.ids,
        log: quietLog,
        agents: new Map(given.agents.map((agent) => [agent.name, agent])),
        workers: {
          register: async (registration) => {
            id = registration.id;
            return life.bound(await this.world.workers.register(registration));
          },
        },
        consumer: ({ handler }) =>
          this.queue.consumer({
            queues: ['llm', 'tool'],
            concurrency: given.concurrency ?? 5,
            handler: async (delivery) => {
              const job = `${delivery.runId}.${delivery.seq}.${delivery.dispatch}`;
              active.set(job, delivery);
              const end = await life.alive(handler(delivery));
              active.delete(job);
              return end;
            },
          }),
        embedder: given.embedder ? life.bound(given.embedder) : null,
        ...(given.onGap === undefined ? {} : { onGap: given.onGap }),
      },
      'steps',
    );
    const running: TownWorker = {
      ...worker,
      kill: () => {
        if (life.isOver) return;
        life.end();
        this.world.workers.kill(id);
        this.#workers.delete(running);
        void worker.stop(0);
        void this.stall([...active.values()]);
      },
    };
    this.#workers.add(running);
    return running;
  }

  /** BullMQ hands out the jobs of a dead worker again when their locks have expired. */
  private async stall(jobs: readonly Dispatch[]): Promise<void> {
    await this.clock.sleep(30_000, this.#stopMaintenance.signal);
    for (const job of jobs) {
      const isActive = (await this.queue.probe([job]).catch(() => []))[0] === 'active';
      if (isActive) this.queue.stall(job);
    }
  }

  /** Accepts a run and tells the queue, as a client does. */
  async start(asked: Partial<NewRun> & { agent: string }): Promise<string> {
    const id = this.ids.runId();
    const run = {
      id,
      input: 'go',
      key: null,
      tenant: null,
      threadId: null,
      tags: {},
      model: null,
      delayMs: 0,
      limits: {},
      ...asked,
    };
    const accepted = await this.world.store.createRuns([run]);
    const dispatches = accepted.flatMap((one) => ('refused' in one ? [] : one.dispatches));
    await this.queue.add(dispatches).catch(() => {});
    return id;
  }

  /** A command of a client. */
  async command<T>(runId: string, rule: (draft: Draft) => T, scope: StepScope = 'open'): Promise<T> {
    const changed = await this.world.store.change(runId, scope, rule);
    if (changed === null) throw new Error(`there is no run ${runId}`);
    await this.queue.add(changed.dispatches).catch(() => {});
    return changed.value;
  }

  rows(runId: string): RunRows {
    const rows = this.world.rows(runId);
    if (rows === undefined) throw new Error(`there is no run ${runId}`);
    return rows;
  }

  run(runId: string): RunState {
    return this.rows(runId).run;
  }

  statuses(runId: string): string[] {
    return [...this.rows(runId).steps.values()].sort((a, b) => a.seq - b.seq).map((step) => step.status);
  }

  /** Lets time pass until it holds; fails after `withinMs` of it. Answers how long that took, to 100 ms. */
  async until(holds: () => boolean, withinMs = 60_000): Promise<number> {
    for (let waitedMs = 0; ; waitedMs += 100) {
      await this.clock.advance(waitedMs === 0 ? 0 : 100);
      if (holds()) return waitedMs;
      if (waitedMs >= withinMs) throw new Error(`it does not hold after ${withinMs} ms`);
    }
  }

  /** Lets time pass until the run is final or suspended. */
  async settled(runId: string, withinMs = 60_000): Promise<RunState> {
    await this.until(() => isFinal(this.run(runId).status) || this.run(runId).status === 'suspended', withinMs);
    return this.run(runId);
  }

  check(runId: string): void {
    const { run, steps, messages, attempts, events } = this.rows(runId);
    const eventIds = events.map((event) => event.id);
    const broken = brokenInvariants({
      run,
      steps: [...steps.values()],
      messages: inOrder(messages),
      attempts,
      eventIds,
    });
    expect(broken, runId).toEqual([]);
  }

  async close(): Promise<void> {
    this.#stopMaintenance.abort();
    for (const worker of [...this.#workers]) worker.kill();
    this.world.workers.stopAll();
    await this.queue.close();
  }
}

/** The life of a process. After its end whatever it asked for is never answered. */
class Life {
  isOver = false;

  end(): void {
    this.isOver = true;
  }

  alive<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      answer.then(
        (value) => {
          if (!this.isOver) resolve(value);
        },
        (error) => {
          if (!this.isOver) reject(error);
        },
      );
    });
  }

  /** The same port, whose answers come only while the process lives, and whose requests are sent only then. */
  bound<Port extends object>(port: Port): Port {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => {
          if (this.isOver) return name === 'monotonicMs' ? 0 : new Promise(() => {});
          const answer: unknown = Reflect.apply(member, target, args);
          return answer instanceof Promise ? this.alive(answer) : answer;
        };
      },
    });
  }
}
