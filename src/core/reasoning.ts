/**
 * A tool's `reasoning`: what a model has to say for itself with each call, beside the arguments, for the tool's check to
 * judge. It is asked for and validated as arguments are, but is none: the tool is not given it as one, and calls that differ
 * in nothing else are the same call.
 */
import { describeValue } from './issues.js';
import type { CompiledSchema, JsonSchema } from './schema.js';
import { canonicalJson } from './storable.js';

const field = 'reasoning';

interface Reasoned {
  args: unknown;
  reasoning: unknown;
}

/** The schema of arguments with their reasoning before them; throws an Error that says why it cannot be. */
export function withReasoning(input: CompiledSchema, reasoning: CompiledSchema): CompiledSchema {
  const properties = input.json.properties as Record<string, unknown>;
  if (field in properties) throw new Error('input has a field reasoning itself; rename it, or leave the option out');
  if (/"\$(?:ref|defs)"/.test(JSON.stringify(reasoning.json))) throw new Error('it must not hold references ($ref)');
  const json: JsonSchema = {
    ...input.json,
    properties: { [field]: reasoning.json, ...properties },
    required: [field, ...(input.json.required as string[])],
  };
  return {
    json: Object.freeze(json),
    check(value) {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return input.check(value);
      const { [field]: given, ...rest } = value as Record<string, unknown>;
      const args = input.check(rest);
      const reasons = given === undefined ? missing : reasoning.check(given);
      if (args.ok && reasons.ok) return { ok: true, value: { args: args.value, reasoning: reasons.value } };
      const ofReasons = reasons.ok ? [] : reasons.issues.map((issue) => ({ ...issue, path: join(issue.path) }));
      return { ok: false, issues: [...ofReasons, ...(args.ok ? [] : args.issues)] };
    },
  };
}

const missing = { ok: false as const, issues: [{ path: '', expected: 'object', got: describeValue(undefined) }] };

function join(path: string): string {
  return path === '' || path.startsWith('[') ? `${field}${path}` : `${field}.${path}`;
}

/** What the check of `withReasoning` made of a value. */
export function splitReasoning(value: unknown): Reasoned {
  return value as Reasoned;
}

/** What the identity of a call is made of. */
export function canonicalWithout(text: string): string {
  const { [field]: _, ...rest } = JSON.parse(text) as Record<string, unknown>;
  return canonicalJson(rest);
}
