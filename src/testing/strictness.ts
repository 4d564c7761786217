/**
 * The rules of the chat completions API that clients break: what providers answer with a 400, often only the strictest of
 * them. The scripted model enforces them all, so a test with it shows that no provider would refuse the request. Pure.
 */
import { asJson, asList } from './wire.js';

/** A broken rule, as the members of OpenAI's error body. */
export interface Breach {
  message: string;
  param: string | null;
  code: string | null;
}

type Json = Record<string, unknown>;

const namePattern = /^[a-zA-Z0-9_-]{1,64}$/;
const breach = (message: string, param: string | null = null, code: string | null = null): Breach => ({
  message,
  param,
  code,
});

/** The first rule the body breaks, or null. `body` is the parsed JSON. */
export function findBreach(body: unknown): Breach | null {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return breach('The body must be a JSON object.');
  const request = body as Json;
  return (
    inText(request) ??
    inParameters(request) ??
    inTools(request) ??
    inFormat(request) ??
    inRoles(request) ??
    inPairs(request)
  );
}

/** The same of a request for embeddings. */
export function findEmbeddingBreach(body: unknown): Breach | null {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return breach('The body must be a JSON object.');
  const { model, input, ...rest } = body as Json;
  const [unknown] = Object.keys(rest).filter((name) => !['encoding_format', 'dimensions', 'user'].includes(name));
  if (unknown !== undefined) return breach(`Unknown parameter: '${unknown}'.`, unknown, 'unknown_parameter');
  const texts = Array.isArray(input) ? input : [input];
  const isText = (text: unknown) => typeof text === 'string' && text !== '' && text.length <= 8_192;
  if (texts.length === 0 || texts.length > 10 || !texts.every(isText)) {
    return breach("Invalid 'input': 1 to 10 texts of 1 to 8192 characters.", 'input', 'invalid_type');
  }
  return inText(body) ?? inParameters({ model, ...rest });
}

/** Half a surrogate pair anywhere, keys included. */
function inText(value: unknown): Breach | null {
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const next = pending.pop();
    if (typeof next === 'string' && /\p{Surrogate}/u.test(next)) {
      return breach('We could not parse the JSON body of your request: it holds a lone surrogate.');
    }
    if (typeof next === 'object' && next !== null) pending.push(...Object.keys(next), ...Object.values(next));
  }
  return null;
}

function inParameters(request: Json): Breach | null {
  for (const [name, value] of Object.entries(request)) {
    if (value === null) return breach(`Invalid type for '${name}': got null instead.`, name, 'invalid_type');
  }
  if (typeof request.model !== 'string' || request.model === '') {
    return breach('you must provide a model parameter', 'model');
  }
  if (request.stream !== undefined && request.stream !== false) {
    return breach('Unsupported value: streaming is not offered here.', 'stream', 'unsupported_value');
  }
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    const value = request[name];
    if (value !== undefined && !(Number.isInteger(value) && Number(value) > 0)) {
      return breach(`Invalid '${name}': expected an integer of at least 1.`, name, 'integer_below_min_value');
    }
  }
  if (request.max_tokens !== undefined && request.max_completion_tokens !== undefined) {
    return breach("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", 'max_tokens');
  }
  const { temperature } = request;
  if (temperature !== undefined && !(typeof temperature === 'number' && temperature >= 0 && temperature <= 2)) {
    return breach("Invalid 'temperature': expected a number from 0 to 2.", 'temperature');
  }
  return null;
}

function inTools(request: Json): Breach | null {
  if (request.tools === undefined) {
    return request.tool_choice === undefined
      ? null
      : breach("'tool_choice' is only allowed when 'tools' are specified.", 'tool_choice');
  }
  const tools = asList(request.tools).map(asJson);
  if (tools.length === 0) return breach("Invalid 'tools': empty array.", 'tools', 'empty_array');
  const names = new Set<unknown>();
  for (const [at, tool] of tools.entries()) {
    const { name, description, parameters } = asJson(tool.function);
    if (tool.type !== 'function') return breach(`Invalid value: 'tools[${at}].type'.`, `tools[${at}].type`);
    const bad = ofName(name, `tools[${at}].function.name`);
    if (bad !== null) return bad;
    if (names.has(name)) return breach(`Tool names must be unique: '${name}'.`, `tools[${at}].function.name`);
    names.add(name);
    if (description !== undefined && typeof description !== 'string') {
      return breach(`Invalid type for 'tools[${at}].function.description'.`, `tools[${at}].function.description`);
    }
    if (parameters !== undefined && asJson(parameters).type !== 'object') {
      return breach(
        `Invalid schema for function '${name}': schema must be a JSON Schema of 'type: "object"'.`,
        `tools[${at}].function.parameters`,
        'invalid_function_parameters',
      );
    }
  }
  return null;
}

function ofName(name: unknown, param: string): Breach | null {
  if (typeof name === 'string' && namePattern.test(name)) return null;
  return breach(`Invalid '${param}': string does not match pattern '^[a-zA-Z0-9_-]+$'.`, param, 'invalid_value');
}

