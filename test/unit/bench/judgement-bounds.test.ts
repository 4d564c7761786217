/** The bounds of the bench of judgement are bounds: whatever a loop shows the same model, no right answer comes of less. */
import { beforeAll, describe, expect, it } from 'vitest';
import { boundsOf, type CourseTrials, playCourses, setsOfCourses, undercuts } from '../../../bench/judgement/bounds.js';
import { type Course, playCourse } from '../../../bench/judgement/course.js';
import { loadOrders } from '../../../bench/judgement/data.js';
import { habits, pace } from '../../../bench/judgement/habits.js';
import type { Trial } from '../../../bench/judgement/play.js';
import { ratiosOf, setsOf } from '../../../bench/judgement/summary.js';
import { tasksOf } from '../../../bench/judgement/tasks.js';
import { toolTimeoutMs } from '../../../bench/judgement/tools.js';

const orders = loadOrders();
const tasks = tasksOf(orders).filter(({ set }) => set !== 'large');
/** In 53 and 60 the model checks what it would else have noted, so that a loop saves the time of a note. */
const seeds = [1, 2, 53, 60];
/** Loops with the model as it is: plain, one that has a last word, one that cuts. */
const loops: [string, Course][] = [
  ['shows results and says what is wrong', { rates: habits }],
  ['says a word after each turn', { rates: habits, wordAfter: 'Go on.' }],
  ['cuts listings', { rates: habits, cutsListings: true }],
];

describe('the bounds', () => {
  let courses: CourseTrials;
  const trialOf = (of: readonly Trial[], text: string) =>
    of.filter(({ task }) => task.includes(text)) as [Trial, ...Trial[]];
  beforeAll(async () => {
    courses = await playCourses(seeds, tasks, orders);
  });

  it.each(loops)('hold for a loop that %s', async (name, course) => {
    const trials: Trial[] = [];
    for (const seed of seeds)
      for (const task of tasks) trials.push(await playCourse(course, { name, task, seed, orders }));
    expect(trials.filter(({ right }) => right).length).toBeGreaterThan(trials.length * 0.9);
    expect(undercuts(trials, courses)).toEqual([]);
    expect(setsOf(trials).both.toolSuccess).toBeLessThan(setsOfCourses(courses).dwelling.both.toolSuccess);
  });

  it('say where they are undercut by a right answer, and by how much, and take no notice of a wrong one', () => {
    const [bound] = courses.bound as [Trial];
    const less = { ...bound, side: 'a', right: true, rounds: bound.rounds - 1 };
    const said = undercuts([less, { ...less, right: false }, { ...bound, ms: bound.ms + 1 }], courses);
    expect(said).toEqual([`a, seed ${less.seed}: rounds ${less.rounds}: ${less.task}`]);
  });

  it('know a bound for each ratio but those that the model stands in nobody’s way of', () => {
    const framework = setsOf(courses.checking);
    const names = Object.keys(ratiosOf(framework, framework));
    const { bounds, faultless } = boundsOf(courses, framework);
    expect(new Set([...Object.keys(bounds), 'completed', 'deadLoops'])).toEqual(new Set(names));
    expect(faultless.toolSuccess).toBe(1);
    expect(bounds.rounds).toBe(setsOf(courses.bound).both.rounds);
    expect(bounds.toolSuccess).toBe(setsOf(courses.dwelling).both.toolSuccess);
    expect(bounds.wallVsFramework).toBeLessThan(1);
  });

  it('take of each prompt the tools, the instructions and the task alone', () => {
    for (const { task, promptTokens, modelCalls } of courses.bound) {
      const [head] = trialOf(courses.faultless, task);
      expect(promptTokens / modelCalls).toBe(head.promptTokens / head.modelCalls);
    }
  });

  it('have a span too wide fail once, for as long as a tool may take, and be asked for in halves', () => {
    const answered = trialOf(courses.faultless, '06-28 by channel');
    for (const [at, { calls, succeeded, ms, right }] of trialOf(courses.bound, '06-28 by channel').entries()) {
      expect(right).toBe(true);
      expect(calls - succeeded).toBeGreaterThanOrEqual(1);
      expect(succeeded).toBe(2);
      expect(ms - (answered[at]?.ms ?? 0)).toBeGreaterThan(toolTimeoutMs + 2 * pace.firstTokenMs);
    }
  });

  it('are those of one call for each thing to know where the model makes no mistake', () => {
    const asked = trialOf(courses.faultless, '06-28 by channel').map(({ calls, right }) => ({ calls, right }));
    expect(new Set(asked.map((one) => JSON.stringify(one)))).toEqual(new Set(['{"calls":1,"right":true}']));
    expect(setsOf(courses.faultless).both.toolSuccess).toBe(1);
  });
});
