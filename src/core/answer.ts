/**
 * Reads a model's final answer against the agent's `output`, where it has one. Models like to wrap JSON in a code fence, so
 * one around the whole answer is taken off; anything else that is not JSON goes back to the model.
 */
import { describeThrown } from './errors.js';
import { cleanText, writeJson } from './json-writer.js';
import type { CompiledSchema } from './schema.js';
import type { Words } from './words.js';

export type ReadAnswer = { ok: true; value: unknown; text: string } | { ok: false; fault: string };

export function readAnswer(schema: CompiledSchema | null, answer: string, words: Words): ReadAnswer {
  const text = cleanText(answer);
  if (schema === null) return { ok: true, value: text, text };
  const fenced = /^```[a-z]*\s*\n([\s\S]*?)\n?```$/i.exec(text.trim())?.[1];
  const json = fenced ?? text.trim();
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    return { ok: false, fault: words.answerNotJson(describeThrown(thrown).slice(0, 200)) };
  }
  const checked = schema.check(value);
  if (!checked.ok) return { ok: false, fault: words.objection(checked.issues) };
  const everything = { sortKeys: false, maxDepth: Number.POSITIVE_INFINITY, maxChars: Number.POSITIVE_INFINITY };
  return { ok: true, value: checked.value, text: writeJson(checked.value, everything) };
}
