/**
 * Issues: what is wrong with a value a model produced, each as path, expected, got, so that the model can mend its call.
 * zod's and ajv's errors are both read into this one shape. Next: schema.ts, which produces them.
 */
import type { ErrorObject } from 'ajv';
import type { z } from 'zod';

export interface Issue {
  /** `items[0].price`; empty for the value itself. */
  path: string;
  expected: string;
  got: string;
}

/** A value in a few words, for messages: its kind, and the value itself where it is short. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string') {
    const short = value.length > 60 ? `${value.slice(0, 60)}…` : value;
    return `${JSON.stringify(short.toWellFormed())} (string)`;
  }
  if (typeof value === 'number' || typeof value === 'bigint') return `${value} (number)`;
  if (typeof value === 'boolean') return `${value} (boolean)`;
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : `an array of ${value.length}`;
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

export function joinPath(base: string, key: PropertyKey): string {
  if (typeof key === 'number') return `${base}[${key}]`;
  const name = String(key).slice(0, 100);
  return base === '' ? name : `${base}.${name}`;
}

/** `declared`: the fields there are at this place, where they are known. */
export function undeclaredIssue(path: string, value: unknown, declared: readonly string[] | null): Issue {
  const fields = declared?.length === 0 ? ': there are none here' : `: the fields here are ${declared?.join(', ')}`;
  return { path, expected: `no such field${declared === null ? '' : fields}`, got: describeValue(value) };
}

export function issuesOfZod(found: readonly z.core.$ZodIssue[], input: unknown): Issue[] {
  return found.flatMap((issue) => issuesOfOne(issue, [], input));
}

function issuesOfOne(issue: z.core.$ZodIssue, prefix: readonly PropertyKey[], input: unknown): Issue[] {
  const keys = [...prefix, ...issue.path];
  const path = keys.reduce<string>(joinPath, '');
  const value = valueAt(input, keys);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => undeclaredIssue(joinPath(path, key), valueAt(value, [key]), null));
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const inside = issue.errors.filter((branch) => branch.some((nested) => nested.path.length > 0));
    const closest = inside.sort((a, b) => a.length - b.length)[0];
    if (closest !== undefined) return closest.flatMap((nested) => issuesOfOne(nested, keys, input));
    const ways = issue.errors.flatMap((branch) => branch.slice(0, 1).map(expectedByZod));
    return [{ path, expected: [...new Set(ways)].join(' or '), got: describeValue(value) }];
  }
  return [{ path, expected: expectedByZod(issue), got: describeValue(value) }];
}

function expectedByZod(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') return issue.expected === 'int' ? 'integer' : issue.expected;
  if (issue.code === 'invalid_value') return oneOf(issue.values);
  if (issue.code === 'invalid_format') {
    return issue.pattern === undefined ? `text in the format ${issue.format}` : `text that matches ${issue.pattern}`;
  }
  return issue.message.replace(/^(Too (small|big)|Invalid [a-z ]*)[:.] expected /i, '');
}

function oneOf(values: readonly unknown[]): string {
  const list = values.map((value) => (typeof value === 'bigint' ? `${value}` : (JSON.stringify(value) ?? 'nothing')));
  return list.length === 1 ? (list[0] ?? '') : `one of ${list.join(', ')}`;
}

export function issuesOfAjv(errors: readonly ErrorObject[]): Issue[] {
  // `if`, `anyOf` and `oneOf` only say that something inside them failed; the something stands beside them.
  const told = errors.filter((error) => !['if', 'anyOf', 'oneOf'].includes(error.keyword));
  return (told.length > 0 ? told : errors).map(issueOfAjv);
}

function issueOfAjv(error: ErrorObject): Issue {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((base, key) => joinPath(base, /^\d+$/.test(key) ? Number(key) : key), '');
  const params: Record<string, unknown> = error.params;
  const parent: Record<string, unknown> = error.parentSchema ?? {};
  if (error.keyword === 'required' && typeof params.missingProperty === 'string') {
    const declared = asRecord(asRecord(parent.properties)[params.missingProperty]);
    const expected = typeof declared.type === 'string' ? declared.type : 'a value';
    return { path: joinPath(path, params.missingProperty), expected, got: 'nothing' };
  }
  const undeclared = params.additionalProperty ?? params.unevaluatedProperty;
  if (typeof undeclared === 'string') {
    const fields = Object.keys(asRecord(parent.properties));
    return undeclaredIssue(joinPath(path, undeclared), asRecord(error.data)[undeclared], fields);
  }
  return { path, expected: expectedByAjv(error, params), got: describeValue(error.data) };
}

function expectedByAjv(error: ErrorObject, params: Record<string, unknown>): string {
  if (error.keyword === 'type') return Array.isArray(params.type) ? params.type.join(' or ') : String(params.type);
  if (error.keyword === 'enum' && Array.isArray(params.allowedValues)) return oneOf(params.allowedValues);
  if (error.keyword === 'const') return oneOf([params.allowedValue]);
  return (error.message ?? error.keyword).replace(/^must (be )?/, '');
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function valueAt(input: unknown, keys: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
