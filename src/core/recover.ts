/**
 * Recover: what maintenance and a refusing worker do to a run, under its lock. A claim whose worker died, dropped it or
 * outlived its deadline is taken away; a step that cannot run here or now is put off; a passed deadline acts.
 */
import { finishAtDeadline, redriveRun } from './commands.js';
import type { Draft } from './draft.js';
import { deadlineActsAt, isClosed } from './limits.js';
import type { Said } from './message.js';
import { closeCall, dieUnknown, lostUsage, observe } from './record.js';
import { isFinal } from './run.js';
import { claimLimit, crashLimit, type StepState } from './step.js';
import { sayIn, wordsOf } from './words.js';

/** Why a claim is dead: its worker is, its living worker no longer lists it, or its deadline is long past. */
export type ClaimDeath = 'crash' | 'dropped' | 'overdue';

/** Takes a dead claim away. False when the step has another claim, or none, by now. */
export function releaseClaim(draft: Draft, seq: number, token: string, death: ClaimDeath): boolean {
  const step = draft.step(seq);
  if (step === undefined || step.status !== 'running' || step.claim?.token !== token) return false;
  const { deadlineAt, workerId } = step.claim;
  const error = { code: death, message: describeDeath(death, workerId) };
  const once = step.effect === 'once' && !step.unknown;
  if (step.kind === 'llm') {
    step.usage = lostUsage(draft.run);
    draft.charge(step.usage);
  }
  draft.archive(step, once ? 'unknown' : death === 'crash' ? 'crash' : death === 'dropped' ? 'claim' : 'failure', {
    error,
  });
  draft.event('step.rescued', seq, { cause: death, attempt: step.attempt, worker: workerId });
  if (once) draft.event('step.unknown', seq, { error });
  // A question about a call's fate that took too long is asked again; it is no try of the call, and no answer.
  const end = death === 'overdue' && step.unknown ? 'dropped' : death;
  if (!once) countEnd(step, end);
  if (draft.run.endingAs !== null) {
    if (once || step.unknown) dieUnknown(draft, step, null);
    else draft.cancel(step);
    return true;
  }
  if (once) {
    step.unknown = true;
    // The call may still be under way in a process cut off from us: nobody asks about it before it must be over.
    draft.makePending(step, { redispatch: true, dueAt: deadlineAt });
    return true;
  }
  goOnAfter(draft, step, end, error);
  return true;
}

/** Its row says by what its attempts ended, whatever becomes of it. */
function countEnd(step: StepState, death: ClaimDeath): void {
  switch (death) {
    case 'crash':
      if (step.suspect) step.crashes += 1;
      return;
    case 'dropped':
      step.claims += 1;
      return;
    case 'overdue':
      step.failures += 1;
  }
}

/** What becomes of the step after an end that is counted already. */
function goOnAfter(draft: Draft, step: StepState, end: ClaimDeath, error: { code: string; message: string }): void {
  if (isClosed(draft.run, step)) return closeCall(draft, step);
  switch (end) {
    case 'crash':
      step.suspect = true;
      if (step.crashes >= crashLimit) return draft.die(step, { reason: 'crash_loop', error }, null);
      break;
    case 'dropped':
      if (step.claims >= claimLimit) return draft.die(step, { reason: 'claim_loop', error }, null);
      break;
    case 'overdue':
      if (step.failures < step.maxAttempts) break;
      if (step.kind === 'tool') {
        const said: Said = { word: 'toolTimedOut', about: [step.name, step.timeoutMs, step.failures] };
        const text = sayIn(wordsOf(draft.run.language), said);
        const answer = { text, tokens: Math.ceil(text.length / 2), full: null };
        observe(draft, step, answer, { code: 'timeout', message: text }, { said });
        return;
      }
      return draft.die(step, { reason: draft.run.finishingAs ?? 'attempts_exhausted', error }, null);
  }
  draft.makePending(step, { redispatch: true });
}

