/**
 * Finds the fields of a value that a zod schema does not declare: `z.object` drops them without a word, and a model that
 * misspells an optional argument must hear of it. An object made loose, or with a catchall, takes what it likes.
 */
import { z } from 'zod';
import { type Issue, joinPath, undeclaredIssue } from './issues.js';

interface Place {
  value: unknown;
  path: string;
}

export function undeclaredIssues(schema: z.core.$ZodType, value: unknown): Issue[] {
  return find(schema, { value, path: '' });
}

function find(schema: z.core.$ZodType, place: Place): Issue[] {
  const def = (schema as z.core.$ZodTypes)._zod.def;
  switch (def.type) {
    case 'object':
      return findInObject(def, place);
    case 'array':
      return each(place, () => def.element);
    case 'tuple':
      return each(place, (key) => def.items[Number(key)] ?? def.rest);
    case 'record':
      return each(place, () => def.valueType);
    case 'optional':
    case 'nullable':
    case 'nonoptional':
    case 'default':
    case 'prefault':
    case 'readonly':
    case 'catch':
      return find(def.innerType, place);
    case 'pipe':
      return find(def.in, place);
    case 'lazy':
      return find(def.getter(), place);
    case 'union':
      return findInUnion(def.options, place);
    case 'intersection':
      return inBoth(find(def.left, place), find(def.right, place));
    default:
      return [];
  }
}

function findInObject(def: z.core.$ZodObjectDef, { value, path }: Place): Issue[] {
  if (!isObject(value)) return [];
  const declared = Object.keys(def.shape);
  return Object.entries(value).flatMap(([key, field]) => {
    const inner = Object.hasOwn(def.shape, key) ? def.shape[key] : def.catchall;
    const at = joinPath(path, key);
    return inner === undefined ? [undeclaredIssue(at, field, declared)] : find(inner, { value: field, path: at });
  });
}

/** Of the ways of a union that the value fits, the one that declares most of it. */
function findInUnion(options: readonly z.core.$ZodType[], place: Place): Issue[] {
  const fitting = options.filter((option) => z.safeParse(option, place.value).success);
  return fitting.map((option) => find(option, place)).sort((a, b) => a.length - b.length)[0] ?? [];
}

/** A field is undeclared by two schemas together when each leaves it out, or leaves out the object it stands in. */
function inBoth(left: Issue[], right: Issue[]): Issue[] {
  const covers = (outer: Issue, inner: Issue) =>
    inner.path === outer.path || inner.path.startsWith(`${outer.path}.`) || inner.path.startsWith(`${outer.path}[`);
  const kept = left.filter((issue) => right.some((other) => covers(other, issue)));
  return kept.concat(right.filter((issue) => left.some((other) => covers(other, issue) && other.path !== issue.path)));
}

function each({ value, path }: Place, schemaOf: (key: string | number) => z.core.$ZodType | null | undefined): Issue[] {
  const entries: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : isObject(value)
      ? Object.entries(value)
      : [];
  return entries.flatMap(([key, item]) => {
    const schema = schemaOf(key);
    return schema === null || schema === undefined ? [] : find(schema, { value: item, path: joinPath(path, key) });
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
