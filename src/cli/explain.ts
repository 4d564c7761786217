/**
 * A run's state in words a person can act on: why it ended, what it waits for, and the command that answers. The lists of
 * reasons and waits are closed in core; a new one does not compile here until it has its words.
 */
import type { Reason } from '../core/run.js';
import type { RunView, StepView, WaitingFor } from '../core/view.js';

const reasonWords: Record<Reason, string> = {
  max_steps: 'it reached its limit of steps',
  max_turns: 'it reached its limit of turns',
  max_tokens: 'it reached its limit of tokens',
  max_cost: 'it reached its limit of cost',
  deadline: 'it reached its deadline',
  loop_detected: 'the model repeated itself without getting on',
  breaker_open: 'its tools failed turn after turn, and nothing else was done',
  attempts_exhausted: 'a step used up its attempts',
  crash_loop: 'a step took its worker down again and again',
  claim_loop: 'workers took a step over and let it go again, too often',
  unstorable: 'the outcome of a step could not be stored',
  unknown_outcome: 'nobody knows whether a call that must not be repeated took effect',
  quota_exhausted: "the model provider's quota is used up",
  invalid_request: 'the model provider refused the request as invalid',
  invalid_response: "the model provider's answers could not be read",
  refused: 'the model refused the task',
  content_filter: "the model provider's content filter stopped it",
  context_overflow: 'the task and its history do not fit into what the model can read',
  invalid_output: "the final answer does not satisfy the agent's output or its verify",
  stopped_early: 'a tool had the result that was wanted',
  cancelled: 'it was cancelled',
};

export function wordsOfReason(reason: Reason): string {
  return reasonWords[reason];
}

/** What a run waits for, and what a person can do about it. */
export interface Wait {
  what: string;
  /** Commands, ready to be typed; empty when it goes on by itself. */
  commands: string[];
  /** False for what settles itself, as soon as its condition holds. */
  needsSomeone: boolean;
}

export function explainWait(
  run: Pick<RunView, 'id' | 'limits'>,
  wait: WaitingFor,
  step?: Pick<StepView, 'name'>,
): Wait {
  const { id, limits } = run;
  const call = step === undefined ? `step ${wait.step}` : `step ${wait.step} (${step.name})`;
  const resolve = (as: string) => `pawl runs resolve ${id} --step ${wait.step} --as ${as}`;
  switch (wait.kind) {
    case 'outcome':
      return {
        what: `${call} was cut short and is never repeated on its own: find out whether it took effect, then say so`,
        commands: [
          `${resolve('done')}     # it happened`,
          `${resolve('failed')}   # it did not succeed`,
          `${resolve('rerun')}    # it did not happen: run it again`,
        ],
        needsSomeone: true,
      };
    case 'operator': {
      if (wait.detail === 'paused')
        return { what: 'paused by an operator', commands: [`pawl runs resume ${id}`], needsSomeone: true };
      const twin = /^identical:(\d+)$/.exec(wait.detail ?? '')?.[1];
      const what =
        twin === undefined
          ? `${call} waits for an operator`
          : `${call} repeats the call of step ${twin}, which failed or may have happened already`;
      return {
        what,
        commands: [`${resolve('rerun')}    # let it run`, `${resolve('failed')}   # do not run it`],
        needsSomeone: true,
      };
    }
    case 'limit':
      return { ...explainLimit(id, limits, wait.detail), needsSomeone: true };
    case 'worker':
      return {
        what: `no live worker serves the agent ${wait.detail ?? ''}`.trimEnd(),
        commands: ['pawl worker'],
        needsSomeone: false,
      };
    case 'approval':
      return { what: `${call} waits for an approval`, commands: [], needsSomeone: true };
    case 'signal':
      return { what: `it waits for the signal ${wait.detail ?? ''}`.trimEnd(), commands: [], needsSomeone: true };
    case 'timer':
      return { what: `it waits until ${wait.detail ?? 'its timer ends'}`, commands: [], needsSomeone: false };
    case 'child':
      return { what: `it waits for the run ${wait.detail ?? ''}`.trimEnd(), commands: [], needsSomeone: false };
    case 'slot':
      return {
        what: `it waits for its turn in the thread ${wait.detail ?? ''}`.trimEnd(),
        commands: [],
        needsSomeone: false,
      };
    case 'batch':
      return { what: 'it waits for a batch of the model provider', commands: [], needsSomeone: false };
  }
}

function explainLimit(id: string, limits: RunView['limits'], limit: string | null): Pick<Wait, 'what' | 'commands'> {
  switch (limit) {
    case 'max_turns':
      return {
        what: `it reached its limit of ${limits.maxTurns} turns`,
        commands: [`pawl runs resume ${id} --max-turns ${raised(limits.maxTurns)}`],
      };
    case 'max_tokens':
      return {
        what: `it reached its limit of ${limits.maxTokens ?? 0} tokens`,
        commands: [`pawl runs resume ${id} --max-tokens ${raised(limits.maxTokens ?? 0)}`],
      };
    case 'max_cost':
      return {
        what: `it reached its limit of $${limits.maxCostUsd ?? 0}`,
        commands: [`pawl runs resume ${id} --max-cost-usd ${(limits.maxCostUsd ?? 0) * 2 || 1}`],
      };
    case 'deadline':
      return { what: 'it reached its deadline', commands: [`pawl runs resume ${id} --deadline 2h`] };
    default:
      return {
        what: `it reached its limit of ${limits.maxSteps} steps`,
        commands: [`pawl runs resume ${id} --max-steps ${raised(limits.maxSteps)}`],
      };
  }
}

/** A limit half as high again: a proposal, for a person to change. */
function raised(limit: number): number {
  return limit + Math.max(5, Math.ceil(limit / 2));
}

const failsWithoutDeath: ReadonlySet<Reason> = new Set([
  'max_steps',
  'max_turns',
  'max_tokens',
  'max_cost',
  'deadline',
  'invalid_output',
  'breaker_open',
  'loop_detected',
]);

/** What can be done about a run that ended badly; empty when there is nothing. */
export function commandsAfter(run: RunView): string[] {
  if (run.status !== 'failed') return [];
  // At a limit a run fails without a dead step, and there is nothing to redrive; if its last call died, the error says that.
  const byLimit = run.reason !== null && failsWithoutDeath.has(run.reason) && run.error?.code === run.reason;
  if (byLimit) return [`pawl runs steps ${run.id}   # look at the steps; a new run is the way on`];
  return [
    `pawl runs redrive ${run.id}   # go on at the step that failed, once its cause is gone`,
    `pawl runs steps ${run.id}     # look at the steps`,
  ];
}
