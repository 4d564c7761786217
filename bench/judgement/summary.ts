/**
 * From trials to what is told: the columns of each side by set, the ratios, whether each goal is met, and whether the bound
 * would meet it (bounds.ts).
 */
import type { Machine } from '../machine.js';
import type { Trial } from './play.js';

export interface Columns {
  tasks: number;
  /** Shares of all calls, and of all tasks. */
  toolSuccess: number;
  completed: number;
  /** Means of a task. */
  rounds: number;
  steps: number;
  promptTokens: number;
  /** Mean of a model call. */
  stepPrompt: number;
  cachedShare: number;
  deadLoops: number;
  /** Mean of a task. */
  wallMs: number;
}

export type Sets = Record<'mixed' | 'report' | 'both' | 'large', Columns>;

export interface Goal {
  ratio: string;
  what: string;
  goal: string;
  value: number;
  met: boolean;
  /** What no loop can better with this model, and what it would be without the model's mistakes; null: nothing bounds it. */
  bound: number | null;
  faultless: number | null;
  /** Whether the bound meets the goal. */
  withinBound: boolean | null;
}

export interface Summary {
  machine: Machine;
  seeds: number[];
  sides: Record<string, { title: string; how: string; versions: string; sets: Sets; endings: Record<string, number> }>;
  ratios: Record<string, number>;
  /** By the names of the ratios, beside the framework as it was measured. */
  bounds: Record<string, number>;
  boundsWithoutMistakes: Record<string, number>;
  /** What was played for the bounds: prompts and times are the least they can be. */
  courses: Record<string, { title: string; how: string; sets: Sets }>;
  /** Right answers of the sides, and where one took less than its bound. */
  right: number;
  undercuts: string[];
  goals: Goal[];
}

type Told = Pick<Summary, 'ratios' | 'bounds' | 'boundsWithoutMistakes'>;

export function setsOf(trials: readonly Trial[]): Sets {
  const of = (...sets: Trial['set'][]) => columnsOf(trials.filter(({ set }) => sets.includes(set)));
  return { mixed: of('mixed'), report: of('report'), both: of('mixed', 'report'), large: of('large') };
}

function columnsOf(trials: readonly Trial[]): Columns {
  const sum = (of: (trial: Trial) => number) => trials.reduce((total, trial) => total + of(trial), 0);
  const tasks = trials.length;
  const promptTokens = sum((trial) => trial.promptTokens);
  return {
    tasks,
    toolSuccess: sum(({ succeeded }) => succeeded) / sum(({ calls }) => calls),
    completed: sum(({ right }) => Number(right)) / tasks,
    rounds: sum(({ rounds }) => rounds) / tasks,
    steps: sum(({ steps }) => steps) / tasks,
    promptTokens: promptTokens / tasks,
    stepPrompt: promptTokens / sum(({ modelCalls }) => modelCalls),
    cachedShare: sum(({ cachedTokens }) => cachedTokens) / promptTokens,
    deadLoops: sum(({ deadLoop }) => Number(deadLoop)),
    wallMs: sum(({ ms }) => ms) / tasks,
  };
}

/** How tasks that were not solved ended, by how often. */
export function endingsOf(trials: readonly Trial[]): Record<string, number> {
  const endings: Record<string, number> = {};
  for (const { ended, right } of trials) {
    const name = right ? 'right' : ended === 'completed' ? 'answered, not right' : ended;
    endings[name] = (endings[name] ?? 0) + 1;
  }
  return endings;
}

/** Pawl's own figures, and its share of the framework's where the name says so. */
export function ratiosOf(pawl: Sets, framework: Sets): Record<string, number> {
  return {
    toolSuccess: pawl.both.toolSuccess,
    completed: pawl.both.completed,
    rounds: pawl.both.rounds,
    steps: pawl.both.steps,
    tokensVsFramework: pawl.both.promptTokens / framework.both.promptTokens,
    stepPromptVsFramework: pawl.large.stepPrompt / framework.large.stepPrompt,
    deadLoops: pawl.both.deadLoops + pawl.large.deadLoops,
    wallVsFramework: pawl.both.wallMs / framework.both.wallMs,
  };
}

const goals: [ratio: string, what: string, sign: '>=' | '<=', goal: number][] = [
  ['toolSuccess', 'share of tool calls that get a result', '>=', 0.94],
  ['completed', 'share of tasks answered right', '>=', 0.94],
  ['rounds', 'turns with tools, a task', '<=', 2.3],
  ['steps', 'model and tool calls, a task', '<=', 5.8],
  ['tokensVsFramework', "prompt tokens, of the framework's", '<=', 0.48],
  ['stepPromptVsFramework', "prompt of a step with large results, of the framework's", '<=', 0.38],
  ['deadLoops', 'tasks that end in a loop', '<=', 0],
  ['wallVsFramework', "time to the answer, of the framework's", '<=', 0.65],
];

export function goalsOf({ ratios, bounds, boundsWithoutMistakes }: Told): Goal[] {
  return goals.map(([ratio, what, sign, goal]) => {
    const meets = (value: number) => (sign === '>=' ? value >= goal : value <= goal);
    const value = ratios[ratio] ?? Number.NaN;
    const bound = bounds[ratio] ?? null;
    return {
      ...{ ratio, what, goal: `${sign === '>=' ? '≥' : '≤'} ${goal}`, value, met: meets(value) },
      ...{ bound, faultless: boundsWithoutMistakes[ratio] ?? null, withinBound: bound === null ? null : meets(bound) },
    };
  });
}
