/**
 * Writes a request in a provider's words. Every request is valid by construction: one system message, first; each tool
 * call with its result; well-formed text; no empty lists and no nulls. History that could not be made so is refused here,
 * before it is sent and paid for.
 */
import type { Message, ToolCall } from '../core/message.js';
import type { LlmRequest, ToolSpec } from '../ports.js';
import type { Dialect } from './dialects.js';
import { asObject, type JsonObject, parseJson, wellFormed } from './json.js';
import { isStrict } from './strict-schema.js';

export type WireMessage = JsonObject & { role: string };

/** The body of POST /chat/completions. */
export interface WireRequest extends JsonObject {
  model: string;
  messages: WireMessage[];
}

export function writeRequest(request: LlmRequest, dialect: Dialect): WireRequest {
  const inWords = request.outputSchema !== null && dialect.outputSchema === 'words';
  const system = inWords ? `${request.system}\n\n${schemaInWords(request.outputSchema)}` : request.system;
  return {
    model: request.model,
    messages: [
      { role: 'system', content: wellFormed(system) },
      ...request.messages.map((message) => writeMessage(message, dialect)),
    ],
    ...(request.tools.length > 0 && { tools: request.tools.map(writeTool) }),
    ...(request.outputSchema !== null && !inWords && { response_format: writeFormat(request.outputSchema) }),
    ...(request.temperature !== null && dialect.temperature && { temperature: request.temperature }),
    ...(request.maxOutputTokens !== null && { [dialect.maxTokensField]: request.maxOutputTokens }),
  };
}

function writeMessage(message: Message, dialect: Dialect): WireMessage {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: wellFormed(message.content) };
    case 'tool':
      return { role: 'tool', tool_call_id: message.callId, content: wellFormed(message.content) };
    case 'assistant': {
      const calls = message.toolCalls.map(writeCall);
      const content = message.content === null || message.content === '' ? null : wellFormed(message.content);
      return {
        role: 'assistant',
        content: calls.length > 0 ? content : (content ?? ''),
        ...(calls.length > 0 && { tool_calls: calls }),
        // Models that want it back want it on every assistant message, an empty one where there was none.
        ...(dialect.echoReasoning && { reasoning_content: wellFormed(message.reasoning ?? '') }),
      };
    }
  }
}

function writeCall(call: ToolCall): JsonObject {
  return { id: call.id, type: 'function', function: { name: call.name, arguments: wellFormed(call.arguments) } };
}

function writeTool(tool: ToolSpec): JsonObject {
  return {
    type: 'function',
    function: {
      name: tool.name,
      ...(tool.description !== '' && { description: wellFormed(tool.description) }),
      parameters: withoutDialectMark(tool.parameters),
    },
  };
}

function writeFormat(schema: JsonObject): JsonObject {
  const strict = isStrict(schema);
  return { type: 'json_schema', json_schema: { name: 'answer', strict, schema: withoutDialectMark(schema) } };
}

/** Without the root's `$schema`, which some providers refuse as an unknown field. */
function withoutDialectMark(schema: JsonObject): JsonObject {
  const { $schema: _, ...rest } = schema;
  return rest;
}

function schemaInWords(schema: JsonObject | null): string {
  return `The final answer is one JSON value and nothing else, without a code fence. It satisfies this JSON Schema:\n${JSON.stringify(
    withoutDialectMark(schema ?? {}),
  )}`;
}

/** What makes the history unfit to be sent, in words for an operator; null when nothing does. */
export function faultOfHistory(messages: readonly Message[]): string | null {
  if (messages.length === 0) return 'the request holds no message';
  let awaited: string[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!awaited.includes(message.callId))
        return `message ${at} answers call ${message.callId}, which nothing asked for`;
      awaited = awaited.filter((id) => id !== message.callId);
      continue;
    }
    if (awaited.length > 0) return `message ${at} comes before the result of call ${awaited[0]}`;
    if (message.role !== 'assistant') continue;
    awaited = message.toolCalls.map((call) => call.id);
    if (new Set(awaited).size < awaited.length) return `message ${at} uses a call id twice`;
    const bad = message.toolCalls.find((call) => asObject(parseJson(call.arguments)) === null);
    if (bad !== undefined) return `the arguments of call ${bad.id} are not the JSON text of an object`;
  }
  return awaited.length > 0 ? `call ${awaited[0]} has no result` : null;
}
