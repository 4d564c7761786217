/**
 * Reflection, `mode: { reflect: … }`: a final answer that satisfies `output` and `verify` is judged by an LLM step of its own
 * before it becomes the run's output. What it objects to goes back to the model as an objection of `verify` does, at most so
 * many rounds; a judgement that fails, cannot be read or has no room lets the answer stand. That a step is to judge follows
 * from the history alone. Pure. Next: engine/reflect.ts.
 */
import { describeThrown } from './errors.js';
import type { StoredMessage } from './message.js';
import { cleanText, cutMiddle } from './storable.js';

export type Judgement =
  | { is: 'accepted' }
  | { is: 'objected'; objection: string }
  /** There is no judgement, for a reason in words for people. */
  | { is: 'none'; why: string };

/**
 * The final answer that is still to be judged: the last thing said, by the model, without a call. A run of any other agent is
 * at its end then, or its answer has been objected to.
 */
export function answerToJudge(stored: readonly StoredMessage[]): { seq: number; content: string } | null {
  const last = stored.reduce<StoredMessage | null>((a, b) => (a === null || isAfter(b, a) ? b : a), null);
  if (last === null || last.seq <= 0 || last.message.role !== 'assistant' || last.message.toolCalls.length > 0)
    return null;
  return { seq: last.seq, content: last.message.content ?? '' };
}

function isAfter(a: StoredMessage, b: StoredMessage): boolean {
  return a.seq > b.seq || (a.seq === b.seq && a.pos > b.pos);
}

const mostChars = 2_000;

/** What a model has said of an answer: one JSON object, whatever stands around it. */
export function readJudgement(text: string | null): Judgement {
  const said = text ?? '';
  const json = said.slice(said.indexOf('{'), said.lastIndexOf('}') + 1);
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    return { is: 'none', why: `the judgement cannot be read: ${cleanText(describeThrown(thrown))}` };
  }
  const { accepted, objections } = value as { accepted?: unknown; objections?: unknown };
  if (accepted === true) return { is: 'accepted' };
  const lines = (Array.isArray(objections) ? objections : [objections]).filter((line) => typeof line === 'string');
  const objection = cutMiddle(cleanText(lines.join('\n').trim()), mostChars);
  if (accepted === false && objection !== '') return { is: 'objected', objection };
  return { is: 'none', why: 'the judgement neither accepts the answer nor says what is wrong with it' };
}
