/**
 * Judges a play from its rows and from what the world outside saw: what must hold at every look, at the end of a run, and
 * of each request to the model. Answers with sentences that begin with the invariant's name.
 */
import { isFinal } from '../../src/core/run.js';
import { type AttemptRecord, crashLimit, type StepState } from '../../src/core/step.js';
import type { ClaimRequest, LlmRequest, Store } from '../../src/ports.js';
import { inOrder, type RunRows } from '../../src/testing/memory-runs.js';
import type { Tables } from '../../src/testing/memory-store.js';
import { brokenInvariants } from '../support/invariants.js';
import { type Effect, isExpected } from './cast.js';
import { billed } from './model.js';
import { deathMs } from './process.js';

export class Judge {
  readonly #broken = new Set<string>();
  /** What is recorded of each run and may not change any more. */
  readonly #recorded = new Map<string, string>();
  readonly #writes = new Map<string, number>();
  /** The last claim of each step that was given. */
  readonly #claims = new Map<string, ClaimRequest>();
  /** Calls whose tool was withdrawn when their step was claimed last. */
  readonly #withdrawn = new Set<string>();
  readonly #dead = new Set<string>();
  #replies = 0;

  constructor(
    private readonly tables: Tables,
    private readonly effects: readonly Effect[],
  ) {}

  found(breach: string): void {
    this.#broken.add(breach);
  }

  broken(): string[] {
    return [...this.#broken];
  }

  /** The store, each claim looked at as it is given (I11, section 2). */
  watching(store: Store): Store {
    return {
      ...store,
      claim: async (request) => {
        const answer = await store.claim(request);
        if (answer.claimed && (answer.run.endingAs !== null || answer.run.pauseAt !== null)) {
          this.found(`I11: a step of run ${request.runId}, which is ending or paused, was claimed`);
        }
        if (answer.claimed) this.#claimed(request, answer.step.name);
        return answer;
      },
    };
  }

  /** A job of an older dispatch claims nothing; only a recorded retry leaves the dispatch as it was. */
  #claimed(request: ClaimRequest, name: string): void {
    const { runId, seq, dispatch, token } = request;
    if (this.tables.stops.some(({ tool }) => tool === name)) this.#withdrawn.add(`${runId}.${seq}`);
    else this.#withdrawn.delete(`${runId}.${seq}`);
    const before = this.#claims.get(`${runId}.${seq}`);
    this.#claims.set(`${runId}.${seq}`, request);
    if (before === undefined || before.token === token || before.dispatch < dispatch) return;
    const ended = this.tables.runs.get(runId)?.attempts.find((attempt) => attempt.token === before.token);
    if (ended?.endedBy === 'failure' && ended.recorded && before.dispatch === dispatch) return;
    this.found(
      `section 2: step ${seq} of ${runId} was claimed by its job ${dispatch}, after its job ${before.dispatch}`,
    );
  }

  /** I7: each call has its result before the model is asked again. */
  asked({ messages }: LlmRequest): void {
    const open = new Set<string>();
    for (const message of messages) {
      if (message.role === 'assistant') for (const { id } of message.toolCalls) open.add(id);
      if (message.role === 'tool' && !open.delete(message.callId))
        this.found('I7: a result without its call was shown');
    }
    if (messages[0]?.role !== 'user') this.found('I7: a request does not begin with the task');
    if (open.size > 0) this.found(`I7: the model was asked with ${open.size} calls unanswered`);
  }

  replied(): void {
    this.#replies += 1;
  }

  /** What holds at every instant; only of runs that were written since the last look. */
  look(): void {
    const held = [...this.tables.runs.values()].filter(({ run }) => run.holdsThread).length;
    if (held > 1) this.found(`section 8: ${held} runs have the thread`);
    this.#lookAtTheDead();
    for (const [id, rows] of this.tables.runs) {
      if (this.#writes.get(id) === rows.run.writes) continue;
      this.#writes.set(id, rows.run.writes);
      this.#lookAt(id, rows);
    }
  }

  #lookAt(id: string, rows: RunRows): void {
    const { run, steps, messages, attempts, events } = rows;
    const eventIds = events.map((event) => event.id);
    const all = { run, steps: [...steps.values()], messages: inOrder(messages), attempts, eventIds };
    for (const breach of brokenInvariants(all)) this.found(`${id}: ${breach}`);
    for (const step of steps.values()) {
      if (step.status !== 'completed') continue;
      const name = `${id}.${step.seq}`;
      const now = JSON.stringify([step.output, step.error, step.claim?.token]);
      const before = this.#recorded.get(name) ?? now;
      if (before !== now) this.found(`I1: the outcome of step ${step.seq} of ${id} changed`);
      this.#recorded.set(name, before);
    }
  }

  /** Section 7: only a heart that stood still is declared dead. */
  #lookAtTheDead(): void {
    for (const { id, state, endedAt, beatAt } of this.tables.workers.values()) {
      if (state !== 'dead' || this.#dead.has(id)) continue;
      this.#dead.add(id);
      const stillMs = (endedAt?.getTime() ?? 0) - beatAt.getTime();
      if (stillMs < deathMs) this.found(`section 7: ${id} was declared dead ${stillMs} ms after a beat`);
    }
  }

  /** I10: what was answered was billed, whoever heard of it; a call that was lost counts as what was reserved for it. */
  atEndOfAll(): void {
    const counted = [...this.tables.runs.values()].reduce((sum, { run }) => sum + run.usage.inputTokens, 0);
    const owed = this.#replies * billed.inputTokens;
    if (counted < owed) this.found(`I10: the runs count ${counted} tokens of prompts and were billed ${owed}`);
  }

