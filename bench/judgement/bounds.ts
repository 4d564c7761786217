/**
 * What no loop can do better with this model, as long as it makes the calls as they are asked for, hides nothing from the model
 * and lets it come to its end. The model plays the same tasks and seeds with other rates for some habits (the habits stay as
 * they are). Its first mistakes are drawn before a loop has said a word: the bound has them, and each is mended at once.
 * Next: course.ts, which plays a task so, and summary.ts, which tells what came of it.
 */
import { type Course, playCourse } from './course.js';
import type { Order } from './data.js';
import { habits } from './habits.js';
import type { Rates } from './model.js';
import type { Trial } from './play.js';
import { ratiosOf, type Sets, setsOf } from './summary.js';
import type { Task } from './tasks.js';

/** Whatever goes wrong is told so well that it is mended at once, and nothing is lost or overlooked. */
const mends = {
  ...{ mendsToldFieldAndExpected: 1, mendsToldField: 1, mendsToldNothing: 1 },
  ...{ narrowsToldTo: 1, narrowsToldTimeout: 1, leavesFailure: 1, repetitionFeedsItself: 1 },
  ...{ losesBuried: 0, overlooksMiddle: 0, trustsCut: 0 },
};
const errsNot = { takesTheWordOfTheTask: 0, forgetsField: 0, inventsTool: 0 };
const checksNot = { checksAgain: 0 };
const notesNothing = { notesWhatItFound: 0 };
/** One by one and to the end, each result the last in sight: whatever the lot has it check is checked. */
const dwells = { ...notesNothing, asksAtOnce: 0, answersTooSoon: 0, givesUp: 0 };

const rates = (...changes: Partial<Rates>[]): Rates => Object.assign({ ...habits }, ...changes);

const played = {
  faultless: { rates: rates(mends, errsNot, checksNot, notesNothing), answersWide: true },
  bound: { rates: rates(mends, checksNot) },
  checking: { rates: rates(mends) },
  dwelling: { rates: rates(mends, dwells), cutsListings: true },
  /** Two that tell what the bound's time may do without. */
  silent: { rates: rates(mends, checksNot, notesNothing) },
  dwellingUnchecked: { rates: rates(mends, dwells, checksNot), cutsListings: true },
} satisfies Record<string, Course>;

/** The courses that are told, with their titles and what they are. */
export const courses = {
  faultless: {
    title: 'no mistakes',
    how: 'the model makes no mistake, checks and notes nothing; a query over any number of days is answered',
  },
  bound: {
    title: 'bound',
    how: 'the model makes its first mistakes, which come before anything a loop could say, mends each at once, and checks nothing; a query over too many days fails once',
  },
  checking: {
    title: 'bound and checks',
    how: 'as the bound, and the model asks again, as is its habit, for what it was told last',
  },
  dwelling: {
    title: 'most calls that succeed',
    how: 'for the bound of tool success alone: as the bound, and the model asks one by one, checks all that it ever checks, and has its listings cut',
  },
};

export type CourseTrials = Record<keyof typeof courses, Trial[]>;

export async function playCourses(
  seeds: readonly number[],
  tasks: readonly Task[],
  orders: readonly Order[],
): Promise<CourseTrials> {
  const trials: CourseTrials = { faultless: [], bound: [], checking: [], dwelling: [] };
  for (const seed of seeds) {
    for (const task of tasks) {
      const play = (name: keyof typeof played) => playCourse(played[name], { name, task, seed, orders });
      const dwelling = await play('dwelling');
      const mayCheck = dwelling.calls > (await play('dwellingUnchecked')).calls;
      const bound = await play('bound');
      // A note is never said of what is still to be checked: such a task may do without.
      const ms = mayCheck ? (await play('silent')).ms : bound.ms;
      trials.dwelling.push(dwelling);
      trials.bound.push({ ...bound, ms });
      trials.checking.push(await play('checking'));
      trials.faultless.push(await play('faultless'));
    }
  }
  return trials;
}

/** Of each course what is told of a side. */
export function setsOfCourses(trials: CourseTrials): Record<keyof typeof courses, Sets> {
  const { faultless, bound, checking, dwelling } = trials;
  return {
    ...{ faultless: setsOf(faultless), bound: setsOf(bound) },
    ...{ checking: setsOf(checking), dwelling: setsOf(dwelling) },
  };
}

/**
 * For each ratio what it is at best, beside the framework as it was measured. None for `completed` and `deadLoops`: nothing in
 * this model keeps a loop from the best there is. Failed calls weigh least among the most that succeed: `dwelling`.
 */
export function boundsOf(trials: CourseTrials, framework: Sets): { bounds: Bounds; faultless: Bounds } {
  const { bound, faultless, dwelling } = setsOfCourses(trials);
  const of = (course: Sets) => {
    const { completed: _, deadLoops: __, ...bounds } = ratiosOf(course, framework);
    return bounds;
  };
  return { bounds: { ...of(bound), toolSuccess: dwelling.both.toolSuccess }, faultless: of(faultless) };
}

type Bounds = Record<string, number>;

/** Where a right answer took less of something than the bound: if the bound is one, nowhere. */
export function undercuts(trials: readonly Trial[], { bound }: Pick<CourseTrials, 'bound'>): string[] {
  const keyOf = ({ seed, task }: Trial) => `${seed} ${task}`;
  const least = new Map(bound.map((trial) => [keyOf(trial), trial]));
  return trials
    .filter(({ right }) => right)
    .flatMap((trial) =>
      (['rounds', 'steps', 'promptTokens', 'ms'] as const)
        .filter((count) => trial[count] < (least.get(keyOf(trial))?.[count] ?? 0))
        .map((count) => `${trial.side}, seed ${trial.seed}: ${count} ${trial[count]}: ${trial.task}`),
    );
}
