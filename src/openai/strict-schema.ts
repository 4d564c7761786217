/**
 * Whether a JSON Schema can be sent in OpenAI's strict mode as it is: every object closed, every property required, only
 * keywords that mode knows. A schema with optional properties is sent without `strict`: rewriting them as nullable would
 * make the model answer null where the agent's own schema allows only absence.
 */
import { asObject, type JsonObject } from './json.js';

const known = new Set([
  '$schema',
  '$defs',
  '$ref',
  'type',
  'title',
  'description',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'const',
  'anyOf',
  'format',
  'pattern',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
]);

/** Depth beyond which strict mode refuses a schema anyway. */
const deepest = 10;

export function isStrict(schema: JsonObject): boolean {
  return schema.type === 'object' && isStrictAt(schema, 0);
}

function isStrictAt(schema: unknown, depth: number): boolean {
  const node = asObject(schema);
  if (node === null || depth > deepest || !Object.keys(node).every((key) => known.has(key))) return false;
  if (node.type === 'object' || node.properties !== undefined) {
    const properties = asObject(node.properties) ?? {};
    const required = Array.isArray(node.required) ? node.required : [];
    if (node.additionalProperties !== false) return false;
    if (!Object.keys(properties).every((name) => required.includes(name))) return false;
  }
  const inner = [
    ...Object.values(asObject(node.properties) ?? {}),
    ...Object.values(asObject(node.$defs) ?? {}),
    ...(Array.isArray(node.anyOf) ? node.anyOf : []),
    ...(node.items === undefined ? [] : [node.items]),
  ];
  return inner.every((part) => isStrictAt(part, depth + 1));
}
