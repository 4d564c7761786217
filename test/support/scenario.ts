/**
 * One run, moved by hand: tests of the rules say what a worker, an operator or maintenance does, and look at the rows. After
 * every move the invariants are checked, so that a test of one rule is a test of all of them.
 */
import { expect } from 'vitest';
import type { Draft } from '../../src/core/draft.js';
import type { LlmFailure, Outcome, PlannedCall, StorableText } from '../../src/core/outcome.js';
import { type Recorded, recordOutcome } from '../../src/core/record.js';
import { type ClaimDeath, releaseClaim } from '../../src/core/recover.js';
import type { Judgement } from '../../src/core/reflect.js';
import type { Limits, Reason, Reserve, Usage } from '../../src/core/run.js';
import { noUsage } from '../../src/core/run.js';
import type { StepState } from '../../src/core/step.js';
import { callHash, canonicalJson } from '../../src/core/storable.js';
import type { AgentListing, NewRun } from '../../src/core/view.js';
import type { ClaimRequest, Dispatch, Refusal, StepScope } from '../../src/ports.js';
import { acceptRun, changeRun, claimStep, inOrder, type RunRows } from '../../src/testing/memory-runs.js';
import { brokenInvariants } from './invariants.js';

export const listing: AgentListing = {
  name: 'helper',
  version: 'v1',
  model: 'scripted',
  language: 'en',
  limits: { maxSteps: 60, maxTurns: 25, maxTokens: null, maxCostUsd: null, deadlineMs: null, onLimit: 'finish' },
  llmTimeoutMs: 120_000,
  llmAttempts: 4,
  reserve: { inputTokens: 50, outputTokens: 20 },
  price: null,
  tools: [],
  registeredAt: null,
};

const startAt = new Date('2026-01-05T09:00:00.000Z');

/** A run of the agent `helper` that asks for nothing special. */
export function askedRun(id: string, more: Partial<NewRun> = {}): NewRun {
  const nothing = { key: null, tenant: null, threadId: null, tags: {}, model: null, delayMs: 0, limits: {} };
  return { id, agent: 'helper', input: 'the task', ...nothing, ...more };
}

export class Scenario {
  rows: RunRows;
  now = startAt;
  /** Handed to the queue by the last move. */
  dispatches: Dispatch[] = [];
  #tokens = 0;

  constructor(given: { limits?: Partial<Limits>; delayMs?: number; llmAttempts?: number } = {}) {
    const { limits = {}, delayMs = 0, llmAttempts = listing.llmAttempts } = given;
    this.rows = acceptRun(askedRun('run_1', { delayMs, limits }), { ...listing, llmAttempts }, this.now);
    this.check();
  }

  get run() {
    return this.rows.run;
  }

  get steps(): StepState[] {
    return [...this.rows.steps.values()].sort((a, b) => a.seq - b.seq);
  }

  step(seq: number): StepState {
    const step = this.rows.steps.get(seq);
    if (step === undefined) throw new Error(`there is no step ${seq}`);
    return step;
  }

  /** The statuses of all steps, by seq. */
  get statuses(): string[] {
    return this.steps.map((step) => (step.waitingFor === null ? step.status : `${step.status}:${step.waitingFor}`));
  }

  /** What the model would be sent: role, and the text or the asked-for calls. */
  get history(): string[] {
    return inOrder(this.rows.messages).map(({ message }) =>
      message.role === 'assistant' && message.toolCalls.length > 0
        ? `assistant: ${message.toolCalls.map((call) => call.name).join(', ')}`
        : `${message.role}: ${message.content}`,
    );
  }

  get eventTypes(): string[] {
    return this.rows.events.map((event) => event.type);
  }

  pass(ms: number): void {
    this.now = new Date(this.now.getTime() + ms);
  }

  change<T>(rule: (draft: Draft) => T, scope: StepScope = 'open', receipt?: string): T {
    const { value, dispatches } = changeRun(this.rows, scope, rule, { now: this.now, receipt });
    this.dispatches = dispatches;
    this.check();
    return value;
  }

  tryClaim(seq: number, given: Partial<ClaimRequest> = {}): { token: string } | { refusal: Refusal } {
    this.#tokens += 1;
    const token = given.token ?? `token-${this.#tokens}`;
    const serves = new Map([['helper', 'v1']]);
    const request = { runId: 'run_1', seq, dispatch: this.step(seq).dispatch, workerId: 'worker_1', token, serves };
    const answer = claimStep(
      this.rows,
      { takesSuspect: true, ...request, ...given },
      { now: this.now, workerLives: true },
    );
    this.check();
    return answer.claimed ? { token } : { refusal: answer.refusal };
  }

  /** Claims a step, as soon as it is due. */
  claim(seq: number): string {
    const { dueAt } = this.step(seq);
    if (this.step(seq).status === 'pending' && dueAt > this.now) this.now = dueAt;
    const answer = this.tryClaim(seq);
    if ('refusal' in answer) throw new Error(`the claim of step ${seq} was refused: ${answer.refusal}`);
    return answer.token;
  }

  record(seq: number, token: string, outcome: Outcome, attemptsMade = 0): Recorded {
    const request = { seq, token, outcome, attemptsMade };
    return this.change((draft) => recordOutcome(draft, request), { seqs: [seq] }, token);
  }

  /** Claims a step and records what it produced. */
  perform(seq: number, outcome: Outcome, attemptsMade = 0): Recorded {
    return this.record(seq, this.claim(seq), outcome, attemptsMade);
  }

  /** Maintenance takes a step's claim away. */
  release(seq: number, death: ClaimDeath): boolean {
    const token = this.step(seq).claim?.token ?? 'none';
    return this.change((draft) => releaseClaim(draft, seq, token, death), { seqs: [seq] });
  }

