/**
 * A draft of one run under its lock: the rules of record.ts, commands.ts and recover.ts move its steps, and the store
 * writes what moved. Counters, waits, the join of a turn and the status of the run follow from the moves here and nowhere
 * else, so that no rule can leave them wrong. It reads no clock: `now` is the database's.
 */

import { closeTurn } from './conduct.js';
import type { NewFact } from './fact.js';
import { growReserve, isPastDeadline } from './limits.js';
import { callIdOf, type Message, type StoredMessage, tokensPerMessage } from './message.js';
import type { Reason, RunError, RunState } from './run.js';
import { addUsage, isFinal, type Usage } from './run.js';
import type { AttemptEnd, AttemptRecord, DeadReason, StepState, WaitKind } from './step.js';
import { isOpen } from './step.js';

export interface DraftEvent {
  id: number;
  type: string;
  seq: number | null;
  data: Record<string, unknown>;
}

/** A new step, with the columns that planning chooses; the rest start at their zero. */
export type NewStep = Pick<StepState, 'kind' | 'name' | 'queue' | 'maxAttempts' | 'timeoutMs'> &
  Partial<Pick<StepState, 'turnSeq' | 'position' | 'effect' | 'sequential' | 'callHash' | 'input'>> & {
    /** Not for steps recorded as not executed at a limit. */
    counts: boolean;
    idempotencyKey?: (seq: number) => string;
  };

/** What a draft changed, for a store to write. */
export interface Changes {
  run: RunState;
  planned: StepState[];
  changed: StepState[];
  messages: StoredMessage[];
  attempts: AttemptRecord[];
  outputs: { seq: number; body: string }[];
  facts: (NewFact & { seq: number })[];
  events: DraftEvent[];
  dispatches: { queue: string; runId: string; seq: number; dispatch: number }[];
  isEmpty: boolean;
}

/** The event that is kept on its step. */
export const completedType = 'step.completed';

/** Why a `once` call dies whose fate nobody settled in time. */
export const unknownOutcome: DeadReason = {
  reason: 'unknown_outcome',
  error: { code: 'unknown_outcome', message: 'the run ended before anyone said whether this call happened' },
};

/** Thrown by a rule that must see every open step of the run and was not given them; the store loads them and asks again. */
export class NeedsOpenSteps extends Error {}

export class Draft {
  readonly run: RunState;
  readonly now: Date;
  readonly receipt: AttemptRecord | null;
  private readonly steps = new Map<number, StepState>();
  private readonly planned = new Set<number>();
  private readonly changed = new Set<number>();
  private readonly messages: StoredMessage[] = [];
  private readonly attempts: AttemptRecord[] = [];
  private readonly outputs: { seq: number; body: string }[] = [];
  private readonly facts: (NewFact & { seq: number })[] = [];
  private readonly events: DraftEvent[] = [];
  private readonly toDispatch = new Set<number>();
  private runTouched = false;

  constructor(loaded: { run: RunState; steps: readonly StepState[]; now: Date; receipt?: AttemptRecord | null }) {
    this.run = { ...loaded.run };
    this.now = loaded.now;
    this.receipt = loaded.receipt ?? null;
    for (const step of loaded.steps) this.steps.set(step.seq, { ...step });
  }

  /** A step in scope. */
  step(seq: number): StepState | undefined {
    return this.steps.get(seq);
  }

  /** The steps in scope, by seq. */
  all(): StepState[] {
    return [...this.steps.values()].sort((a, b) => a.seq - b.seq);
  }

  /** Every open step of the run. */
  open(): StepState[] {
    const open = this.all().filter((step) => isOpen(step.status));
    if (open.length !== this.run.openSteps) throw new NeedsOpenSteps();
    return open;
  }

  /** Marks the run row as changed by a command: a state kept in memory no longer holds. */
  touch(): RunState {
    this.run.rev += 1;
    this.runTouched = true;
    return this.run;
  }

  event(type: string, seq: number | null, data: Record<string, unknown> = {}): void {
    this.run.lastEvent += 1;
    this.runTouched = true;
    this.events.push({ id: this.run.lastEvent, type, seq, data });
  }

  /** Tells that a step has its outcome. A store may keep the number alone: all else stands in the step and its message. */
  tellCompleted(step: StepState, data: Record<string, unknown> = {}): void {
    this.event(completedType, step.seq, data);
    step.completedEvent = this.run.lastEvent;
  }

  message(seq: number, pos: number, message: Message, tokens: number | null): void {
    this.messages.push({ seq, pos, message, tokens });
    this.run.reserve = growReserve(this.run.reserve, (tokens ?? 0) + tokensPerMessage);
  }

  /** Writes messages that the request which was just answered brought along: its reserve counts them already. */
  bring(messages: readonly StoredMessage[]): void {
    this.messages.push(...messages);
  }