function inFormat(request: Json): Breach | null {
  if (request.response_format === undefined) return null;
  const format = asJson(request.response_format);
  if (format.type === 'text' || format.type === 'json_object') return null;
  if (format.type !== 'json_schema') return breach("Invalid value: 'response_format.type'.", 'response_format.type');
  const { name, schema, strict } = asJson(format.json_schema);
  const bad = ofName(name, 'response_format.json_schema.name');
  if (bad !== null) return bad;
  if (asJson(schema).type !== 'object' && strict === true) {
    return breach(`Invalid schema for response_format '${name}': root must be an object.`, 'response_format');
  }
  return strict === true && !isClosed(schema)
    ? breach(
        `Invalid schema for response_format '${name}': 'additionalProperties' must be false and 'required' whole.`,
        'response_format',
      )
    : null;
}

/** Strict mode: every object closed, every property required. */
function isClosed(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isClosed);
  const node = asJson(schema);
  const properties = Object.keys(asJson(node.properties));
  if (node.type === 'object') {
    if (node.additionalProperties !== false) return false;
    if (!properties.every((name) => asList(node.required).includes(name))) return false;
  }
  return [...Object.values(asJson(node.properties)), ...Object.values(asJson(node.$defs)), node.items, node.anyOf]
    .filter((part) => part !== undefined)
    .every(isClosed);
}

function inRoles(request: Json): Breach | null {
  const messages = asList(request.messages).map(asJson);
  if (messages.length === 0) return breach("Invalid 'messages': empty array.", 'messages', 'empty_array');
  if (!messages.some((message) => message.role === 'user')) return breach('The messages hold no task.', 'messages');
  for (const [at, message] of messages.entries()) {
    const where = `messages[${at}]`;
    if ((message.role === 'system') !== (at === 0)) {
      return breach('Exactly one system message is allowed, and it comes first.', `${where}.role`);
    }
    if (!['system', 'user', 'assistant', 'tool'].includes(String(message.role))) {
      return breach(`Invalid value: '${message.role}'.`, `${where}.role`, 'invalid_value');
    }
    const calls = message.tool_calls;
    if (calls !== undefined && (message.role !== 'assistant' || asList(calls).length === 0)) {
      return breach(`Invalid '${where}.tool_calls': empty or misplaced.`, `${where}.tool_calls`, 'empty_array');
    }
    const mayBeNull = message.role === 'assistant' && calls !== undefined;
    if (!isContent(message.content) && !(mayBeNull && message.content === null)) {
      return breach(`Invalid value for 'content': expected a string, got ${message.content}.`, `${where}.content`);
    }
  }
  return null;
}

function isContent(content: unknown): boolean {
  if (typeof content === 'string') return true;
  const parts = asList(content).map(asJson);
  return parts.length > 0 && parts.every((part) => part.type === 'text' && typeof part.text === 'string');
}

/** Calls and results: each call answered directly after, each result asked for, ids used once, arguments an object. */
function inPairs(request: Json): Breach | null {
  const seen = new Set<string>();
  let awaited = new Set<string>();
  for (const [at, message] of asList(request.messages).map(asJson).entries()) {
    const where = `messages[${at}]`;
    if (message.role === 'tool') {
      const id = String(message.tool_call_id);
      if (awaited.delete(id)) continue;
      return breach(
        seen.has(id)
          ? `Duplicate value for 'tool_call_id' of '${id}'.`
          : "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
        `${where}.tool_call_id`,
      );
    }
    if (awaited.size > 0) return unanswered(awaited, where);
    awaited = new Set();
    for (const call of asList(message.tool_calls).map(asJson)) {
      const bad = ofCall(call, seen, `${where}.tool_calls`);
      if (bad !== null) return bad;
      seen.add(String(call.id));
      awaited.add(String(call.id));
    }
  }
  return awaited.size > 0 ? unanswered(awaited, 'messages') : null;
}

function ofCall(call: Json, seen: ReadonlySet<string>, where: string): Breach | null {
  const { name, arguments: text } = asJson(call.function);
  if (call.type !== 'function') return breach(`Invalid value: '${where}.type'.`, where);
  if (typeof call.id !== 'string' || call.id === '' || call.id.length > 40) {
    return breach(`Invalid '${where}.id': expected 1 to 40 characters.`, where);
  }
  if (seen.has(call.id)) return breach(`Duplicate tool call id '${call.id}'.`, where);
  const bad = ofName(name, `${where}.function.name`);
  if (bad !== null) return bad;
  return isObjectText(text) ? null : breach(`The arguments of '${call.id}' are not the JSON text of an object.`, where);
}

function isObjectText(text: unknown): boolean {
  try {
    const value: unknown = JSON.parse(String(text));
    return typeof text === 'string' && typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

function unanswered(ids: ReadonlySet<string>, param: string): Breach {
  return breach(
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
      `The following tool_call_ids did not have response messages: ${[...ids].join(', ')}`,
    param,
  );
}
