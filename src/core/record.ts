/**
 * Record: carries a decision out on the draft of the run, under its lock and fenced by the claim's token. Deciding happens
 * here too, from the rows as they are now, so a command that came while the call was under way is never overlooked and
 * nothing has to be performed again. A repeated record finds its receipt and answers as the first did.
 */
import { countCall, isDenied, noteCall } from './conduct.js';
import { type Admission, type Decision, decide, notExecuted } from './decide.js';
import { type Draft, unknownOutcome } from './draft.js';
import { contentOf, keepJudgement, keepPlan, keepReply, keepSummary } from './keep-llm.js';
import { isClosed } from './limits.js';
import { callIdOf, type Said, type ToolCall } from './message.js';
import type { Outcome, StorableText } from './outcome.js';
import { noUsage, type Reserve, type RunState, sumOf, type Usage } from './run.js';
import type { StepState } from './step.js';
import { cutMiddle, idempotencyKey } from './storable.js';
import { type Words, wordsOf } from './words.js';

/** What a record did to its step, and so what its job's ending is. */
export type Recorded =
  | { recorded: true; ended: 'completed' | 'suspended' | 'again' | 'cancelled' }
  | { recorded: true; ended: 'retry'; inMs: number; message: string }
  | { recorded: true; ended: 'dead'; message: string }
  /** The claim was taken away; nothing was changed. */
  | { recorded: false };

export interface RecordRequest {
  seq: number;
  token: string;
  outcome: Outcome;
  /** Attempts the queue counted before this delivery; a death stores it. */
  attemptsMade: number;
  /** The step as the claim returned it: the claim may have been lost with the server's memory. */
  claimed?: StepState;
  /** What the step has spent beside what its outcome says. */
  spent?: Usage | null;
  /** Of the agent; left out: Pawl's own. */
  words?: Words;
}

export function recordOutcome(draft: Draft, request: RecordRequest): Recorded {
  const step = draft.step(request.seq);
  if (step === undefined) return { recorded: false };
  if (isClaimLost(draft, step, request.claimed)) draft.claimAgain(step, request.claimed);
  if (step.claim?.token !== request.token) return answerFromReceipt(draft, step);
  if (step.status !== 'running') return answerFromStep(step);
  const { outcome } = request;
  step.usage = sumOf(usageOf(draft.run, step, outcome), request.spent ?? null);
  if ('reserve' in outcome && outcome.reserve !== null) takeReserve(draft, outcome.reserve);
  if (step.usage !== null) draft.charge(step.usage);
  const decision = decide(draft.run, step, outcome, draft.now, request.words);
  if (outcome.kind === 'tool_value' && outcome.facts !== undefined) draft.learn(step, outcome.facts);
  return carryOut(draft, step, decision, request);
}

/**
 * A claim that did not wait for the disk is gone after a crash of the server: its token is nowhere, and the step is as it was
 * before. What the call produced is recorded all the same, or it would be bought twice.
 */
function isClaimLost(draft: Draft, step: StepState, claimed: StepState | undefined): claimed is StepState {
  const isUntouched = step.status === 'pending' && step.dispatch === claimed?.dispatch && draft.receipt === null;
  return isUntouched && step.effect !== 'once' && draft.run.startedAt !== null && draft.run.endingAs === null;
}

function answerFromReceipt(draft: Draft, step: StepState): Recorded {
  const receipt = draft.receipt;
  if (receipt === null || !receipt.recorded) return { recorded: false };
  // The attempt of an unknown call is archived and the step dies by the same record, when its run is ending.
  if (receipt.endedBy === 'unknown' && step.status === 'dead') return answerFromStep(step);
  if (receipt.endedBy === 'failure' && receipt.retryInMs !== null) {
    return { recorded: true, ended: 'retry', inMs: receipt.retryInMs, message: receipt.error?.code ?? 'failure' };
  }
  return { recorded: true, ended: 'again' };
}

function answerFromStep(step: StepState): Recorded {
  if (step.status === 'dead') return { recorded: true, ended: 'dead', message: step.error?.code ?? 'dead' };
  return { recorded: true, ended: step.status === 'cancelled' ? 'cancelled' : 'completed' };
}

