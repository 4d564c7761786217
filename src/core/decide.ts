/**
 * Decide: what comes next, given a run, the step that ran and what it produced. Pure and total: every outcome of every
 * step has its decision here. record.ts carries the decision out; nothing here changes anything.
 */
import { callsOf, reflectionsOf } from './conduct.js';
import { guardLlmStep, isClosed, roomForCalls, roomForReflection } from './limits.js';
import type { Outcome, PlannedCall, StorableText } from './outcome.js';
import type { Reason, RunError, RunState } from './run.js';
import { claimLimit, type DeadReason, type StepState } from './step.js';
import { type Words, wordsOf } from './words.js';

/** What becomes of one tool call of a reply. */
export type Admission =
  | { call: PlannedCall; as: 'pending' }
  /** Not executed: the observation stands in the call already. */
  | { call: PlannedCall; as: 'not_executed'; text: string; tokens: number; counts: boolean }
  | { call: PlannedCall; as: 'suspended'; on: 'limit' | 'operator' | 'step'; detail: string | null };

export type Decision =
  | { next: 'call_tools'; calls: Admission[]; finishingAs: Reason | null }
  /** `unjudged`: why no judgement was asked for where the agent wants one. */
  | { next: 'finish'; output: string; isJson: boolean; reason: Reason | null; unjudged: 'rounds' | 'limit' | null }
  /** The final answer is kept, and the next step judges it. */
  | { next: 'reflect' }
  /** The judgement of the final answer is in: the answer stands. */
  | { next: 'let_stand'; reason: Reason | null }
  /** It objects, and the model is told. */
  | { next: 'reconsider'; text: string; tokens: number }
  /** The step made the plan, or came to none; a turn follows. */
  | { next: 'take_plan' }
  /** The final answer is handed back to the model with an objection. */
  | { next: 'object'; text: string; tokens: number }
  /** The step has its outcome, and the run fails. */
  | { next: 'fail_run'; reason: Reason; error: RunError }
  | { next: 'retry'; inMs: number; error: RunError; budgetTokens: number | null }
  /** The model cannot answer; the next one is asked instead, with all its tries. */
  | { next: 'fall_back'; from: string; to: string; error: RunError }
  /** The step was the summary, or came to none; a turn follows. */
  | { next: 'compact' }
  | { next: 'die'; death: DeadReason }
  | { next: 'observe'; observation: StorableText; error: RunError | null; note?: StepState['note'] }
  /** A `once` call that may have happened: the next claim settles its fate. */
  | { next: 'mark_unknown'; error: RunError; until: 'now' | 'deadline' }
  | { next: 'ask_operator' }
  | { next: 'hand_back' }
  /** The run fails in place of the step, which is cancelled. */
  | { next: 'end_run'; reason: Reason; error: RunError }
  /** The run completes in place of the step, which is cancelled. */
  | { next: 'stop_early'; output: string; isJson: boolean }
  | { next: 'suspend_on_limit'; reason: Reason }
  /** The limit that stopped the step was raised meanwhile. */
  | { next: 'run_again' }
  /** The run is ending: the outcome is kept, and nothing follows from it. */
  | { next: 'keep' }
  | { next: 'cancel' };

/** What the model is told in the place of a call that a limit kept from running. Its tokens are an estimate. */
export function notExecuted(words: Words, limit: Reason): { text: string; tokens: number } {
  const text = words.notExecuted(limit);
  return { text, tokens: Math.ceil(text.length / 2) };
}

/** Objections to final answers before the run fails `invalid_output`. */
export const objectionLimit = 3;

