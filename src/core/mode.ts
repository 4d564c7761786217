/**
 * What is asked of the model beside its turns, `mode` of an agent. `plan`: an LLM step before the first turn makes a plan,
 * which stands in every later prompt and which the model may replace. `reflect`: final answers are judged by an LLM step each;
 * what it objects to goes back to the model, and after the last round the answer stands. Next: plan.ts, reflect.ts.
 */
import type { Options } from './options.js';

/** `rounds`: judgements of a run at most, 1 where it is left out. */
export type ModeOption = 'react' | 'plan' | { reflect: { rounds?: number; criteria: string } };

export type Mode =
  | Readonly<{ is: 'react' }>
  | Readonly<{ is: 'plan' }>
  | Readonly<{ is: 'reflect'; rounds: number; criteria: string }>;

const mostCriteriaChars = 4_000;

export function modeOf(check: Options): Mode {
  const given = check.given.mode ?? 'react';
  if (given === 'react' || given === 'plan') return Object.freeze({ is: given });
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  if (!isObject) check.refuse('mode', "'react', 'plan' or { reflect: { rounds, criteria } }");
  const mode = check.nested('mode');
  mode.knowsOnly(['reflect']);
  if (mode.given.reflect === undefined)
    mode.fail("give it reflect: { rounds, criteria }, or make it 'react' or 'plan'");
  const reflect = mode.nested('reflect');
  reflect.knowsOnly(['rounds', 'criteria']);
  const criteria = reflect.text('criteria', mostCriteriaChars);
  return Object.freeze({ is: 'reflect', rounds: reflect.integer('rounds', 1, 1, 5), criteria });
}
