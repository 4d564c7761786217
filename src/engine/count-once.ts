/**
 * Token counts of what stands at the head of every request of a run, the task and the agent's own words, kept for as long as
 * the object is that they were counted of: nothing is counted anew for each step.
 */
import type { Llm } from '../ports.js';

const counted = new WeakMap<Llm, WeakMap<object, Map<string, Promise<number>>>>();

/** Tokens of the texts of `of` together, by the model's tokenizer. */
export function countOnce<Of extends object>(
  llm: Llm,
  of: Of,
  model: string,
  textsOf: (of: Of) => string[],
): Promise<number> {
  const byObject = counted.get(llm) ?? new WeakMap<object, Map<string, Promise<number>>>();
  counted.set(llm, byObject);
  const byModel = byObject.get(of) ?? new Map<string, Promise<number>>();
  byObject.set(of, byModel);
  const known = byModel.get(model);
  if (known !== undefined) return known;
  const counting = llm.countTokens(model, textsOf(of)).then((counts) => counts.reduce((sum, count) => sum + count, 0));
  byModel.set(model, counting);
  // What failed is counted again.
  counting.catch(() => byModel.delete(model));
  return counting;
}