/** `words`: of the run's agent, where it is at hand. */
export function decide(
  run: RunState,
  step: StepState,
  outcome: Outcome,
  now: Date,
  words: Words = wordsOf(run.language),
): Decision {
  if (run.endingAs !== null) return decideInEndingRun(step, outcome, words);
  switch (outcome.kind) {
    case 'reply':
      return decideReply(run, outcome, now, words);
    case 'llm_failure':
      return decideLlmFailure(run, step, outcome);
    case 'summary':
      return { next: 'compact' };
    case 'plan':
      return { next: 'take_plan' };
    case 'reflection':
      // A limit that came meanwhile leaves no time for another answer.
      return outcome.objection === null || run.finishingAs !== null
        ? { next: 'let_stand', reason: run.finishingAs }
        : { next: 'reconsider', ...outcome.objection };
    case 'tool_value':
      return { next: 'observe', observation: outcome.value, error: null, note: outcome.note ?? null };
    case 'tool_failure': {
      // Nobody could be asked about a call that may have happened: that is no answer to the question.
      if (step.unknown) return { next: 'ask_operator' };
      const error = failureOf(outcome);
      const triesLeft = step.failures + 1 < step.maxAttempts && !isClosed(run, step);
      if (outcome.retry && triesLeft) return { next: 'retry', inMs: outcome.retryInMs, error, budgetTokens: null };
      return { next: 'observe', observation: outcome.observation, error };
    }
    case 'tool_unknown':
      return { next: 'mark_unknown', error: { code: outcome.code, message: outcome.message }, until: 'now' };
    case 'unknown_settled':
      return settleUnknown(outcome);
    case 'limit': {
      const guard = guardLlmStep(run, now);
      if (guard.go) return { next: 'run_again' };
      return run.limits.onLimit === 'suspend'
        ? { next: 'suspend_on_limit', reason: guard.reason }
        : { next: 'end_run', reason: guard.reason, error: limitError(guard.reason) };
    }
    case 'stop':
      return { next: 'end_run', reason: outcome.reason, error: outcome.error };
    case 'stop_early':
      return { next: 'stop_early', output: outcome.output, isJson: outcome.isJson };
    case 'aborted':
      return decideAborted(run, step, outcome);
    case 'unstorable':
      return decideUnstorable(step, outcome, words);
  }
}

function failureOf({ code, message, observation }: Extract<Outcome, { kind: 'tool_failure' }>): RunError {
  return { code, message: message ?? observation.text };
}

function limitError(reason: Reason): RunError {
  return { code: reason, message: `the run reached its limit: ${reason}` };
}

function settleUnknown({ observation }: Extract<Outcome, { kind: 'unknown_settled' }>): Decision {
  if (observation === null) return { next: 'ask_operator' };
  const message = 'the fate of this call was not known; onUnknown answered for it';
  return { next: 'observe', observation, error: { code: 'unknown_outcome', message } };
}

function decideUnstorable(step: StepState, outcome: Extract<Outcome, { kind: 'unstorable' }>, words: Words): Decision {
  const error = { code: 'unstorable', message: outcome.message };
  if (step.kind === 'llm') return { next: 'die', death: { reason: 'unstorable', error } };
  const text = words.unstorable(step.name);
  return { next: 'observe', observation: { text, tokens: Math.ceil(text.length / 2), full: null }, error };
}

function decideReply(run: RunState, reply: Extract<Outcome, { kind: 'reply' }>, now: Date, words: Words): Decision {
  if (reply.calls.length === 0 || reply.lastBecause !== null) {
    const reason = reply.lastBecause ?? run.finishingAs;
    if (reply.objection === null) {
      const unjudged = reason === null ? unjudgedBecause(run, reply, now) : null;
      if (unjudged === 'not_yet') return { next: 'reflect' };
      return { next: 'finish', output: reply.content ?? '', isJson: reply.isJson, reason, unjudged };
    }
    if (reason === null && run.objections < objectionLimit) return { next: 'object', ...reply.objection };
    return {
      next: 'fail_run',
      reason: reason ?? 'invalid_output',
      error: { code: 'invalid_output', message: reply.objection.text },
    };
  }
  const executable = reply.calls.filter((call) => call.fault === null).length;
  const room = run.finishingAs === null ? roomForCalls(run, reply.calls.length) : 0;
  if (room < executable && run.limits.onLimit === 'fail') {
    const message = `the model asked for ${executable} tool calls where ${room} more steps were allowed`;
    return { next: 'fail_run', reason: 'max_steps', error: { code: 'max_steps', message } };
  }
  return { next: 'call_tools', ...admitCalls(run, reply.calls, room, words) };
}

/** Null: the agent's answers are not judged; `not_yet`: this one is to be. */
function unjudgedBecause(
  run: RunState,
  { reflect }: Extract<Outcome, { kind: 'reply' }>,
  now: Date,
): 'rounds' | 'limit' | 'not_yet' | null {
  if (reflect === undefined) return null;
  if (reflectionsOf(run.conduct) >= reflect.rounds) return 'rounds';
  return roomForReflection(run, now, 'record') ? 'not_yet' : 'limit';
}

