/**
 * JSON Schemas as users and MCP servers write them: checked when a tool is defined, closed so that undeclared fields are
 * refused, and compiled by ajv. Formats are hints to the model and are not enforced. Next: schema.ts.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

export type JsonSchema = Readonly<Record<string, unknown>>;
type Node = Record<string, unknown>;

const schemaLists = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const schemaMaps = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];
const singleSchemas = ['if', 'then', 'else', 'not', 'items', 'additionalItems', 'contains', 'propertyNames'].concat([
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
]);
/** Keywords whose schemas describe the same value as the schema they stand in. */
const inPlace = new Set(['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'not', 'dependentSchemas']);

/** Compiles a schema, or throws an Error that says what is wrong with it. */
export function compileJsonSchema(schema: JsonSchema): ValidateFunction {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    useDefaults: true,
    verbose: true,
    validateFormats: false,
    logger: false,
  });
  return ajv.compile(schema);
}

/** A copy that can be kept: nothing but JSON in it. Throws an Error that says why there is none. */
export function copySchema(schema: unknown): Node {
  const copy: unknown = JSON.parse(JSON.stringify(schema));
  if (!isNode(copy)) throw new Error('a schema is an object');
  return copy;
}

/** What a schema may not hold: references outside itself, and references into the data. Null when it holds neither. */
export function foreignReference(schema: JsonSchema): string | null {
  for (const node of schemasIn(schema)) {
    for (const keyword of ['$ref', '$dynamicRef', '$recursiveRef']) {
      const target = node[keyword];
      if (target !== undefined && (typeof target !== 'string' || !target.startsWith('#'))) {
        return `${keyword} ${JSON.stringify(target)} points outside the schema; copy what it points to into $defs`;
      }
    }
    for (const [keyword, value] of Object.entries(node)) {
      if (isNode(value) && '$data' in value && !schemaMaps.includes(keyword) && !isData(keyword)) {
        return `${keyword} uses $data, which is not supported; write the value itself`;
      }
    }
  }
  return null;
}

/**
 * A copy in which every object that declares fields refuses undeclared ones, unless it says itself what may stand beside
 * them. Tuples in the words of older drafts are put into today's, the only ones the validator reads.
 */
export function closeObjects(schema: JsonSchema): JsonSchema {
  const closed = copySchema(schema);
  delete closed.$schema;
  delete closed.$id;
  if (closed.properties === undefined && !composes(closed)) closed.properties = {};
  for (const node of schemasIn(closed)) {
    if (!Array.isArray(node.items)) continue;
    node.prefixItems = node.items;
    delete node.items;
    if (node.additionalItems !== undefined) node.items = node.additionalItems;
  }
  close(closed, closed, true);
  return closed;
}

/** `ownPlace`: false for a schema that shares its value with the one it stands in, which then does the refusing. */
function close(node: Node, root: Node, ownPlace: boolean): void {
  const saysItself = ['additionalProperties', 'unevaluatedProperties', 'patternProperties'].some((key) => key in node);
  if (ownPlace && !saysItself && declaresFields(node, root, new Set())) {
    node[composes(node) ? 'unevaluatedProperties' : 'additionalProperties'] = false;
  }
  for (const [keyword, child] of childSchemas(node)) {
    const shared = inPlace.has(keyword) || keyword === '$defs' || keyword === 'definitions';
    if (keyword !== 'not' && keyword !== 'if') close(child, root, !shared);
  }
}

function composes(node: Node): boolean {
  return '$ref' in node || [...inPlace].some((keyword) => keyword in node);
}

function declaresFields(node: Node, root: Node, seen: Set<Node>): boolean {
  if (seen.has(node)) return false;
  seen.add(node);
  if (isNode(node.properties)) return true;
  const target = typeof node.$ref === 'string' ? resolveLocal(root, node.$ref) : null;
  if (target !== null && declaresFields(target, root, seen)) return true;
  return childSchemas(node).some(([keyword, child]) => inPlace.has(keyword) && declaresFields(child, root, seen));
}

function resolveLocal(root: Node, ref: string): Node | null {
  let found: unknown = root;
  for (const part of ref.split('/').slice(1)) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    found = typeof found === 'object' && found !== null ? (found as Node)[key] : undefined;
  }
  return isNode(found) ? found : null;
}

/** The schema and every schema within it. A stack, not recursion: a schema of any depth is refused, never a crash. */
function* schemasIn(schema: JsonSchema): Generator<Node> {
  const stack: Node[] = [schema as Node];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    yield node;
    for (const [, child] of childSchemas(node)) stack.push(child);
  }
}

function childSchemas(node: Node): [string, Node][] {
  const children: [string, Node][] = [];
  const add = (keyword: string, value: unknown) => {
    if (isNode(value)) children.push([keyword, value]);
  };
  for (const [keyword, value] of Object.entries(node)) {
    if (schemaMaps.includes(keyword) && isNode(value)) for (const child of Object.values(value)) add(keyword, child);
    else if (Array.isArray(value) && (schemaLists.includes(keyword) || keyword === 'items')) {
      for (const child of value) add(keyword, child);
    } else if (singleSchemas.includes(keyword)) add(keyword, value);
  }
  return children;
}

function isData(keyword: string): boolean {
  return ['const', 'default', 'enum', 'examples'].includes(keyword);
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
