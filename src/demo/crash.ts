/**
 * When the demo kills its worker, and what must then be true of the steps recorded before. Pure.
 */
import type { StepView } from '../core/view.js';

/** Steps that must stand recorded first, or there would be little to survive. */
const leastRecorded = 3;

/**
 * While a model call is in flight no tool is: the turn's tools have all returned by then. So the kill loses a call that may
 * be repeated, and no `once` call is left with an unknown fate, whatever a model asked for.
 */
export function mayKill(steps: readonly StepView[]): boolean {
  const running = steps.filter(({ status }) => status === 'running');
  return recorded(steps).length >= leastRecorded && running.length > 0 && running.every(({ kind }) => kind === 'llm');
}

export function recorded(steps: readonly StepView[]): StepView[] {
  return steps.filter(({ status }) => status === 'completed');
}

/** What is wrong with the steps that were recorded before the kill (null: there was none), as they stand at the end. */
export function judgeCrash(before: readonly StepView[] | null, after: readonly StepView[]): string[] {
  if (before === null) return ['the run ended before its worker could be killed'];
  const bySeq = new Map(after.map((step) => [step.seq, step]));
  return before.flatMap((step) => {
    const now = bySeq.get(step.seq);
    if (now !== undefined && traceOf(now) === traceOf(step)) return [];
    return [`step ${step.seq} (${step.kind} ${step.name}) was recorded before the crash, and is not as it was then`];
  });
}

/** What a repetition would have changed. */
function traceOf({ status, attempt, worker, startedAt, finishedAt, output }: StepView): string {
  return JSON.stringify([status, attempt, worker, startedAt, finishedAt, output]);
}
