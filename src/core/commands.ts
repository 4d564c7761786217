/**
 * Commands: what a person or another service asks of a run. Each works on a draft of the run with its open steps, under
 * the run's lock, and throws a PawlError `conflict` when the run is in no state for it.
 */
import type { Draft } from './draft.js';
import { PawlError } from './errors.js';
import { isClosed, isPastDeadline, reachedBudget } from './limits.js';
import type { StorableText } from './outcome.js';
import { closeCall, observe, readmit } from './record.js';
import { isFinal, type Limits, type RunState } from './run.js';
import type { StepState } from './step.js';

export function cancelRun(draft: Draft): void {
  const { run } = draft;
  if (isFinal(run.status)) throw new PawlError('conflict', `run ${run.id} is ${run.status} already; nothing to cancel`);
  if (run.endingAs?.status === 'cancelled') return;
  // A cancel outranks a failure that waits for its last call.
  run.endingAs = { status: 'cancelled', reason: 'cancelled', error: null, at: draft.now };
  draft.touch();
  draft.event('run.cancel_requested', null);
  draft.endRun('cancelled', 'cancelled', null);
}

export function pauseRun(draft: Draft): void {
  const { run } = draft;
  if (isFinal(run.status) || run.endingAs !== null) {
    throw new PawlError(
      'conflict',
      `run ${run.id} is ${run.endingAs === null ? run.status : 'ending'}; it cannot be paused`,
    );
  }
  if (run.pauseAt !== null) return;
  run.pauseAt = draft.now;
  draft.touch();
  draft.event('run.paused', null);
  for (const step of draft.open()) {
    // One that waits for its turn in its thread waits for it again once it is resumed.
    if (step.status === 'pending' || step.waitingFor === 'slot') draft.suspend(step, 'operator', 'paused');
  }
}

/** Limits that a resume lifts. */
export type Raised = Partial<Omit<Limits, 'onLimit'>>;

/** Resumes a paused run, or one suspended at a limit that `raised` lifts. `deadlineMs` counts from now. */
export function resumeRun(draft: Draft, raised: Raised): void {
  const { run } = draft;
  if (isFinal(run.status))
    throw new PawlError('conflict', `run ${run.id} is ${run.status}; only a redrive goes on from a failed one`);
  if (run.endingAs !== null) throw new PawlError('conflict', `run ${run.id} is ending; it cannot be resumed`);
  raiseLimits(draft, raised);
  const wasPaused = run.pauseAt !== null;
  if (wasPaused) {
    run.pauseAt = null;
    draft.touch();
    draft.event('run.unpaused', null);
  }
  const held = draft.open().filter((step) => step.status === 'suspended');
  const onLimit = held.filter((step) => step.waitingFor === 'limit');
  const released = liftedFrom(onLimit, run, draft.now);
  if (onLimit.length > 0 && released.length === 0 && !wasPaused) {
    const limit = limitOf(onLimit[0]);
    throw new PawlError(
      'conflict',
      `run ${run.id} waits at its limit ${limit}: resume it with a higher one (${flagFor(limit)})`,
    );
  }
  const paused = held.filter((step) => step.waitingFor === 'operator' && step.waitDetail === 'paused');
  if (released.length === 0 && paused.length === 0 && !wasPaused) {
    const waits = held[0]?.waitingFor;
    const why = waits == null ? 'it is not suspended' : `it waits for ${waits} (step ${held[0]?.seq})`;
    throw new PawlError('conflict', `run ${run.id} cannot be resumed: ${why}`);
  }
  for (const step of [...paused, ...released]) readmit(draft, step);
}

function raiseLimits(draft: Draft, raised: Raised): void {
  const { run } = draft;
  const limits = { ...run.limits };
  for (const name of ['maxSteps', 'maxTurns', 'maxTokens', 'maxCostUsd'] as const) {
    const value = raised[name];
    if (value == null) continue;
    const before = limits[name];
    if (before !== null && !(value > before)) {
      const wanted = `${name} of run ${run.id} is ${before}`;
      throw new PawlError('conflict', `${wanted}: resume it with a higher one, not ${value}`);
    }
    limits[name] = value;
  }
  if (raised.deadlineMs != null) {
    limits.deadlineMs = raised.deadlineMs;
    run.deadlineAt = new Date(draft.now.getTime() + raised.deadlineMs);
  }
  const given = Object.entries(raised).filter(([, value]) => value != null);
  if (given.length === 0) return;
  run.limits = limits;
  draft.touch();
  draft.event('run.limits_changed', null, Object.fromEntries(given));
}

/** The steps that wait at a limit and need not any more. Of those beyond `maxSteps`, the last ones, the rest waits on. */
function liftedFrom(onLimit: readonly StepState[], run: RunState, now: Date): StepState[] {
  const beyond = Math.max(0, run.stepsUsed - run.limits.maxSteps);
  const bySteps = onLimit.filter((step) => limitOf(step) === 'max_steps');
  const stillBeyond = bySteps.slice(Math.max(0, bySteps.length - beyond));
  return onLimit.filter((step) => {
    switch (limitOf(step)) {
      case 'deadline':
        return !isPastDeadline(run, now);
      case 'max_turns':
        return run.turnsUsed < run.limits.maxTurns;
      case 'max_tokens':
      case 'max_cost':
        return reachedBudget(run, 1) !== limitOf(step);
      default:
        return !stillBeyond.includes(step);
    }
  });
}

