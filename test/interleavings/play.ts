/**
 * One interleaving, a function of its seed: a few runs on two workers and their maintenance, calls ordered by the scheduler,
 * faults where it wants them, commands in between. Then nothing is broken any more, and each run must come to its known end;
 * at last the past comes back and must change nothing. Answers what was broken, nothing if all held. Next: judge.ts.
 */
import type { Agent } from '../../src/core/agent.js';
import { cancelRun, pauseRun, redriveRun, resolveStep, resumeRun } from '../../src/core/commands.js';
import type { Draft } from '../../src/core/draft.js';
import { PawlError } from '../../src/core/errors.js';
import { isFinal } from '../../src/core/run.js';
import type { Ids, StepScope, Store } from '../../src/ports.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { MemoryQueue } from '../../src/testing/memory-queue.js';
import type { RunRows } from '../../src/testing/memory-runs.js';
import { createMemoryStore, emptyTables, type Tables } from '../../src/testing/memory-store.js';
import { createMemoryWatch } from '../../src/testing/memory-watch.js';
import { type Random, randomOf } from '../chaos/campaign/random.js';
import { agentOf, agentsOf, type Effect, enter, lentTool, resultOf, tasks } from './cast.js';
import { Judge } from './judge.js';
import { modelOf } from './model.js';
import { type Ground, Process } from './process.js';
import { Scheduler, turn } from './scheduler.js';

export interface Told {
  seed: number;
  broken: string[];
  /** What befell it, for a play that failed. */
  story: string[];
  actions: number;
}

const places = 2;
const agents: Agent[][] = Array.from({ length: places }, (_, place) => agentsOf(place));
const concurrency = 2;
const mostFaults = 4;
/** Once nothing is broken any more, every run is at its end, or at a question, within this time; several pass it. */
const settlesWithinMs = 240_000;
const frozenMs = [500, 15_000] as const;
const restartMs = [0, 3_000] as const;
const meddlings = [
  'wipe',
  'twice',
  'retry',
  'away',
  'cancel',
  'pause',
  'resume',
  'redrive',
  'withdraw',
  'give back',
] as const;
const longestPlay = 20_000;
const modelFails = 0.02;

/** `spoil`: breaks a part, to see that it is found out. */
export async function playOne(seed: number, spoil: (ground: Ground) => void = () => {}): Promise<Told> {
  const play = new Play(seed);
  spoil(play.ground);
  try {
    await play.begin();
    await play.disturb();
    await play.settle();
    await play.bringBackThePast();
  } catch (error) {
    play.judge.found(error instanceof Error ? `${error.message}` : String(error));
  } finally {
    await play.end();
  }
  return play.told();
}

class Play {
  readonly judge: Judge;
  private readonly random: Random;
  private readonly clock = new FakeClock();
  private readonly scheduler: Scheduler;
  private readonly tables: Tables;
  private readonly store: Store;
  private readonly queue = new MemoryQueue({ clock: this.clock });
  private readonly effects: Effect[] = [];
  private readonly runIds: string[] = [];
  private readonly alive: (Process | null)[] = [];
  readonly ground: Ground;
  private made = 0;
  private over = false;

  constructor(private readonly seed: number) {
    this.random = randomOf(seed, 'interleaving');
    this.scheduler = new Scheduler(this.clock, this.random, { faults: this.random.int(1, mostFaults) });
    const { clock } = this;
    this.tables = emptyTables(clock);
    const store = createMemoryStore(this.tables);
    this.judge = new Judge(this.tables, this.effects);
    this.store = this.judge.watching(store);
    const ids: Ids = {
      runId: () => `run_${++this.made}`,
      workerId: () => `worker_${++this.made}`,
      claimToken: () => `token_${++this.made}`,
      random: () => this.random.next(),
    };
    this.ground = {
      scheduler: this.scheduler,
      tables: this.tables,
      store: this.store,
      watch: createMemoryWatch(this.tables),
      queue: this.queue,
      ids,
      frozenMs: () => this.random.int(...frozenMs),
      onDeath: (process) => this.follow(process),
    };
  }