  atEnd(id: string): void {
    const rows = this.tables.runs.get(id);
    if (rows === undefined) return this.found(`I3: run ${id} is lost`);
    const { run } = rows;
    this.#lookAt(id, rows);
    if (!isFinal(run.status)) this.found(`I3: run ${id} is ${run.status}`);
    if (run.status === 'completed' && !isExpected(String(rows.input), run.output))
      this.found(`I1: ${id} answered ${run.output} to ${rows.input}`);
    if (run.status === 'completed' && rows.input === 'tall' && run.summarySeq === null)
      this.found(`I13: ${id} outgrew its window and was not summed up`);
    if (run.status === 'failed') this.found(`section 5: ${id} failed, ${run.reason}`);
    this.#checkEnd(id, rows);
    this.#checkEffects(id, rows);
    this.#checkFacts(id, rows);
    this.#checkCounts(id, rows);
  }

  /** I1: what a call that succeeded says is recorded with it, once. */
  #checkFacts(id: string, { steps, events }: RunRows): void {
    for (const { seq, name, status, error } of steps.values()) {
      const says = name === 'look' && status === 'completed' && error === null ? 1 : 0;
      const told = events.filter((event) => event.type === 'step.remembered' && event.seq === seq).length;
      if (told !== says) this.found(`I1: step ${seq} of ${id}, ${name} and ${status}, left ${told} facts`);
    }
  }

  /** Section 5: a step counts what its attempts say since its last redrive. I4: who recorded an end was not too late. */
  #checkCounts(id: string, { steps, attempts, events }: RunRows): void {
    for (const { token, recorded, lateNote } of attempts)
      if (recorded && lateNote !== null) this.found(`I4: the record of ${token} in ${id} did not find its receipt`);
    for (const step of steps.values()) {
      const done = events.find(({ type, seq }) => type === 'step.completed' && seq === step.seq)?.id;
      const revived = events.findLast(
        ({ type, id: at }) => type === 'run.redriven' && (done === undefined || at < done),
      );
      const since = revived?.at.getTime() ?? Number.NEGATIVE_INFINITY;
      const mine = attempts.filter(({ seq, startedAt }) => seq === step.seq && startedAt.getTime() >= since);
      const counted = countsOf(step, mine);
      if (step.status === 'completed' && (step.failures !== counted.failures || step.crashes !== counted.crashes))
        this.found(
          `section 5: step ${step.seq} of ${id} counts ${step.failures} failures and ${step.crashes} crashes, its attempts ${counted.failures} and ${counted.crashes}`,
        );
      if (counted.crashes > crashLimit || counted.failures > step.maxAttempts)
        this.found(`section 5: step ${step.seq} of ${id} went on after its last attempt`);
    }
  }

  /** I2: one end after the last redrive, and nothing after it. */
  #checkEnd(id: string, { run, events }: RunRows): void {
    const ends = events.filter(({ type }) => /^run\.(completed|failed|cancelled)$/.test(type)).length;
    const redrives = events.filter(({ type }) => type === 'run.redriven').length;
    if (ends !== redrives + 1) this.found(`I2: ${id} has ${ends} ends and ${redrives} redrives`);
    if (events.at(-1)?.type !== `run.${run.status}`) this.found(`I2: ${id} ends with ${events.at(-1)?.type}`);
  }

  /** I5: one key for all attempts of a call. I6: a `once` call starts once for each "did not happen". */
  #checkEffects(id: string, { steps, events }: RunRows): void {
    for (const step of steps.values()) {
      const mine = this.effects.filter(({ runId, seq }) => runId === id && seq === step.seq);
      if (mine.some(({ key }) => key !== step.idempotencyKey))
        this.found(`I5: step ${step.seq} of ${id} had another key`);
      // What was kept is the result of another call.
      const done = step.note === 'cache' ? this.effects.filter(({ tool }) => tool === step.name) : mine;
      if (step.kind === 'tool' && step.status === 'completed' && step.error === null && done.length === 0) {
        this.found(`I1: step ${step.seq} of ${id} is completed and never took effect`);
      }
      if (this.#withdrawn.has(`${id}.${step.seq}`) && step.status === 'completed' && step.error === null)
        this.found(`section 6: step ${step.seq} of ${id} called ${step.name}, which was withdrawn`);
      if (step.effect !== 'once') continue;
      const allowed = 1 + events.filter(({ type, seq }) => type === 'step.did_not_happen' && seq === step.seq).length;
      if (mine.length > allowed)
        this.found(`I6: once step ${step.seq} of ${id} started ${mine.length} times, ${allowed} allowed`);
    }
  }

  /** All of a final run but late notes, and what the queue is told of its deaths. */
  recordedPart(id: string): string {
    const rows = this.tables.runs.get(id);
    if (rows === undefined) return '';
    const { writes: _, ...run } = rows.run;
    const steps = [...rows.steps.values()].map(({ shownAttempts: _, dispatch: __, ...step }) => step);
    const attempts = rows.attempts.map(({ lateNote: _, usage: __, ...attempt }) => attempt);
    return JSON.stringify([run, steps, rows.messages, rows.events, attempts]);
  }
}

/** Only a suspect's crash counts: the first makes a suspect, and a recorded failure clears it. */
function countsOf({ effect }: StepState, attempts: readonly AttemptRecord[]): { failures: number; crashes: number } {
  const counts = { failures: 0, crashes: 0 };
  let suspect = false;
  for (const { endedBy, recorded } of [...attempts].sort((a, b) => a.startedAt.getTime() - b.startedAt.getTime())) {
    if (endedBy === 'failure' && effect !== 'once') {
      counts.failures += 1;
      if (recorded) suspect = false;
    } else if (endedBy === 'crash') {
      if (suspect) counts.crashes += 1;
      suspect = true;
    }
  }
  return counts;
}
