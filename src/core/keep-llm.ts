/**
 * Keeps what an LLM step produced on the draft of its run, whatever is decided about it: a reply, a plan, a summary, a
 * judgement of the final answer. Each completes its step and says what is to be said of it. record.ts calls these.
 */
import { countReflection, reflectionsOf } from './conduct.js';
import type { WindowMoved } from './context.js';
import type { Draft } from './draft.js';
import { carriedPos, type ToolCall } from './message.js';
import type { Outcome } from './outcome.js';
import { planName, reflectionName, type StepState, summaryName } from './step.js';
import { cutMiddle } from './storable.js';

/** The text of a step's outcome. */
export function contentOf(outcome: Outcome): string | null {
  if (outcome.kind === 'summary') return outcome.summary?.content ?? null;
  if (outcome.kind === 'plan') return outcome.plan?.content ?? null;
  if (outcome.kind === 'reflection') return outcome.verdict.is === 'objected' ? outcome.verdict.objection : null;
  return outcome.kind === 'reply' ? outcome.content : null;
}

/** Writes the reply's message and completes the LLM step. */
export function keepReply(draft: Draft, step: StepState, outcome: Outcome, calls: ToolCall[]): void {
  if (outcome.kind !== 'reply') throw new Error(`a ${outcome.kind} outcome has no reply to keep`);
  const { content, reasoning, tokens } = outcome;
  const message = {
    role: 'assistant' as const,
    content,
    toolCalls: calls,
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  if (outcome.opening !== undefined) draft.bring(outcome.opening);
  draft.message(step.seq, 0, message, tokens);
  const { run } = draft;
  step.name = outcome.model;
  moveWindow(draft, step, outcome.window);
  const { lastBecause } = outcome;
  if (lastBecause !== null && lastBecause !== 'loop_detected' && run.finishingAs === null) {
    draft.event('run.limit_reached', null, { reason: lastBecause });
  }
  if (outcome.lastBecause === null) draft.run.turnsUsed += 1;
  draft.complete(step, content);
  draft.tellCompleted(step, calls.length === 0 ? {} : { calls: calls.length });
  if (outcome.repetition !== null) draft.event('run.loop', step.seq, { ...outcome.repetition });
}

/** What the prompt no longer shows whole from here on. */
function moveWindow(draft: Draft, { seq }: StepState, { windowFrom, digestBefore, plan }: WindowMoved): void {
  const { run } = draft;
  carryPlan(draft, seq, plan);
  // Of turns that are left out nothing is shortened.
  const isDigested = digestBefore > Math.max(run.digestBefore, windowFrom);
  if (isDigested) draft.event('run.digested', seq, { before: digestBefore });
  if (windowFrom > run.windowFrom) draft.event('run.trimmed', seq, { from: windowFrom });
  run.windowFrom = windowFrom;
  run.digestBefore = digestBefore;
}

/** Says a plan again whose turn is left out: only what is shown of a run is loaded. The prompt held it already. */
function carryPlan(draft: Draft, seq: number, plan: WindowMoved['plan']): void {
  if (plan === undefined) return;
  const { content, tokens } = plan;
  draft.bring([{ seq, pos: carriedPos, tokens, message: { role: 'user', content, plan: true } }]);
}

/** Completes a step that was to make the plan: with it, or the run goes on without one. */
export function keepPlan(draft: Draft, step: StepState, outcome: Outcome): void {
  if (outcome.kind !== 'plan') throw new Error(`a ${outcome.kind} outcome is no plan`);
  const { plan, why, window, opening } = outcome;
  if (opening !== undefined) draft.bring(opening);
  step.name = planName;
  draft.complete(step, plan?.content ?? null);
  if (plan === null) step.error = { code: 'no_plan', message: why ?? '' };
  else {
    draft.message(step.seq, 0, { role: 'user', content: plan.content, plan: true }, plan.tokens);
    draft.event('run.planned', step.seq);
  }
  moveWindow(draft, step, window);
  draft.tellCompleted(step, step.error === null ? {} : { error: step.error });
}

/** Completes the step that was to judge the final answer. */
export function keepJudgement(
  draft: Draft,
  step: StepState,
  outcome: Outcome,
): Extract<Outcome, { kind: 'reflection' }> {
  if (outcome.kind !== 'reflection') throw new Error(`a ${outcome.kind} outcome is no judgement`);
  const { verdict, rounds } = outcome;
  const { run } = draft;
  run.conduct = countReflection(run.conduct);
  step.name = reflectionName;
  draft.complete(step, contentOf(outcome));
  if (verdict.is === 'none') step.error = { code: 'no_judgement', message: verdict.why };
  draft.tellCompleted(step, step.error === null ? {} : { error: step.error });
  const objection = verdict.is === 'objected' ? { objection: cutMiddle(verdict.objection, 500) } : {};
  const round = reflectionsOf(run.conduct);
  draft.event('run.reflected', step.seq, { round, rounds, verdict: verdict.is, ...objection });
  return outcome;
}

/** Completes a step that was to sum up the turns: with its summary, or by leaving them out without one. */
export function keepSummary(draft: Draft, step: StepState, outcome: Outcome): void {
  if (outcome.kind !== 'summary') throw new Error(`a ${outcome.kind} outcome is no summary`);
  const { summary, why, window, tokens } = outcome;
  const { run } = draft;
  step.name = summaryName;
  draft.complete(step, summary?.content ?? null);
  if (summary === null) {
    step.error = { code: 'no_summary', message: why ?? '' };
    moveWindow(draft, step, window);
  } else {
    const { content, calls } = summary;
    const before = window.windowFrom;
    draft.message(step.seq, 0, { role: 'user', content, summary: { before, calls } }, summary.tokens);
    draft.event('run.compacted', step.seq, { before, tokensBefore: tokens.before, tokensAfter: tokens.after });
    carryPlan(draft, step.seq, window.plan);
    run.windowFrom = window.windowFrom;
    run.digestBefore = window.digestBefore;
    run.summarySeq = step.seq;
  }
  draft.tellCompleted(step, step.error === null ? {} : { error: step.error });
}
