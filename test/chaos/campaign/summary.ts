/**
 * The summary that the model of a campaign writes: all that it has to know of the turns that are shown no more. So what a
 * summary lost, or one that another run wrote, leads to another output.
 */
import { wordsOf } from '../../../src/core/words.js';

export interface Summary {
  /** Turns so far, and their results' marks. */
  turns: number;
  marks: string[];
  /** Summaries of the run, this one included. */
  count: number;
}

const wish = wordsOf('en').summarise(0).slice(0, 40);

/** Whether a request's last message asks for one. */
export const asksForSummary = (text: string | null | undefined) => text?.includes(wish) === true;

export function writeSummary({ turns, marks, count }: Summary): string {
  return `summary ${count} of ${turns} turns: ${marks.join(' ')}`;
}

/** The newest summary in a message; null: there is none. */
export function summaryIn(text: string): Summary | null {
  const found = /^summary (\d+) of (\d+) turns: ([0-9a-f -]*)$/m.exec(text);
  if (found === null) return null;
  const [, count = '', turns = '', marks = ''] = found;
  return { turns: Number(turns), marks: marks === '' ? [] : marks.split(' '), count: Number(count) };
}
