/**
 * What a run may still do. Pure: a run's row and the database's time in, an answer out. The guard asks before an LLM step
 * spends anything; planning asks how many of a turn's calls fit; the deadline rules are asked by both and by maintenance.
 */
import type { Reason, Reserve, RunState } from './run.js';
import type { StepState } from './step.js';

export type Guard =
  /** `lastBecause`: the limit that makes this call the last, without tools; null: it may call tools. */
  { go: true; lastBecause: Reason | null } | { go: false; reason: Reason };

/** Time kept back from a deadline under `finish`, so that the last call can still be made: min(llmTimeoutMs, deadlineMs / 5). */
export function deadlineReserveMs(run: RunState): number {
  if (run.limits.onLimit !== 'finish' || run.limits.deadlineMs === null) return 0;
  return Math.min(run.llmTimeoutMs, run.limits.deadlineMs / 5);
}

/** When the deadline begins to act on the run: the deadline itself, under `finish` earlier by the reserve; null: never. */
export function deadlineActsAt(run: RunState): Date | null {
  return run.deadlineAt === null ? null : new Date(run.deadlineAt.getTime() - deadlineReserveMs(run));
}

export function isPastDeadline(run: RunState, now: Date): boolean {
  const at = deadlineActsAt(run);
  return at !== null && now >= at;
}

/** Under `finish` the tools of a run close when its deadline acts: a call that has not run is answered as not executed. */
export function isClosed(run: RunState, step: StepState): boolean {
  return run.finishingAs === 'deadline' && step.kind === 'tool' && !step.unknown;
}

/** The budget that `calls` more LLM calls as the next one would go beyond; null: none. */
export function reachedBudget(run: RunState, calls: number): Reason | null {
  const { usage, reserve, limits } = run;
  const tokens = usage.inputTokens + usage.outputTokens + calls * (reserve.inputTokens + reserve.outputTokens);
  if (limits.maxTokens !== null && tokens > limits.maxTokens) return 'max_tokens';
  const costUsd = (usage.costUsd ?? 0) + calls * (reserve.costUsd ?? 0);
  if (limits.maxCostUsd !== null && costUsd > limits.maxCostUsd) return 'max_cost';
  return null;
}

/** Whether a budget is spent: then not even the last call may be made. */
function spentBudget(run: RunState): Reason | null {
  const { usage, limits } = run;
  if (limits.maxTokens !== null && usage.inputTokens + usage.outputTokens >= limits.maxTokens) return 'max_tokens';
  if (limits.maxCostUsd !== null && usage.costUsd !== null && usage.costUsd >= limits.maxCostUsd) return 'max_cost';
  return null;
}

/** The reserve once a message was added to the prompt. Its price is the one of the tokens before. */
export function growReserve(reserve: Reserve, tokens: number): Reserve {
  const before = reserve.inputTokens + reserve.outputTokens;
  const { costUsd } = reserve;
  return {
    inputTokens: reserve.inputTokens + tokens,
    outputTokens: reserve.outputTokens,
    costUsd: costUsd === null || before === 0 ? costUsd : (costUsd * (before + tokens)) / before,
  };
}

/** The limit an LLM step about to run has reached, itself counted in `stepsUsed` already; null: none. */
export function reachedLimit(run: RunState, now: Date): Reason | null {
  const { maxSteps, maxTurns, onLimit } = run.limits;
  if (isPastDeadline(run, now)) return 'deadline';
  // Under `finish` a call that may use tools needs room for one tool step and for the LLM step that reads its result.
  const room = onLimit === 'finish' ? 2 : 0;
  if (run.stepsUsed + room > maxSteps) return 'max_steps';
  if (run.turnsUsed >= maxTurns) return 'max_turns';
  // Under `finish` the last call is kept back beside this one.
  return reachedBudget(run, onLimit === 'finish' ? 2 : 1);
}

/** Whether a run may spend a step on a summary, or on its plan: the turn that follows must still find its room. */
export function roomForSummary(run: RunState): boolean {
  const { maxSteps, onLimit } = run.limits;
  const kept = onLimit === 'finish' ? 2 : 0;
  return run.stepsUsed + 1 + kept <= maxSteps && reachedBudget(run, onLimit === 'finish' ? 3 : 2) === null;
}

/**
 * Whether a run that has a final answer may have it judged: no limit has been reached, and the turn that an objection asks
 * for would find its room. `before`: the record of the answer, or the judgement itself, whose step is counted already.
 */
export function roomForReflection(run: RunState, now: Date, before: 'record' | 'judgement'): boolean {
  const { maxSteps, maxTurns, onLimit } = run.limits;
  const [steps, turns] = before === 'record' ? [2, 2] : [1, 1];
  if (run.finishingAs !== null || isPastDeadline(run, now)) return false;
  if (run.stepsUsed + steps > maxSteps || run.turnsUsed + turns > maxTurns) return false;
  return reachedBudget(run, onLimit === 'finish' ? 3 : 2) === null;
}

/** Turns a run may still begin, that of the LLM step about to run (counted in `stepsUsed` already) included. */
export function turnsLeft(run: RunState): number {
  const { maxSteps, maxTurns, onLimit } = run.limits;
  // A turn takes its LLM step and a tool step at least; under `finish` the step of the last answer is kept back.
  const keptBack = onLimit === 'finish' ? 1 : 0;
  const bySteps = Math.floor((maxSteps - run.stepsUsed + 1 - keptBack) / 2);
  return Math.max(0, Math.min(maxTurns - run.turnsUsed, bySteps));
}

/** Judges an LLM step before it spends anything. */
export function guardLlmStep(run: RunState, now: Date): Guard {
  // Past the deadline itself there is no time left for a last call either.
  const isOver = run.deadlineAt !== null && now >= run.deadlineAt && run.limits.onLimit === 'finish';
  if (isOver) return { go: false, reason: 'deadline' };
  const spent = spentBudget(run);
  if (spent !== null) return { go: false, reason: spent };
  if (run.finishingAs !== null) return { go: true, lastBecause: run.finishingAs };
  const reached = reachedLimit(run, now);
  if (reached === null) return { go: true, lastBecause: null };
  return run.limits.onLimit === 'finish' ? { go: true, lastBecause: reached } : { go: false, reason: reached };
}

/** How many of `asked` tool calls fit into `maxSteps`; under `finish` the step that answers them is kept back. */
export function roomForCalls(run: RunState, asked: number): number {
  const keptBack = run.limits.onLimit === 'finish' ? 1 : 0;
  return Math.max(0, Math.min(asked, run.limits.maxSteps - run.stepsUsed - keptBack));
}