  /** Keeps facts that a call has said. */
  learn(step: StepState, facts: readonly NewFact[]): void {
    this.facts.push(...facts.map((fact) => ({ ...fact, seq: step.seq })));
    this.event('step.remembered', step.seq, { keys: facts.map(({ key }) => key) });
  }

  /** Keeps a whole text aside whose cut form is on the step. */
  keepWhole(seq: number, body: string): void {
    this.outputs.push({ seq, body });
  }

  charge(usage: Usage): void {
    this.run.usage = addUsage(this.run.usage, usage);
    this.runTouched = true;
  }

  /** Adds a pending step; it is dispatched unless something holds it back. */
  plan(step: NewStep): StepState {
    const seq = this.run.nextSeq;
    this.run.nextSeq += 1;
    this.run.openSteps += 1;
    if (step.counts) this.run.stepsUsed += 1;
    const row: StepState = {
      seq,
      kind: step.kind,
      name: step.name,
      queue: step.queue,
      status: 'pending',
      dueAt: this.now,
      dispatch: 0,
      claim: null,
      attempt: 0,
      failures: 0,
      crashes: 0,
      claims: 0,
      suspect: false,
      unknown: false,
      deferrals: 0,
      maxAttempts: step.maxAttempts,
      timeoutMs: step.timeoutMs,
      waitingFor: null,
      waitDetail: null,
      turnSeq: step.turnSeq ?? null,
      position: step.position ?? null,
      callId: step.kind === 'tool' ? callIdOf(seq) : null,
      effect: step.effect ?? null,
      sequential: step.sequential ?? false,
      callHash: step.callHash ?? null,
      idempotencyKey: step.idempotencyKey?.(seq) ?? null,
      input: step.input ?? null,
      output: null,
      error: null,
      note: null,
      usage: null,
      shownAttempts: null,
      completedEvent: null,
      queuedAt: this.now,
      startedAt: null,
      finishedAt: null,
    };
    this.steps.set(seq, row);
    this.planned.add(seq);
    this.runTouched = true;
    return row;
  }

  planLlmStep(): StepState {
    const step = this.plan({
      kind: 'llm',
      name: this.run.llmName,
      queue: 'llm',
      maxAttempts: this.run.llmAttempts,
      timeoutMs: this.run.llmTimeoutMs,
      counts: true,
    });
    this.makePending(step, { redispatch: true });
    return step;
  }

  /**
   * Lets a step run at `dueAt`, unless the run is paused, past its deadline under `suspend`, or waits for its turn in its
   * thread: then it is suspended.
   * `redispatch`: a new job is made now if it is due now, else by the sweep; otherwise the queue still holds its job.
   */
  makePending(step: StepState, { redispatch, dueAt = this.now }: { redispatch: boolean; dueAt?: Date }): void {
    // Kept while it is suspended too: a pause makes nothing due sooner.
    step.dueAt = dueAt;
    if (this.run.pauseAt !== null) return this.suspend(step, 'operator', 'paused');
    if (this.run.limits.onLimit === 'suspend' && isPastDeadline(this.run, this.now)) {
      return this.suspend(step, 'limit', 'deadline');
    }
    if (this.run.threadId !== null && !this.run.holdsThread) return this.suspend(step, 'slot', this.run.threadId);
    this.move(step, 'pending');
    if (redispatch) {
      step.dispatch += 1;
      if (dueAt <= this.now) this.toDispatch.add(step.seq);
    }
  }

  /** Takes a step over once more under a claim that was lost. */
  claimAgain(step: StepState, { claim, startedAt }: StepState): void {
    this.move(step, 'running');
    step.claim = claim;
    step.attempt += 1;
    step.startedAt ??= startedAt;
  }

  suspend(step: StepState, kind: WaitKind, detail: string | null): void {
    this.move(step, 'suspended');
    step.waitingFor = kind;
    step.waitDetail = detail;
    if (kind !== 'step') this.event('step.suspended', step.seq, { waitingFor: kind, detail });
  }

  complete(step: StepState, output: string | null): void {
    this.move(step, 'completed');
    step.output = output;
    step.error = null;
    step.suspect = false;
    step.unknown = false;
  }

  /** What held the step back stays on it: a redrive that revives the step has to hold it back again. */
  cancel(step: StepState): void {
    const held = step.waitDetail;
    this.move(step, 'cancelled');
    step.waitDetail = held;
  }

  /**
   * A step dies, and its run with it. `shownAttempts`: what the queue had counted at the delivery that fails now; null
   * when no delivery does, and then one is made to fail, so that the queue's failed set shows the death.
   */
  die(step: StepState, death: DeadReason, shownAttempts: number | null): void {
    this.move(step, 'dead');
    step.error = death.error;
    step.shownAttempts = shownAttempts;
    if (shownAttempts === null) {
      step.dispatch += 1;
      this.toDispatch.add(step.seq);
    }
    this.event('step.dead', step.seq, { reason: death.reason, error: death.error, attempt: step.attempt });
    if (this.run.endingAs !== null) return;
    this.endRun('failed', death.reason, death.error);
  }