/** The limit a step waits at: the first word of the detail, before what else would hold it back. */
function limitOf(step: StepState | undefined): string {
  return step?.waitDetail?.split(' ')[0] ?? 'limit';
}

function flagFor(limit: string): string {
  const flags: Record<string, string> = {
    max_turns: '--max-turns',
    max_tokens: '--max-tokens',
    max_cost: '--max-cost-usd',
    deadline: '--deadline',
  };
  return flags[limit] ?? '--max-steps';
}

/** How an operator settles a step that waits for one. `rerun` is the explicit "did not happen". */
export type Resolution = { as: 'done' | 'failed'; observation: StorableText } | { as: 'rerun' };

export function resolveStep(draft: Draft, seq: number, resolution: Resolution): void {
  const step = draft.step(seq);
  if (step === undefined) throw new PawlError('not_found', `run ${draft.run.id} has no step ${seq}`);
  const waits = step.waitingFor === 'outcome' || (step.waitingFor === 'operator' && step.waitDetail !== 'paused');
  if (step.status !== 'suspended' || !waits) {
    throw new PawlError('conflict', `step ${seq} of run ${draft.run.id} is ${step.status} and waits for no answer`);
  }
  draft.touch();
  draft.event('step.resolved', seq, { as: resolution.as });
  if (resolution.as === 'rerun') {
    if (step.unknown) draft.event('step.did_not_happen', seq);
    step.unknown = false;
    step.waitDetail = null;
    readmit(draft, step);
    return;
  }
  const error =
    resolution.as === 'done' ? null : { code: 'resolved_failed', message: 'an operator says that this call failed' };
  observe(draft, step, resolution.observation, error);
}

/** Brings a failed run back at its dead step. Answers the jobs that stood for the dead steps. */
export function redriveRun(
  draft: Draft,
  by: 'command' | 'dashboard',
): { oldJobs: { queue: string; seq: number; dispatch: number }[] } {
  const { run } = draft;
  const dead = draft.all().filter((step) => step.status === 'dead');
  if (run.status !== 'failed' || dead.length === 0) {
    const why =
      run.status === 'failed'
        ? `it failed by ${run.reason} and has no dead step: start a new run`
        : `it is ${run.status}`;
    throw new PawlError('conflict', `run ${run.id} cannot be redriven: ${why}`);
  }
  const oldJobs = dead.map(({ queue, seq, dispatch }) => ({ queue, seq, dispatch }));
  if (run.deadlineAt !== null && run.finishedAt !== null) {
    // The time spent final does not count. A run that failed by its deadline gets it anew, or it would fail again at once.
    const restMs =
      run.reason === 'deadline' ? (run.limits.deadlineMs ?? 0) : run.deadlineAt.getTime() - run.finishedAt.getTime();
    run.deadlineAt = new Date(draft.now.getTime() + restMs);
  }
  draft.reopenRun();
  // The revived run takes the version that is served now: what was wrong may have been put right in the agent.
  run.agentVersion = null;
  run.budgetTokens = null;
  draft.event('run.redriven', null, { by, steps: dead.map((step) => step.seq) });
  // Whatever is cancelled in a failed run was so by its end: a call left out would leave its turn without an answer.
  for (const step of draft.all()) if (step.status === 'dead' || step.status === 'cancelled') revive(draft, step);
  return { oldJobs };
}

function revive(draft: Draft, step: StepState): void {
  if (step.kind === 'llm') step.name = draft.run.llmName;
  draft.archive(step, step.status === 'dead' ? 'death' : 'cancelled', { error: step.error });
  step.failures = 0;
  step.crashes = 0;
  step.claims = 0;
  step.suspect = false;
  step.error = null;
  step.shownAttempts = null;
  // A call beyond the step limit was held back before the run failed, and still is.
  if (step.kind === 'tool' && limitOf(step) === 'max_steps') draft.suspend(step, 'limit', step.waitDetail);
  else readmit(draft, step);
}

/**
 * Closes a run's tools at its deadline under `finish`: calls not started are answered in its place, and the next LLM step
 * is the last. Calls in flight are aborted by their workers, which see `finishingAs`.
 */
export function finishAtDeadline(draft: Draft): void {
  const { run } = draft;
  run.finishingAs = 'deadline';
  draft.touch();
  draft.event('run.limit_reached', null, { reason: 'deadline' });
  for (const step of draft.open()) {
    // Closing a call of a sequential tool closes the one that waited for it. A fate not known is still to be settled.
    if (isClosed(run, step) && (step.status === 'pending' || step.status === 'suspended')) closeCall(draft, step);
  }
}