function carryOut(draft: Draft, step: StepState, decision: Decision, request: RecordRequest): Recorded {
  const { outcome } = request;
  switch (decision.next) {
    case 'call_tools':
      return callTools(draft, step, decision, outcome);
    case 'finish':
      keepReply(draft, step, outcome, []);
      if (decision.unjudged !== null) draft.event('run.answer_unjudged', step.seq, { because: decision.unjudged });
      draft.run.outputIsJson = decision.isJson;
      draft.completeRun(decision.output, decision.reason);
      return { recorded: true, ended: 'completed' };
    case 'reflect':
      keepReply(draft, step, outcome, []);
      return { recorded: true, ended: 'completed' };
    case 'let_stand': {
      const { output, isJson } = keepJudgement(draft, step, outcome).answer;
      draft.run.outputIsJson = isJson;
      draft.completeRun(output, decision.reason);
      return { recorded: true, ended: 'completed' };
    }
    case 'reconsider': {
      const { answer } = keepJudgement(draft, step, outcome);
      draft.message(answer.seq, 1, { role: 'user', content: decision.text }, decision.tokens);
      return { recorded: true, ended: 'completed' };
    }
    case 'object':
      keepReply(draft, step, outcome, []);
      draft.message(step.seq, 1, { role: 'user', content: decision.text }, decision.tokens);
      draft.run.objections += 1;
      draft.event('run.answer_refused', step.seq, { objection: cutMiddle(decision.text, 500) });
      return { recorded: true, ended: 'completed' };
    case 'fail_run':
      keepReply(draft, step, outcome, []);
      draft.endRun('failed', decision.reason, decision.error);
      return { recorded: true, ended: 'completed' };
    case 'observe':
      return observe(draft, step, decision.observation, decision.error, aboutCall(decision.note, outcome));
    case 'retry': {
      const { inMs, error } = decision;
      if (decision.budgetTokens !== null) draft.run.budgetTokens = decision.budgetTokens;
      step.failures += 1;
      step.suspect = false;
      draft.archive(step, 'failure', { recorded: true, error, retryInMs: inMs });
      draft.event('step.retry', step.seq, { attempt: step.attempt, inMs, error });
      draft.makePending(step, { redispatch: false, dueAt: new Date(draft.now.getTime() + inMs) });
      if (step.waitingFor !== null) return { recorded: true, ended: 'suspended' };
      return { recorded: true, ended: 'retry', inMs, message: `${error.code}: ${error.message}` };
    }
    case 'fall_back': {
      const { from, to, error } = decision;
      draft.archive(step, 'failure', { recorded: true, error, retryInMs: 0 });
      draft.event('step.fell_back', step.seq, { from, to, error });
      draft.run.llmName = to;
      // What the one holds says nothing of the other.
      draft.run.budgetTokens = null;
      step.name = to;
      step.failures = 0;
      step.suspect = false;
      draft.makePending(step, { redispatch: false });
      if (step.waitingFor !== null) return { recorded: true, ended: 'suspended' };
      return { recorded: true, ended: 'retry', inMs: 0, message: `${error.code}: ${error.message}` };
    }
    case 'compact':
      keepSummary(draft, step, outcome);
      return { recorded: true, ended: 'completed' };
    case 'take_plan':
      keepPlan(draft, step, outcome);
      return { recorded: true, ended: 'completed' };
    case 'die':
      // A redrive begins with the preferred model again.
      if (outcome.kind === 'llm_failure') draft.run.llmName = outcome.models.first;
      step.failures += 1;
      draft.die(step, decision.death, request.attemptsMade);
      return { recorded: true, ended: 'dead', message: `${decision.death.reason}: ${decision.death.error.message}` };
    case 'mark_unknown':
      return markUnknown(draft, step, decision, request.attemptsMade);
    case 'ask_operator':
      draft.archive(step, 'unknown', { recorded: true });
      if (draft.run.endingAs !== null) return dieUnknown(draft, step, request.attemptsMade);
      draft.suspend(step, 'outcome', null);
      return { recorded: true, ended: 'suspended' };
    case 'hand_back':
      step.claims += 1;
      draft.archive(step, 'claim', { recorded: true });
      draft.makePending(step, { redispatch: true });
      return { recorded: true, ended: 'again' };
    case 'run_again':
      draft.archive(step, 'claim', { recorded: true });
      draft.makePending(step, { redispatch: true });
      return { recorded: true, ended: 'again' };
    case 'suspend_on_limit':
      draft.archive(step, 'claim', { recorded: true });
      draft.suspend(step, 'limit', decision.reason);
      return { recorded: true, ended: 'suspended' };
    case 'end_run':
      draft.cancel(step);
      draft.endRun('failed', decision.reason, decision.error);
      return { recorded: true, ended: 'cancelled' };
    case 'stop_early':
      draft.cancel(step);
      draft.run.outputIsJson = decision.isJson;
      draft.completeRun(decision.output, 'stopped_early');
      return { recorded: true, ended: 'cancelled' };
    case 'keep':
      if (outcome.kind === 'tool_value')
        return observe(draft, step, outcome.value, null, aboutCall(outcome.note, outcome));
      draft.complete(step, contentOf(outcome));
      draft.tellCompleted(step);
      return { recorded: true, ended: 'completed' };
    case 'cancel':
      draft.cancel(step);
      return { recorded: true, ended: 'cancelled' };
  }
}