  /** Archives an attempt that ends without completing its step, with its claim and what it spent, which leave the step. */
  archive(
    step: StepState,
    end: AttemptEnd,
    more: Partial<Pick<AttemptRecord, 'recorded' | 'error' | 'retryInMs'>>,
  ): void {
    if (step.claim === null) return;
    this.attempts.push({
      token: step.claim.token,
      seq: step.seq,
      attempt: step.attempt,
      workerId: step.claim.workerId,
      startedAt: step.claim.startedAt,
      endedAt: this.now,
      endedBy: end,
      recorded: more.recorded ?? false,
      error: more.error ?? null,
      usage: step.usage,
      retryInMs: more.retryInMs ?? null,
    });
    step.claim = null;
    step.usage = null;
    this.changed.add(step.seq);
  }

  /** Gives the run its end. Steps not claimed are cancelled; claimed ones are still recorded, and the last ends the run. */
  endRun(status: 'failed' | 'cancelled', reason: Reason, error: RunError | null): void {
    if (this.run.endingAs === null) {
      this.run.endingAs = { status, reason, error, at: this.now };
      this.touch();
    }
    for (const step of this.open()) {
      if (step.status === 'running') continue;
      if (step.unknown) this.die(step, unknownOutcome, null);
      else this.cancel(step);
    }
  }

  completeRun(output: string, reason: Reason | null): void {
    this.run.output = output;
    this.final('completed', reason, null);
  }

  /** Brings a failed run back with the steps that a redrive revives. */
  reopenRun(): void {
    this.run.endingAs = null;
    this.run.status = 'running';
    this.run.reason = null;
    this.run.error = null;
    this.run.finishedAt = null;
    this.touch();
  }

  /** The join and the run's status, after a rule has moved steps. Every store calls it once, at the end. */
  settle(): void {
    if (isFinal(this.run.status)) return;
    if (this.run.openSteps === 0) {
      if (this.run.endingAs !== null) {
        const { status, reason, error } = this.run.endingAs;
        return this.final(status, reason, error);
      }
      this.run.conduct = closeTurn(this.run.conduct);
      this.planLlmStep();
    }
    const before = this.run.status;
    const waits = this.run.openSteps === this.run.suspendedSteps;
    this.run.status = waits ? 'suspended' : this.run.startedAt === null ? 'pending' : 'running';
    if (this.run.status === before) return;
    this.runTouched = true;
    if (waits) this.event('run.suspended', null);
    else if (before === 'suspended') this.event('run.resumed', null);
  }

  /** Counts a step in this draft as changed though it did not move. */
  edit(step: StepState): StepState {
    this.changed.add(step.seq);
    return step;
  }

  changes(): Changes {
    const dispatches = [...this.toDispatch].flatMap((seq) => {
      const step = this.steps.get(seq);
      if (step === undefined || (step.status !== 'pending' && step.status !== 'dead')) return [];
      return [{ queue: step.queue, runId: this.run.id, seq, dispatch: step.dispatch }];
    });
    const pick = (seqs: Iterable<number>) => [...seqs].flatMap((seq) => this.steps.get(seq) ?? []);
    return {
      run: this.run,
      planned: pick(this.planned),
      changed: pick([...this.changed].filter((seq) => !this.planned.has(seq))),
      messages: this.messages,
      attempts: this.attempts,
      outputs: this.outputs,
      facts: this.facts,
      events: this.events,
      dispatches,
      isEmpty: !this.runTouched && this.changed.size === 0 && this.planned.size === 0 && this.attempts.length === 0,
    };
  }

  private move(step: StepState, status: StepState['status']): void {
    const wasOpen = isOpen(step.status);
    const wasSuspended = step.status === 'suspended';
    step.status = status;
    if (status !== 'suspended') {
      step.waitingFor = null;
      step.waitDetail = null;
    }
    step.finishedAt = isOpen(status) ? null : this.now;
    this.run.openSteps += (isOpen(status) ? 1 : 0) - (wasOpen ? 1 : 0);
    this.run.suspendedSteps += (status === 'suspended' ? 1 : 0) - (wasSuspended ? 1 : 0);
    this.changed.add(step.seq);
    this.runTouched = true;
  }

  private final(status: 'completed' | 'failed' | 'cancelled', reason: Reason | null, error: RunError | null): void {
    this.run.status = status;
    this.run.reason = reason;
    this.run.error = error;
    this.run.endingAs = null;
    this.run.pauseAt = null;
    this.run.holdsThread = false;
    this.run.finishedAt = this.now;
    this.runTouched = true;
    this.event(`run.${status}`, null, { reason });
  }
}
