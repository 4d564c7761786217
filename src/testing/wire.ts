/**
 * Between the JSON of the chat completions API and the shapes of a script. Reads a request that strictness.ts found sound,
 * and writes a reply as the API would. Deterministic: ids and counts follow from the call's number and its text.
 */
import type { Message } from '../core/message.js';
import type { ToolSpec } from '../ports.js';
import type { ScriptedAnswer, ScriptedCall, ScriptedRequest } from './script.js';

type Json = Record<string, unknown>;

export function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Text of a message's content: a string, or text parts. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return asList(content)
    .map((part) => String(asJson(part).text ?? ''))
    .join('');
}

export function readRequest(body: Json): ScriptedRequest {
  const [system, ...rest] = asList(body.messages).map(asJson);
  const names = new Map<string, string>();
  const format = asJson(asJson(body.response_format).json_schema).schema;
  const max = body.max_completion_tokens ?? body.max_tokens;
  return {
    model: String(body.model),
    system: textOf(system?.content),
    messages: rest.map((message) => readMessage(message, names)),
    tools: asList(body.tools).map(readTool),
    outputSchema: format === undefined ? null : asJson(format),
    temperature: typeof body.temperature === 'number' ? body.temperature : null,
    maxOutputTokens: typeof max === 'number' ? max : null,
    body,
  };
}

/** `names`: tool names by call id, filled by the calls and read by the results, which do not bring a name. */
function readMessage(message: Json, names: Map<string, string>): Message {
  if (message.role === 'tool') {
    const callId = String(message.tool_call_id);
    return { role: 'tool', callId, name: names.get(callId) ?? '', content: textOf(message.content) };
  }
  if (message.role !== 'assistant') return { role: 'user', content: textOf(message.content) };
  const toolCalls = asList(message.tool_calls).map((call) => {
    const { name, arguments: text } = asJson(asJson(call).function);
    const id = String(asJson(call).id);
    names.set(id, String(name));
    return { id, name: String(name), arguments: String(text) };
  });
  const content = message.content === null || message.content === undefined ? null : textOf(message.content);
  const { reasoning_content: reasoning } = message;
  return { role: 'assistant', content, toolCalls, ...(typeof reasoning === 'string' && { reasoning }) };
}

function readTool(tool: unknown): ToolSpec {
  const { name, description, parameters } = asJson(asJson(tool).function);
  return { name: String(name), description: String(description ?? ''), parameters: asJson(parameters) };
}

export function argumentsText(call: ScriptedCall): string {
  return typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments);
}

/** Tokens as the scripted model counts them: four characters each. */
export function countRoughly(text: string): number {
  return Math.ceil(text.length / 4);
}

/** The body of a 200. `callIndex` makes the ids; the clock makes nothing. */
export function writeCompletion(request: ScriptedRequest, answer: ScriptedAnswer, callIndex: number): Json {
  const calls = (answer.calls ?? []).map((call, at) => ({
    id: call.id ?? `call_${callIndex}_${at}`,
    type: 'function',
    function: { name: call.name, arguments: argumentsText(call) },
  }));
  const finish = answer.finishReason === undefined ? (calls.length > 0 ? 'tool_calls' : 'stop') : answer.finishReason;
  const message = {
    role: 'assistant',
    content: answer.text ?? null,
    refusal: answer.refusal ?? null,
    ...(answer.reasoning !== undefined && { reasoning_content: answer.reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const prompt = countRoughly(JSON.stringify([request.system, request.messages, request.tools]));
  const completion = countRoughly(JSON.stringify(message));
  const counted = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
  return {
    id: `chatcmpl-scripted-${callIndex}`,
    object: 'chat.completion',
    created: 0,
    model: request.model,
    choices: [{ index: 0, message, ...(finish !== null && { finish_reason: finish }) }],
    ...(answer.usage !== 'missing' && { usage: answer.usage === undefined ? counted : answer.usage }),
  };
}

/** In the shape of the API, the last text first: whoever reads them goes by their index. */
export function writeEmbeddings(model: string, texts: readonly string[], vectors: readonly (readonly number[])[]) {
  const data = vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })).reverse();
  const tokens = texts.reduce((sum, text) => sum + countRoughly(text), 0);
  return { object: 'list', model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}
