/**
 * Reads the arguments text of a tool call as a model wrote it. What runs, what is stored and what the model sees again are
 * one text: its own where that was good, the mended one where it was not, and an object that shows the fault where it could
 * not be mended. Next: schema.ts for the check itself.
 */
import { describeThrown } from './errors.js';
import type { Issue } from './issues.js';
import type { CompiledSchema } from './schema.js';
import { canonicalJson, cleanText, cutMiddle } from './storable.js';
import type { Words } from './words.js';

/** Longer arguments are refused unread. */
const maxArgumentChars = 1_000_000;
/** Deeper ones too: no tool means them, and much code that handles them would overflow its stack. */
const maxArgumentDepth = 200;

interface ReadArguments {
  /** JSON text of an object, for the message and the step. */
  text: string;
  /** The same with sorted keys, before defaults: what identity is made of. */
  canonical: string;
}

export type ParsedArguments =
  /** `reasoning`: of a tool that demands one. */
  | ({ ok: true; args: unknown; reasoning?: unknown } & ReadArguments)
  /** `fault`: the observation for the model. */
  | ({ ok: false; fault: string } & ReadArguments);

export function parseArguments(name: string, schema: CompiledSchema, given: string, words: Words): ParsedArguments {
  const raw = typeof given === 'string' ? cleanText(given) : '';
  if (raw.length > maxArgumentChars) {
    return faulty(raw, words.unparseableArguments(name, `${raw.length} characters; at most ${maxArgumentChars}`));
  }
  const read = readJson(raw);
  if ('problem' in read) return faulty(raw, words.unparseableArguments(name, read.problem));
  const checked = schema.check(read.value);
  // A check may fill defaults into the value it is given: the text is read again for what comes after it.
  if (checked.ok && isObject(read.value)) return good(read.text, checked.value);
  const inner = typeof read.value === 'string' ? readJson(read.value) : null;
  if (inner !== null && !('problem' in inner) && isObject(inner.value)) {
    const again = schema.check(inner.value);
    if (again.ok) return good(inner.text, again.value);
    return faulty(raw, words.invalidArguments(name, again.issues));
  }
  if (!isObject(read.value))
    return faulty(raw, words.unparseableArguments(name, `${kindOf(read.value)}, not an object`));
  const issues = checked.ok ? [] : checked.issues;
  const mended = undoEncodedFields(read.text, issues);
  if (mended !== null) {
    const again = schema.check(JSON.parse(mended));
    if (again.ok) return good(mended, again.value);
  }
  return faulty(raw, words.invalidArguments(name, issues));
}

/** What stands in the message for arguments that could not be used: an object, so that the request stays valid. */
export function faultyArguments(raw: string): string {
  return JSON.stringify({ invalid_arguments: cutMiddle(cleanText(raw), 2_000) });
}

function good(text: string, args: unknown): ParsedArguments {
  return {
    ok: true,
    args,
    text,
    // Asked for when a call is planned, and not again when it is performed.
    get canonical() {
      return canonicalJson(JSON.parse(text));
    },
  };
}

function faulty(raw: string, fault: string): ParsedArguments {
  const text = faultyArguments(raw);
  return { ok: false, fault, text, canonical: canonicalJson(JSON.parse(text)) };
}

function readJson(text: string): { text: string; value: unknown } | { problem: string } {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === 'null') return { text: '{}', value: {} };
  let value: unknown;
  try {
    value = JSON.parse(trimmed);
  } catch (thrown) {
    return { problem: describeThrown(thrown).slice(0, 200) };
  }
  const found = inspect(value);
  if (found.problem !== null) return { problem: found.problem };
  if (found.clean) return { text, value };
  // Escapes such as \\u0000 or half a surrogate pair are valid JSON, but neither Postgres nor a provider takes what they mean.
  const cleaned = canonicalJson(value);
  return { text: cleaned, value: JSON.parse(cleaned) };
}

/** Walks the value with a stack of its own. */
function inspect(value: unknown): { problem: string | null; clean: boolean } {
  const stack: { item: unknown; depth: number }[] = [{ item: value, depth: 0 }];
  let clean = true;
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const { item, depth } = top;
    if (typeof item === 'string') clean &&= cleanText(item) === item;
    if (typeof item !== 'object' || item === null) continue;
    if (depth >= maxArgumentDepth) return { problem: `nested deeper than ${maxArgumentDepth} levels`, clean };
    for (const [key, child] of Object.entries(item)) {
      if (key === '__proto__') return { problem: 'a field is named __proto__', clean };
      clean &&= cleanText(key) === key;
      stack.push({ item: child, depth: depth + 1 });
    }
  }
  return { problem: null, clean };
}

/** Undoes one level of encoding on refused fields that hold the JSON text of an object or a list; null when none does. */
function undoEncodedFields(text: string, issues: readonly Issue[]): string | null {
  const object = JSON.parse(text) as Record<string, unknown>;
  let changed = false;
  for (const [key, field] of Object.entries(object)) {
    if (typeof field !== 'string' || !/^\s*[[{]/.test(field)) continue;
    if (!issues.some((issue) => issue.path === key)) continue;
    const inner = readJson(field);
    if ('problem' in inner) continue;
    object[key] = inner.value;
    changed = true;
  }
  return changed ? JSON.stringify(object) : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}
