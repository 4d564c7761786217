/**
 * The loop guard and the breaker: what an LLM step does about the turns before it. The guard climbs a ladder while a run
 * repeats itself: the model is told, the repeated calls are withheld, the final answer is asked for. Whatever is new in a
 * turn brings it back to the ground. Pure; conduct.ts keeps what is judged here. See limits.ts for the other guards.
 */
import { askedFor, type Conduct } from './conduct.js';

export interface LoopRule {
  /** Times that a turn, or a cycle of turns, asks for the same and gets the same before the model is told. */
  identicalCalls: number;
  /** Turns of the longest cycle looked for. */
  cycle: number;
  /** Turns in a row that ask for the same, whatever they get, before the model is told. */
  sameArguments: number;
  /** Turns in a row whose calls all failed before the run ends. */
  toolFailures: number;
  /** Where an embedding model is configured: how near, by cosine, two calls in other words are that count as the same. */
  likeness: number;
}

/** How high the ladder is climbed. */
export type Rung = 'tell' | 'withhold' | 'answer';

export interface Repetition {
  rung: Rung;
  /** Turns of the cycle that is repeated: 1 for a turn like the one before it. */
  period: number;
  /** Turns in a row that belong to the repetition. */
  turns: number;
  /** Whether the results were the same as well. */
  sameResults: boolean;
  /** The calls were the same only by what they say. */
  reworded?: boolean;
}

/**
 * The repetition a run is in, the highest rung first; null: none. `alike`: by distance, from 1, turns in a row that asked for
 * what the turn so many before them did, if only in other words, and got the same.
 */
export function findRepetition(
  conduct: Conduct | null,
  rule: LoopRule,
  alike: readonly number[] = [],
): Repetition | null {
  if (conduct === null) return null;
  let found: Repetition | null = beforeTheBreaker(conduct, rule);
  for (let period = 1; period <= Math.min(rule.cycle, conduct.asked.length); period++) {
    const reworded = identical(alike, rule, period);
    for (const repetition of [
      identical(conduct.same, rule, period),
      sameArguments(conduct, rule, period),
      reworded && { ...reworded, reworded: true },
    ]) {
      if (repetition !== null && (found === null || heightOf(repetition) > heightOf(found))) found = repetition;
    }
  }
  return found;
}

/** Where one more failed turn opens the breaker, a model that asks for the same again is told while it can still heed it. */
function beforeTheBreaker(conduct: Conduct, rule: LoopRule): Repetition | null {
  const sameAsked = conduct.sameAsked[0] ?? 0;
  if (sameAsked === 0 || conduct.failedTurns === 0 || conduct.failedTurns !== rule.toolFailures - 1) return null;
  return { rung: 'tell', period: 1, turns: sameAsked + 1, sameResults: (conduct.same[0] ?? 0) > 0 };
}

function heightOf({ rung }: Repetition): number {
  return ['tell', 'withhold', 'answer'].indexOf(rung);
}

/** A repetition after the model was told has its calls withheld; one more, and the answer is asked for. */
function identical(counts: readonly number[], rule: LoopRule, period: number): Repetition | null {
  const same = counts[period - 1] ?? 0;
  const beyond = same - period * (rule.identicalCalls - 1);
  if (beyond < 0) return null;
  const rung = beyond === 0 ? 'tell' : beyond === 1 ? 'withhold' : 'answer';
  return { rung, period, turns: same + period, sameResults: true };
}

/** Who polls is told, and has half as many turns again before the calls are withheld. */
function sameArguments(conduct: Conduct, rule: LoopRule, period: number): Repetition | null {
  const turns = (conduct.sameAsked[period - 1] ?? 0) + period;
  if (turns < rule.sameArguments || turns < 2 * period) return null;
  const beyond = turns - Math.ceil(rule.sameArguments * 1.5);
  const rung = beyond < 0 ? 'tell' : beyond === 0 ? 'withhold' : 'answer';
  return { rung, period, turns, sameResults: false };
}

/** Whether these calls go on with the cycle: then they are withheld, and any others are not. */
export function goesOn(
  conduct: Conduct | null,
  { period }: Repetition,
  calls: Parameters<typeof askedFor>[0],
): boolean {
  return conduct !== null && conduct.asked[period - 1] === askedFor(calls);
}

/** What ends a run whose tools fail turn after turn; null: nothing does. */
export function brokenBy(conduct: Conduct | null, rule: LoopRule): { turns: number; lastError: string } | null {
  if (conduct === null || conduct.failedTurns < rule.toolFailures) return null;
  return { turns: conduct.failedTurns, lastError: conduct.lastError ?? 'no error was kept' };
}