function admitCalls(
  run: RunState,
  calls: PlannedCall[],
  room: number,
  words: Words,
): { calls: Admission[]; finishingAs: Reason | null } {
  let left = room;
  // Calls that cannot be executed count in the room that the others leave.
  let leftForFaults = room - calls.filter((call) => call.fault === null).length;
  let finishingAs = run.finishingAs;
  const sequentialBefore = new Set<string>();
  const called = new Map<string, number>();
  const admitted = calls.map((call): Admission => {
    if (call.fault !== null) {
      leftForFaults -= 1;
      const { text, tokens } = call.fault;
      return { call, as: 'not_executed', text, tokens, counts: leftForFaults >= 0 };
    }
    const callsBefore = called.get(call.name) ?? callsOf(run.conduct, call.name);
    if (call.maxCalls !== null && callsBefore >= call.maxCalls) {
      const text = words.maxCalls(call.name, call.maxCalls);
      return { call, as: 'not_executed', text, tokens: Math.ceil(text.length / 2), counts: left > 0 };
    }
    if (left === 0 && run.limits.onLimit === 'finish') {
      finishingAs ??= 'max_steps';
      return { call, as: 'not_executed', ...notExecuted(words, finishingAs), counts: false };
    }
    called.set(call.name, callsBefore + 1);
    const identical = call.identicalTo === null ? null : `identical:${call.identicalTo}`;
    if (left === 0) {
      const detail = identical === null ? 'max_steps' : `max_steps ${identical}`;
      return { call, as: 'suspended', on: 'limit', detail };
    }
    left -= 1;
    if (call.sequential && sequentialBefore.has(call.name))
      return { call, as: 'suspended', on: 'step', detail: identical };
    if (call.sequential) sequentialBefore.add(call.name);
    if (identical !== null) return { call, as: 'suspended', on: 'operator', detail: identical };
    return { call, as: 'pending' };
  });
  return { calls: admitted, finishingAs };
}

/** Failures that another model has no part in: what was asked for, or code of the user's. */
const ofTheTask: ReadonlySet<string> = new Set(['refused', 'content_filter', 'unverified']);

function decideLlmFailure(
  run: RunState,
  step: StepState,
  outcome: Extract<Outcome, { kind: 'llm_failure' }>,
): Decision {
  const { failure, lastBecause } = outcome;
  const error = { code: failure.code, message: failure.message };
  const last = lastBecause ?? run.finishingAs;
  const triesLeft = step.failures + 1 < step.maxAttempts;
  if (failure.class === 'overflow' && outcome.budgetTokens !== null && triesLeft) {
    return { next: 'retry', inMs: 0, error, budgetTokens: outcome.budgetTokens };
  }
  if (failure.class === 'retryable' && triesLeft)
    return { next: 'retry', inMs: outcome.retryInMs, error, budgetTokens: null };
  const { failed: from, next: to } = outcome.models;
  if (to !== null && !ofTheTask.has(failure.code)) return { next: 'fall_back', from, to, error };
  return { next: 'die', death: { reason: last ?? failure.reason, error } };
}

function decideAborted(run: RunState, step: StepState, outcome: Extract<Outcome, { kind: 'aborted' }>): Decision {
  const error = { code: 'aborted', message: `the call was cut short (${outcome.cause})` };
  if (step.effect === 'once' && !step.unknown && outcome.started)
    return { next: 'mark_unknown', error, until: 'deadline' };
  if (isClosed(run, step)) {
    return { next: 'observe', observation: outcome.observation, error };
  }
  if (step.claims + 1 >= claimLimit) {
    const message = `${claimLimit} claims of this step came to nothing`;
    return { next: 'die', death: { reason: 'claim_loop', error: { code: 'claim_loop', message } } };
  }
  return { next: 'hand_back' };
}

function decideInEndingRun(step: StepState, outcome: Outcome, words: Words): Decision {
  switch (outcome.kind) {
    case 'reply':
    case 'summary':
    case 'plan':
    case 'reflection':
    case 'tool_value':
      return { next: 'keep' };
    case 'tool_unknown':
      return { next: 'mark_unknown', error: { code: outcome.code, message: outcome.message }, until: 'now' };
    case 'unknown_settled':
      return settleUnknown(outcome);
    case 'tool_failure':
      if (step.unknown) return { next: 'ask_operator' };
      if (step.effect !== 'once') return { next: 'cancel' };
      return {
        next: 'observe',
        observation: outcome.observation,
        error: failureOf(outcome),
      };
    case 'aborted': {
      const error = { code: 'aborted', message: `the call was cut short (${outcome.cause})` };
      return step.effect === 'once' && (outcome.started || step.unknown)
        ? { next: 'mark_unknown', error, until: 'deadline' }
        : { next: 'cancel' };
    }
    case 'unstorable':
      // A tool has acted; its step must not come back by a redrive as one that has not.
      return step.kind === 'tool' ? decideUnstorable(step, outcome, words) : { next: 'cancel' };
    case 'llm_failure':
    case 'limit':
    case 'stop':
    case 'stop_early':
      return { next: 'cancel' };
  }
}
