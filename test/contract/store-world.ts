/**
 * What the suites of the Store and of its Watch need of a database, real or in memory, and the moves they make on it: runs
 * started, steps claimed and recorded, as a worker does.
 */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Draft } from '../../src/core/draft.js';
import type { StoredMessage } from '../../src/core/message.js';
import type { Outcome } from '../../src/core/outcome.js';
import { type Recorded, recordOutcome } from '../../src/core/record.js';
import type { RunState } from '../../src/core/run.js';
import type { AttemptRecord, StepState } from '../../src/core/step.js';
import type { AgentListing, NewRun } from '../../src/core/view.js';
import type {
  Acceptance,
  ClaimAnswer,
  ClaimRequest,
  Dispatch,
  Heart,
  StepScope,
  Store,
  Watch,
  Workers,
} from '../../src/ports.js';
import { brokenInvariants } from '../support/invariants.js';
import { askedRun, listing } from '../support/scenario.js';

export interface Rows {
  run: RunState;
  steps: StepState[];
  messages: StoredMessage[];
  attempts: (AttemptRecord & { lateNote: string | null })[];
  eventTypes: string[];
  eventIds: number[];
}

export interface StoreWorld {
  store: Store;
  watch: Watch;
  /** Their hearts beat every 100 ms. */
  workers: Workers;
  /** Time passes: every row is that much older. */
  pass(ms: number): Promise<void>;
  /** A moment passes, in which hearts may beat. */
  moment(): Promise<void>;
  rows(runId: string): Promise<Rows>;
  close(): Promise<void>;
}

let made = 0;

/** A run of the agent `helper`, not yet accepted. */
export function newRun(asked: Partial<NewRun> = {}): NewRun {
  made += 1;
  return askedRun(`run_${process.pid}_${made}`, asked);
}

/** A database as one worker sees it. */
export class Bench {
  readonly runIds: string[] = [];
  readonly hearts: Heart[] = [];
  readonly workerId = `worker_${randomUUID()}`;

  private constructor(readonly world: StoreWorld) {}

  static async open(world: StoreWorld): Promise<Bench> {
    const bench = new Bench(world);
    await bench.register([listing], bench.workerId);
    return bench;
  }

  get store(): Store {
    return this.world.store;
  }

  get watch(): Watch {
    return this.world.watch;
  }

  async register(agents: AgentListing[], id = `worker_${randomUUID()}`): Promise<{ id: string; heart: Heart }> {
    const heart = await this.world.workers.register({ id, host: 'here', pid: 1, role: 'steps', agents });
    this.hearts.push(heart);
    return { id, heart };
  }

  /** Accepts a run of the agent `helper`. */
  async start(asked: Partial<NewRun> = {}): Promise<string> {
    return (await this.accept(newRun(asked))).id;
  }

  /** Accepts one run; throws what it is refused with. */
  async accept(run: NewRun): Promise<Exclude<Acceptance, { refused: unknown }>> {
    const [accepted] = await this.acceptAll([run]);
    if (accepted === undefined) throw new Error('the store did not answer for the run');
    if ('refused' in accepted) throw accepted.refused;
    return accepted;
  }

  async acceptAll(runs: readonly NewRun[]): Promise<Acceptance[]> {
    const accepted = await this.store.createRuns(runs);
    for (const one of accepted) if ('id' in one && one.created) this.runIds.push(one.id);
    return accepted;
  }

  async tryClaim(runId: string, seq: number, given: Partial<ClaimRequest> = {}): Promise<ClaimAnswer> {
    const dispatch = given.dispatch ?? (await this.step(runId, seq)).dispatch;
    const serves = new Map([['helper', 'v1']]);
    const token = randomUUID();
    return this.store.claim({
      runId,
      seq,
      workerId: this.workerId,
      token,
      serves,
      takesSuspect: true,
      ...given,
      dispatch,
    });
  }

  async claim(runId: string, seq: number, given: Partial<ClaimRequest> = {}) {
    const answer = await this.tryClaim(runId, seq, given);
    if (!answer.claimed) throw new Error(`the claim of step ${seq} was refused: ${answer.refusal}`);
    const token = answer.step.claim?.token ?? '';
    return { ...answer, token };
  }

  async change<T>(runId: string, rule: (draft: Draft) => T, scope: StepScope = 'open') {
    const changed = await this.store.change(runId, scope, rule);
    if (changed === null) throw new Error(`there is no run ${runId}`);
    return changed;
  }

  async record(
    runId: string,
    seq: number,
    token: string,
    outcome: Outcome,
  ): Promise<{ value: Recorded; dispatches: Dispatch[] }> {
    const request = { seq, token, outcome, attemptsMade: 0 };
    const rule = (draft: Draft) => recordOutcome(draft, request);
    const changed = await this.store.change(runId, { seqs: [seq] }, rule, { receipt: token });
    if (changed === null) throw new Error(`there is no run ${runId}`);
    return changed;
  }

  async perform(runId: string, seq: number, outcome: Outcome): Promise<Recorded> {
    const { token } = await this.claim(runId, seq);
    return (await this.record(runId, seq, token, outcome)).value;
  }

  rows(runId: string): Promise<Rows> {
    return this.world.rows(runId);
  }

  async step(runId: string, seq: number): Promise<StepState> {
    const step = (await this.rows(runId)).steps.find((found) => found.seq === seq);
    if (step === undefined) throw new Error(`run ${runId} has no step ${seq}`);
    return step;
  }

  async statuses(runId: string): Promise<string[]> {
    return (await this.rows(runId)).steps.map((step) => step.status);
  }

  /** Polls, a moment apart; the test's own timeout is the limit. */
  async until(holds: () => Promise<boolean> | boolean): Promise<void> {
    while (!(await holds())) await this.world.moment();
  }

  /** Every run started since the last check is sound, whatever the test did to it. */
  async check(): Promise<void> {
    for (const runId of this.runIds.splice(0)) expect(brokenInvariants(await this.rows(runId)), runId).toEqual([]);
  }

  async close(): Promise<void> {
    await Promise.all(this.hearts.map((heart) => heart.stop(2_000)));
    await this.world.close();
  }
}