function aboutCall(note: StepState['note'] | undefined, outcome: Outcome): { note: StepState['note']; plan?: string } {
  const isPlan = outcome.kind === 'tool_value' && outcome.plan !== undefined;
  return { note: note ?? null, ...(isPlan ? { plan: outcome.plan } : {}) };
}

/** What was sent is the reserve of the next call, until messages are added. */
function takeReserve(draft: Draft, reserve: Reserve): void {
  const { run } = draft;
  // A model that was fallen back to may have no price where the first one has.
  const isNews = run.usage.inputTokens === 0 || run.reserve.costUsd !== null;
  run.reserve = reserve;
  if (isNews && run.limits.maxCostUsd !== null && reserve.costUsd === null) {
    draft.event('run.price_unknown', null, { model: run.llmName });
  }
}

/** What is charged for a call that was lost on its way: it may have cost all that was reserved for it. */
export function lostUsage({ reserve }: RunState): Usage {
  return { ...noUsage, ...reserve, estimated: true };
}

function usageOf(run: RunState, step: StepState, outcome: Outcome): Usage | null {
  if (outcome.kind === 'reply' || outcome.kind === 'summary') return outcome.usage;
  if (outcome.kind === 'plan' || outcome.kind === 'reflection') return outcome.usage;
  if (outcome.kind === 'llm_failure') return outcome.failure.usage;
  if (outcome.kind !== 'aborted' || !outcome.started || step.kind !== 'llm') return null;
  return outcome.usage ?? lostUsage(run);
}

function callTools(
  draft: Draft,
  step: StepState,
  decision: Extract<Decision, { next: 'call_tools' }>,
  outcome: Outcome,
): Recorded {
  const { run } = draft;
  if (decision.finishingAs !== null && run.finishingAs === null) {
    run.finishingAs = decision.finishingAs;
    draft.event('run.limit_reached', null, { reason: decision.finishingAs });
  }
  const calls: ToolCall[] = [];
  for (const [index, admission] of decision.calls.entries()) {
    calls.push(planCall(draft, step, admission, index + 1));
  }
  keepReply(draft, step, outcome, calls);
  return { recorded: true, ended: 'completed' };
}

function planCall(draft: Draft, asking: StepState, admission: Admission, position: number): ToolCall {
  const { call } = admission;
  const planned = draft.plan({
    kind: 'tool',
    name: call.name,
    queue: call.queue,
    maxAttempts: call.maxAttempts,
    timeoutMs: call.timeoutMs,
    turnSeq: asking.seq,
    position,
    effect: call.effect,
    sequential: call.sequential,
    callHash: call.callHash,
    input: call.arguments,
    counts: admission.as === 'not_executed' ? admission.counts : true,
    idempotencyKey: (seq) => idempotencyKey(draft.run.id, seq, call.canonicalArguments),
  });
  if (call.maxCalls !== null && admission.as !== 'not_executed')
    draft.run.conduct = countCall(draft.run.conduct, call.name);
  if (admission.as === 'pending') draft.makePending(planned, { redispatch: true });
  else if (admission.as === 'suspended') draft.suspend(planned, admission.on, admission.detail);
  else {
    const error = { code: call.fault?.code ?? 'not_executed', message: admission.text };
    observe(draft, planned, { text: admission.text, tokens: admission.tokens, full: null }, error);
  }
  return { id: callIdOf(planned.seq), name: call.name, arguments: call.arguments };
}