function describeDeath(death: ClaimDeath, workerId: string): string {
  switch (death) {
    case 'crash':
      return `worker ${workerId} died while it held this step`;
    case 'dropped':
      return `worker ${workerId} no longer works on this step`;
    case 'overdue':
      return `worker ${workerId} held this step past its deadline`;
  }
}

/** While a live worker serves it, a step must not wait long for the chance to meet that one. */
const longestDeferralMs = 5_000;

/** Puts a step off that this worker does not serve: 1 s, doubling to 5 s; with no live worker able, until one registers. */
export function deferStep(draft: Draft, seq: number, dispatch: number, isServed: boolean): void {
  const step = draft.step(seq);
  if (step === undefined || step.status !== 'pending' || step.dispatch !== dispatch) return;
  if (!isServed) return draft.suspend(step, 'worker', draft.run.agent);
  const delayMs = Math.min(longestDeferralMs, 1_000 * 2 ** Math.min(step.deferrals, 6));
  step.deferrals += 1;
  putOff(draft, step, delayMs);
}

/** Puts off a suspect step that met a process busy with another suspect. */
export function putOffSuspect(draft: Draft, seq: number, dispatch: number): void {
  const step = draft.step(seq);
  if (step?.status === 'pending' && step.dispatch === dispatch) putOff(draft, step, 2_000);
}

/** Lets a suspect that was put off go on now: a process is free for it. */
export function bringForward(draft: Draft, seq: number, dispatch: number): void {
  const step = draft.step(seq);
  if (step?.status === 'pending' && step.suspect && step.dispatch === dispatch) {
    draft.makePending(step, { redispatch: true });
  }
}

function putOff(draft: Draft, step: StepState, delayMs: number): void {
  draft.edit(step).dueAt = new Date(draft.now.getTime() + delayMs);
}

/** Lets the steps go on that waited for a worker able to run them. */
export function wakeServed(draft: Draft): void {
  for (const step of draft.open()) {
    if (step.waitingFor !== 'worker') continue;
    step.deferrals = 0;
    draft.makePending(step, { redispatch: true });
  }
}

/** Acts on a deadline that has come: see `onLimit`. Does nothing where it has acted already. */
export function meetDeadline(draft: Draft): void {
  const { run, now } = draft;
  const actsAt = deadlineActsAt(run);
  if (isFinal(run.status) || run.endingAs !== null || run.deadlineAt === null || actsAt === null || now < actsAt)
    return;
  if (run.limits.onLimit === 'suspend') {
    for (const step of draft.open()) if (step.status === 'pending') draft.suspend(step, 'limit', 'deadline');
    return;
  }
  if (run.limits.onLimit === 'finish' && now < run.deadlineAt) {
    if (run.finishingAs !== 'deadline') finishAtDeadline(draft);
    return;
  }
  draft.endRun('failed', 'deadline', { code: 'deadline', message: 'the run reached its deadline' });
}

/**
 * A delivery for a dead step. It is an operator's Retry only if its dispatch is current and the queue has counted another
 * failed attempt since it last heard of the death; any other shows the death once more and is failed again.
 */
export function answerDeadDelivery(
  draft: Draft,
  delivery: { seq: number; dispatch: number; attemptsMade: number },
): { redriven: boolean; note: string } {
  const step = draft.step(delivery.seq);
  if (step === undefined || step.status !== 'dead') return { redriven: false, note: 'no longer dead' };
  const isRetry =
    step.dispatch === delivery.dispatch && step.shownAttempts !== null && delivery.attemptsMade > step.shownAttempts;
  if (isRetry && draft.run.status === 'failed') {
    redriveRun(draft, 'dashboard');
    return { redriven: true, note: 'redriven' };
  }
  if (step.dispatch === delivery.dispatch) draft.edit(step).shownAttempts = delivery.attemptsMade;
  return { redriven: false, note: step.error === null ? 'dead' : `${step.error.code}: ${step.error.message}` };
}