  async begin(): Promise<void> {
    enter({
      effects: this.effects,
      sleep: (ms, signal) => this.clock.sleep(ms, signal),
      die: (place) => this.alive[place]?.kill(),
      act: (place, what, act) => {
        const caller = this.alive[place];
        return caller == null ? new Promise(() => {}) : this.scheduler.call(caller, 'outside', what, act);
      },
    });
    for (let place = 0; place <= places; place++) this.fill(place);
    while (this.tables.agents.length === 0) await this.scheduler.step();
    const runs = this.random.int(1, 2);
    for (let n = 0; n < runs; n++) await this.start();
  }

  /** The last place is maintenance's. */
  private fill(place: number): void {
    const process = new Process(place === places ? 'maintenance' : `worker ${place}`, this.ground);
    this.alive[place] = process;
    const mine = agents[place];
    if (mine === undefined) process.maintain();
    else {
      const model = modelOf({
        onRequest: (request) => this.judge.asked(request),
        onReply: () => this.judge.replied(),
        fails: () => this.random.chance(modelFails),
      });
      // A process that finds no database at its start ends, and is started again.
      void process.work(mine, model, concurrency).catch(() => process.kill());
    }
  }

  /** A service manager starts another. */
  private follow(process: Process): void {
    const place = this.alive.indexOf(process);
    if (place < 0) return;
    this.alive[place] = null;
    if (this.over) return;
    this.scheduler.tell(`${process.name} died`);
    void this.clock.sleep(this.random.int(...restartMs)).then(() => {
      if (!this.over) this.fill(place);
    });
  }

  private async start(): Promise<void> {
    const id = `run_${++this.made}`;
    const input = this.random.pick(Object.keys(tasks));
    const threadId = this.random.chance(0.3) ? 'chat' : null;
    const run = {
      id,
      agent: agentOf(input),
      input,
      key: null,
      tenant: null,
      threadId,
      tags: {},
      model: null,
      delayMs: 0,
      limits: {},
    };
    const accepted = await this.store.createRuns([run]);
    const dispatches = accepted.flatMap((one) => ('refused' in one ? [] : one.dispatches));
    this.runIds.push(id);
    if (!this.random.chance(0.1)) await this.queue.add(dispatches);
  }

  /** While there are faults left, and a little longer. */
  async disturb(): Promise<void> {
    for (let actions = 0; actions < 600 && this.goesOn(); actions++) {
      if (this.random.chance(0.02)) await this.meddle();
      await this.scheduler.step();
      this.judge.look();
    }
    this.scheduler.faultsLeft = 0;
  }

  private goesOn(): boolean {
    return this.runIds.some((id) => !isFinal(this.rows(id).run.status));
  }

  /** Somebody does something that is not a call of ours. */
  private async meddle(): Promise<void> {
    const id = this.random.pick(this.runIds);
    const what = this.random.pick(meddlings);
    this.scheduler.tell(`${what} ${id}`);
    switch (what) {
      case 'wipe':
        return this.queue.wipe();
      case 'twice': {
        const active = this.queue.jobs().filter(({ state }) => state === 'active');
        if (active.length > 0) this.queue.stall(this.random.pick(active));
        return;
      }
      case 'retry': {
        const failed = this.queue.jobs().filter(({ state }) => state === 'failed');
        if (failed.length > 0) this.queue.retryFailed(this.random.pick(failed));
        return;
      }
      case 'away':
        return this.away();
      case 'withdraw':
        return this.operate((store) => store.stopTool({ tool: lentTool, agent: null }));
      case 'give back':
        return this.operate((store) => store.allowTool({ tool: lentTool, agent: null }));
      case 'cancel':
        return this.random.chance(0.5) ? this.command(id, cancelRun) : undefined;
      case 'pause':
        return this.command(id, pauseRun);
      case 'resume':
        return this.command(id, (draft) => resumeRun(draft, {}));
      case 'redrive':
        return this.command(id, (draft) => redriveRun(draft, 'command'), 'revivable');
    }
  }

  /** Nothing, where the database is away. */
  private async operate(work: (store: Store) => Promise<boolean>): Promise<void> {
    if (this.tables.reachable) await work(this.store);
  }

  private away(): void {
    const isDatabase = this.random.chance(0.5);
    const set = (reachable: boolean) => {
      if (isDatabase) this.tables.reachable = reachable;
      else this.queue.setReachable(reachable);
    };
    this.scheduler.tell(`the ${isDatabase ? 'database' : 'queue'} is away`);
    set(false);
    void this.clock.sleep(this.random.int(100, 12_000)).then(() => set(true));
  }