/** Completes a tool step: its answer goes to the model in the place of its call, and its sequential successor may run. */
export function observe(
  draft: Draft,
  step: StepState,
  answer: StorableText,
  error: { code: string; message: string } | null,
  { note = null, said, plan }: { note?: StepState['note']; said?: Said; plan?: string } = {},
): Recorded {
  const { name, callHash } = step;
  const wasClosed = isDenied(draft.run.conduct, name);
  draft.run.conduct = noteCall(draft.run.conduct, { name, callHash: callHash ?? '', text: answer.text, error });
  if (!wasClosed && isDenied(draft.run.conduct, name)) draft.event('run.tool_closed', step.seq, { tool: name });
  draft.complete(step, answer.text);
  step.error = error;
  step.note = note;
  if (answer.full !== null) draft.keepWhole(step.seq, answer.full);
  draft.message(
    step.turnSeq ?? step.seq,
    step.position ?? 0,
    {
      role: 'tool',
      callId: callIdOf(step.seq),
      name,
      content: answer.text,
      ...(error === null ? {} : { error: error.code }),
      ...(said === undefined ? {} : { said }),
      ...(plan === undefined ? {} : { plan }),
    },
    answer.tokens,
  );
  if (plan !== undefined) draft.event('run.planned', step.seq, { replaces: true });
  draft.tellCompleted(step, error === null ? {} : { error });
  if (step.sequential) wakeSuccessor(draft, step);
  return { recorded: true, ended: 'completed' };
}

function wakeSuccessor(draft: Draft, step: StepState): void {
  const next = draft.open().find((other) => other.waitingFor === 'step' && other.name === step.name);
  if (next !== undefined) readmit(draft, next);
}

/**
 * Lets a step go on that was held back, or that comes back: it may run when it is due, unless its tools are closed, its turn
 * among the calls of a sequential tool has not come, or it is identical to a `once` call that an operator must rule on.
 */
export function readmit(draft: Draft, step: StepState): void {
  if (isClosed(draft.run, step)) return closeCall(draft, step);
  const identical = /identical:\d+/.exec(step.waitDetail ?? '')?.[0] ?? null;
  if (step.sequential && hasCallBefore(draft, step)) return draft.suspend(step, 'step', identical);
  if (identical !== null) return draft.suspend(step, 'operator', identical);
  const dueAt = new Date(Math.max(step.dueAt.getTime(), draft.now.getTime()));
  draft.makePending(step, { redispatch: true, dueAt });
}

function hasCallBefore(draft: Draft, step: StepState): boolean {
  return draft
    .open()
    .some((other) => other.turnSeq === step.turnSeq && other.name === step.name && other.seq < step.seq);
}

/** Answers a call that will not run any more because the run has reached its deadline: often without its agent at hand. */
export function closeCall(draft: Draft, step: StepState): void {
  const { text, tokens } = notExecuted(wordsOf(draft.run.language), 'deadline');
  const said: Said = { word: 'notExecuted', about: ['deadline'] };
  observe(draft, step, { text, tokens, full: null }, { code: 'not_executed', message: text }, { said });
}

function markUnknown(
  draft: Draft,
  step: StepState,
  decision: Extract<Decision, { next: 'mark_unknown' }>,
  attemptsMade: number,
): Recorded {
  const overAt = decision.until === 'deadline' ? step.claim?.deadlineAt : undefined;
  draft.archive(step, 'unknown', { recorded: true, error: decision.error });
  draft.event('step.unknown', step.seq, { error: decision.error });
  if (draft.run.endingAs !== null) return dieUnknown(draft, step, attemptsMade);
  step.unknown = true;
  draft.makePending(step, { redispatch: true, dueAt: overAt ?? draft.now });
  return { recorded: true, ended: 'again' };
}

/** In an ending run nobody will settle a call's fate: the step is dead until a redrive brings it back as unknown. */
export function dieUnknown(draft: Draft, step: StepState, attemptsMade: number | null): Recorded {
  step.unknown = true;
  draft.die(step, unknownOutcome, attemptsMade);
  return { recorded: true, ended: 'dead', message: unknownOutcome.error.code };
}