  /** Claims a step and loses the claim; answers its token. */
  lose(seq: number, death: ClaimDeath): string {
    const token = this.claim(seq);
    this.release(seq, death);
    return token;
  }

  /** Crashes a step until it is dead. */
  kill(seq: number): void {
    while (this.step(seq).status !== 'dead') this.lose(seq, 'crash');
  }

  check(): void {
    const { run, messages, attempts, events } = this.rows;
    const eventIds = events.map((event) => event.id);
    expect(brokenInvariants({ run, steps: this.steps, messages, attempts, eventIds })).toEqual([]);
  }
}

/** Of a call as most are. */
export const reserve: Reserve = { inputTokens: 100, outputTokens: 20, costUsd: null };

export const usage: Usage = { ...noUsage, inputTokens: 100, outputTokens: 10 };

export function text(words: string): StorableText {
  return { text: words, tokens: 3, full: null };
}

type Reply = Extract<Outcome, { kind: 'reply' }>;

export function asks(...calls: PlannedCall[]): Reply {
  return { ...says(''), content: null, calls };
}

export function says(content: string, more: Partial<Reply> = {}): Reply {
  const rest = {
    lastBecause: null,
    isJson: false,
    objection: null,
    usage,
    model: 'scripted',
    tokens: 5,
    window: { windowFrom: 0, digestBefore: 0 },
    repetition: null,
    reserve,
  };
  return { kind: 'reply', content, calls: [], ...rest, ...more };
}

/** An LLM step in the place of a turn: it sums up what came before the given seq, or comes to no summary. */
export function sumsUp(before: number, content: string | null = 'the summary'): Outcome {
  return {
    kind: 'summary',
    summary: content === null ? null : { content, calls: ['look {}: seen'], tokens: 9 },
    why: content === null ? 'the model wrote no summary' : null,
    window: { windowFrom: before, digestBefore: before },
    tokens: { before: 900, after: 400 },
    usage,
    reserve,
  };
}

/** An LLM step that made the plan, or came to none. */
export function plans(content: string | null): Outcome {
  return {
    kind: 'plan',
    plan: content === null ? null : { content, tokens: 9 },
    why: content === null ? 'the model wrote no plan' : null,
    window: { windowFrom: 0, digestBefore: 0 },
    usage,
    reserve,
  };
}

/** An LLM step that judged the answer of step `seq`. */
export function judges(seq: number, verdict: Judgement, rounds = 1): Outcome {
  return {
    kind: 'reflection',
    verdict,
    objection: verdict.is === 'objected' ? { text: verdict.objection, tokens: 4 } : null,
    answer: { seq, output: `answer ${seq}`, isJson: false },
    rounds,
    usage,
    reserve,
  };
}

/** A reply without tools because of a limit. */
export function lastWords(content: string, lastBecause: Reason, more: Partial<Reply> = {}): Reply {
  return says(content, { lastBecause, ...more });
}

export function call(name: string, more: Partial<PlannedCall> = {}): PlannedCall {
  const given = more.arguments ?? '{}';
  const canonical = canonicalJson(JSON.parse(given));
  return {
    name,
    arguments: given,
    canonicalArguments: canonical,
    queue: 'tool',
    effect: 'none',
    callHash: callHash(name, canonical),
    maxAttempts: more.effect === 'once' ? 1 : 3,
    timeoutMs: 30_000,
    sequential: false,
    maxCalls: null,
    fault: null,
    identicalTo: null,
    ...more,
  };
}

export function faulty(name: string): PlannedCall {
  return call(name, { fault: { text: `there is no tool ${name}`, tokens: 6 }, maxAttempts: 1 });
}

export function value(words: string): Outcome {
  return { kind: 'tool_value', value: text(words) };
}

export function fails(more: { retry?: boolean; retryInMs?: number; code?: string } = {}): Outcome {
  return {
    kind: 'tool_failure',
    code: 'threw',
    observation: text('the tool failed'),
    retry: true,
    retryInMs: 1_000,
    ...more,
  };
}

export function llmFails(
  failure: Partial<LlmFailure> = {},
  more: Partial<
    Pick<Extract<Outcome, { kind: 'llm_failure' }>, 'retryInMs' | 'budgetTokens' | 'lastBecause' | 'reserve' | 'models'>
  > = {},
): Outcome {
  return {
    kind: 'llm_failure',
    failure: {
      class: 'retryable',
      code: 'server_error',
      message: 'HTTP 500',
      reason: 'attempts_exhausted',
      retryAfterMs: null,
      usage: null,
      ...failure,
    },
    retryInMs: 2_000,
    budgetTokens: null,
    reserve,
    models: { failed: 'scripted', next: null, first: 'scripted' },
    lastBecause: null,
    ...more,
  };
}

export const happenedMaybe: Outcome = { kind: 'tool_unknown', code: 'threw', message: 'socket hang up' };
export const askOperator: Outcome = { kind: 'unknown_settled', observation: null };
export const tellModel: Outcome = { kind: 'unknown_settled', observation: text('nobody knows whether it happened') };

export function aborted(cause: 'ending' | 'lost' | 'shutdown', started = true): Outcome {
  return { kind: 'aborted', cause, started, usage: null, observation: text('not executed: deadline') };
}

/** A run whose model has asked for the given calls; they are steps 2 and on. */
export function afterAsking(calls: PlannedCall[], given: ConstructorParameters<typeof Scenario>[0] = {}): Scenario {
  const scenario = new Scenario(given);
  scenario.perform(1, asks(...calls));
  return scenario;
}

/** The code of the PawlError that `work` throws. */
export function refusalOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
  throw new Error('nothing was refused');
}