  private async command<T>(id: string, rule: (draft: Draft) => T, scope: StepScope = 'open'): Promise<void> {
    const changed = await this.store.change(id, scope, rule).catch((error: unknown) => {
      if (error instanceof PawlError && ['conflict', 'database_unreachable'].includes(error.code)) return null;
      throw error;
    });
    await this.queue.add(changed?.dispatches ?? []).catch(() => {});
  }

  /** Nothing is broken any more: operators answer what runs ask, and each run comes to its end. */
  async settle(): Promise<void> {
    this.tables.reachable = true;
    this.queue.setReachable(true);
    let untilMs = this.clock.monotonicMs() + settlesWithinMs;
    for (let actions = 0; this.goesOn() || this.someFailed() || this.someFrozen(); actions++) {
      await this.scheduler.step();
      this.judge.look();
      for (const id of this.runIds) if (await this.answer(id)) untilMs = this.clock.monotonicMs() + settlesWithinMs;
      if (this.clock.monotonicMs() > untilMs || actions > longestPlay) {
        return this.judge.found(
          `I3: ${this.runIds.map((id) => this.describe(id)).join('; ')} after ${actions} actions`,
        );
      }
    }
    for (const id of this.runIds) this.judge.atEnd(id);
    this.judge.atEndOfAll();
  }

  /** An operator has it tried again. */
  private someFailed(): boolean {
    return this.runIds.some((id) => this.rows(id).run.status === 'failed');
  }

  private someFrozen(): boolean {
    return this.alive.some((process) => process === null || process.isFrozen);
  }

  /** Answers whether it did anything. */
  private async answer(id: string): Promise<boolean> {
    const { run, steps } = this.rows(id);
    if (run.status === 'failed') {
      await this.command(id, (draft) => redriveRun(draft, 'command'), 'revivable');
      return !isFinal(this.rows(id).run.status);
    }
    if (run.status !== 'suspended') return false;
    for (const step of steps.values()) {
      if (step.waitingFor === 'operator' && step.waitDetail === 'paused') {
        await this.command(id, (draft) => resumeRun(draft, {}));
        return true;
      }
      if (step.waitingFor !== 'outcome' && step.waitingFor !== 'operator') continue;
      // The operator looks at the world outside, and says what they see there.
      const happened = this.effects.some(({ runId, seq }) => runId === id && seq === step.seq);
      const observation = { text: resultOf(step.name), tokens: 1, full: null };
      const resolve = happened ? ({ as: 'done', observation } as const) : ({ as: 'rerun' } as const);
      await this.command(id, (draft) => resolveStep(draft, step.seq, resolve));
      return true;
    }
    return false;
  }

  /** Every job there ever was is delivered once more. */
  async bringBackThePast(): Promise<void> {
    const before = this.runIds.map((id) => this.judge.recordedPart(id));
    this.queue.wipe();
    for (const id of this.runIds) {
      for (const { queue, seq, dispatch } of this.rows(id).steps.values()) {
        const old = Array.from({ length: dispatch }, (_, n) => ({ queue, runId: id, seq, dispatch: n + 1 }));
        await this.queue.add(old);
      }
    }
    for (let actions = 0; actions < 400 && this.queue.jobs().some(({ state }) => state !== 'completed'); actions++) {
      if (this.queue.jobs().every(({ state }) => state === 'completed' || state === 'failed')) break;
      await this.scheduler.step();
    }
    const after = this.runIds.map((id) => this.judge.recordedPart(id));
    if (JSON.stringify(after) !== JSON.stringify(before)) this.judge.found('I2: old jobs changed a final run');
  }

  private rows(id: string): RunRows {
    const rows = this.tables.runs.get(id);
    if (rows === undefined) throw new Error(`run ${id} is lost`);
    return rows;
  }

  private describe(id: string): string {
    const { run, steps } = this.rows(id);
    const each = [...steps.values()].map(({ seq, name, status, waitingFor }) =>
      [seq, name, status, waitingFor].filter((word) => word !== null).join(' '),
    );
    return `${id} stands still, ${run.status}: ${each.join(', ')}`;
  }

  async end(): Promise<void> {
    this.over = true;
    for (const process of [...this.alive]) process?.kill();
    await this.queue.close();
    await turn();
    await turn();
  }

  told(): Told {
    return {
      seed: this.seed,
      broken: this.judge.broken(),
      story: this.scheduler.told,
      actions: this.scheduler.actions,
    };
  }
}
