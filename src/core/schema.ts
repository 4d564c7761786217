/**
 * The one shape behind a tool's `input` and an agent's `output`: a zod 4 schema or a JSON Schema object becomes the JSON
 * Schema a model is shown and a check that fills defaults and names each issue by path. Next: zod-undeclared.ts, json-schema.ts.
 */
import { z } from 'zod';
import { describeThrown } from './errors.js';
import { type Issue, issuesOfAjv, issuesOfZod } from './issues.js';
import { closeObjects, compileJsonSchema, copySchema, foreignReference, type JsonSchema } from './json-schema.js';
import { undeclaredIssues } from './zod-undeclared.js';

export type { JsonSchema };

/** A zod 4 schema, or a JSON Schema object. */
export type SchemaInput = z.core.$ZodType | JsonSchema;

interface JsonObject {
  [key: string]: unknown;
}

/** What a schema makes of a value: zod's output type; any JSON object for a JSON Schema. */
export type ValueOf<S> = S extends z.core.$ZodType ? z.output<S> : JsonObject;

type Checked = { ok: true; value: unknown } | { ok: false; issues: Issue[] };

export interface CompiledSchema {
  /** As a model is shown it: `type: object` at the root, with `properties` and `required`. */
  json: JsonSchema;
  /** Checks a JSON value of its own, which it may fill with defaults; never throws. */
  check(value: unknown): Checked;
}

export interface SchemaOptions {
  /** Whether a field that the schema does not declare is an issue. */
  refuseUndeclared: boolean;
}

/** Compiles a schema whose root is an object, or throws an Error that says what is wrong with it and what to do. */
export function compileSchema(schema: unknown, options: SchemaOptions): CompiledSchema {
  if (typeof schema !== 'object' || schema === null) {
    throw new Error('it must be a zod schema or a JSON Schema object');
  }
  if ('_zod' in schema) return compileZod(schema as z.core.$ZodType, options);
  if ('_def' in schema) throw new Error('it was made by another version of zod; Pawl takes schemas of zod 4');
  if (Array.isArray(schema)) throw new Error('it must be a zod schema or a JSON Schema object, not an array');
  return compileObject(schema as JsonSchema, options);
}

function compileZod(schema: z.core.$ZodType, options: SchemaOptions): CompiledSchema {
  const json: Record<string, unknown> = { ...z.toJSONSchema(schema, { io: 'input', override: tidy }) };
  delete json.$schema;
  delete json['~standard'];
  return {
    json: withObjectRoot(json),
    check(value) {
      try {
        const parsed = z.safeParse(schema, value);
        const undeclared = options.refuseUndeclared ? undeclaredIssues(schema, value) : [];
        if (parsed.success && undeclared.length === 0) return { ok: true, value: parsed.data };
        return {
          ok: false,
          issues: [...(parsed.success ? [] : issuesOfZod(parsed.error.issues, value)), ...undeclared],
        };
      } catch (thrown) {
        return { ok: false, issues: [threwIssue(thrown)] };
      }
    },
  };
}

/** Shows the model that undeclared fields are refused, and spares it the bounds that every safe integer has. */
function tidy({
  zodSchema,
  jsonSchema,
  path,
}: Parameters<NonNullable<z.core.ToJSONSchemaParams['override']>>[0]): void {
  const def = (zodSchema as z.core.$ZodTypes)._zod.def;
  if (def.type === 'object' && def.catchall === undefined && !path.includes('allOf')) {
    jsonSchema.additionalProperties = false;
  }
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

function compileObject(schema: JsonSchema, options: SchemaOptions): CompiledSchema {
  const json = withObjectRoot(copySchema(schema));
  const foreign = foreignReference(json);
  if (foreign !== null) throw new Error(foreign);
  const validate = compileJsonSchema(options.refuseUndeclared ? closeObjects(json) : json);
  return {
    json,
    check(value) {
      try {
        return validate(value) ? { ok: true, value } : { ok: false, issues: issuesOfAjv(validate.errors ?? []) };
      } catch (thrown) {
        return { ok: false, issues: [threwIssue(thrown)] };
      }
    },
  };
}

/** Providers want an object at the root, with `properties` and `required` even where both are empty. */
function withObjectRoot(json: JsonSchema): JsonSchema {
  if (json.type !== 'object') {
    const found = json.type === undefined ? 'no type' : `type ${JSON.stringify(json.type)}`;
    throw new Error(`its root must be an object, and has ${found}; put the value into a field of an object`);
  }
  return Object.freeze({ ...json, properties: json.properties ?? {}, required: json.required ?? [] });
}

function threwIssue(thrown: unknown): Issue {
  return {
    path: '',
    expected: `a value the schema can check (it threw: ${describeThrown(thrown)})`,
    got: 'one it cannot',
  };
}
