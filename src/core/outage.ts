/**
 * The breaker of a tool across runs: when calls of many runs fail, the tool is taken for out of order and called no more, but
 * for one trial at a time; a trial that succeeds ends the outage. Counted on failures alone, so that a tool that works costs
 * nothing. Pure: what a row of `tool_outages` becomes; `now` is the database's.
 */

export interface OutageRule {
  /** Calls that failed, each after its own attempts, within the window before the tool is out. */
  failures: number;
  windowMs: number;
  /** Until the first trial; each that fails doubles it, to at most `longestTrialMs`. */
  trialMs: number;
}

export interface Outage {
  failed: number;
  /** Calls in the same time of the workers that saw failures, the failed ones included. */
  calls: number;
  /** Of them some, to know that they are several. */
  runs: readonly string[];
  sinceAt: Date;
  /** Null: it is only being counted. */
  openedAt: Date | null;
  /** When the next call is let through. */
  trialAt: Date | null;
  trials: number;
}

/** A failure as a worker reports it. `calls`: of the tool since its last report. */
export interface ToolFailure {
  agent: string;
  tool: string;
  runId: string;
  calls: number;
  rule: OutageRule;
}

/** Below so many runs it may be what they ask for. */
const fewestRuns = 3;
/** Of all calls that were seen. */
const failingShare = 0.5;
export const longestTrialMs = 600_000;

export function countFailure(before: Outage | null, { runId, calls, rule }: ToolFailure, now: Date): Outage {
  if (before !== null && before.openedAt !== null) return before;
  const goesOn = before !== null && now.getTime() - before.sinceAt.getTime() <= rule.windowMs;
  const counted: Pick<Outage, 'failed' | 'calls' | 'runs' | 'sinceAt'> = goesOn
    ? before
    : { failed: 0, calls: 0, runs: [], sinceAt: now };
  const runs = counted.runs.includes(runId) ? counted.runs : [...counted.runs, runId].slice(0, fewestRuns);
  const failed = counted.failed + 1;
  const all = counted.calls + Math.max(1, calls);
  const isOut = failed >= rule.failures && runs.length >= fewestRuns && failed >= all * failingShare;
  return {
    failed,
    calls: all,
    runs,
    sinceAt: counted.sinceAt,
    openedAt: isOut ? now : null,
    trialAt: isOut ? new Date(now.getTime() + rule.trialMs) : null,
    trials: 0,
  };
}

/** The outage once a trial was let through at `now`; null: none is due. */
export function takeTrial(before: Outage | null, { trialMs }: OutageRule, now: Date): Outage | null {
  if (before === null || before.trialAt === null || now < before.trialAt) return null;
  const waitMs = Math.min(longestTrialMs, trialMs * 2 ** Math.min(before.trials + 1, 30));
  return { ...before, trials: before.trials + 1, trialAt: new Date(now.getTime() + waitMs) };
}
