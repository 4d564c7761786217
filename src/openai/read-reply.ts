/**
 * Reads the JSON of a 200 answer into a reply or a failure. Servers that call themselves compatible send anything: no
 * choices, an error, a finish reason that contradicts the content. Whatever is not plainly a whole reply is a typed
 * failure, never a TypeError and never a success; a reply that was cut off yields no call.
 */
import type { LlmFailure, LlmReply } from '../core/outcome.js';
import { asObject, asText, type JsonObject } from './json.js';
import { nothingReported, type ReportedUsage, readUsage } from './usage.js';

export type Reading = { usage: ReportedUsage } & (
  | { ok: true; reply: Omit<LlmReply, 'usage'> }
  /** `produced`: the text the model was paid for all the same, for an estimate of its tokens. */
  | { ok: false; failure: Omit<LlmFailure, 'usage'>; produced: string }
);

const finished = new Set([
  'stop',
  'tool_calls',
  'function_call',
  'eos',
  'eos_token',
  'end_turn',
  'stop_sequence',
  'tool_use',
]);
const cutOff = new Set(['length', 'max_tokens', 'max_output_tokens', 'model_length', 'model_context_window_exceeded']);
const filtered = new Set(['content_filter', 'safety', 'sensitive', 'prohibited_content', 'recitation', 'refusal']);
/** The finish reasons of a provider that ran out of something on its side. */
const brokenOff = new Set(['insufficient_system_resource', 'error', 'network_error', 'abort', 'aborted', 'cancelled']);

/**
 * `body`: the parsed answer, of any shape. `asked`: the model and the maximum of output tokens that the request named.
 * A body that holds an error is not for this function (see `errorIn`).
 */
export function readReply(body: unknown, asked: { model: string; maxOutputTokens: number | null }): Reading {
  const root = asObject(body);
  const choice = Array.isArray(root?.choices) ? asObject(root.choices[0]) : null;
  const message = asObject(choice?.message);
  const usage = root === null ? nothingReported : readUsage(root.usage);
  if (root === null || choice === null || message === null) {
    return invalid(usage, '', root === null ? 'the answer is not a JSON object' : 'the answer holds no message');
  }
  const content = readContent(message.content);
  const reasoning = asText(message.reasoning_content) ?? asText(message.reasoning);
  const calls = readCalls(message);
  const produced = [content, reasoning, message.tool_calls ? JSON.stringify(message.tool_calls) : null].join('');
  const finish = typeof choice.finish_reason === 'string' ? choice.finish_reason.toLowerCase() : null;

  const refusal = asText(message.refusal);
  if (refusal !== null) return failed(usage, produced, 'terminal', 'refused', `the model refused: ${refusal}`);
  if (finish === null) return invalid(usage, produced, 'the answer does not say why it finished');
  if (filtered.has(finish)) {
    return failed(usage, produced, 'terminal', 'content_filter', `the provider withheld the answer (${finish})`);
  }
  if (brokenOff.has(finish)) {
    return failed(usage, produced, 'retryable', 'server_error', `the provider broke off (${finish})`);
  }
  const atMaximum = reachesMaximum(usage, asked.maxOutputTokens);
  if (cutOff.has(finish) || (calls !== null && calls.length > 0 ? atMaximum !== 'below' : atMaximum === 'at')) {
    return failed(usage, produced, 'retryable', 'truncated', 'the answer was cut off at its maximum of tokens');
  }
  if (!finished.has(finish)) return invalid(usage, produced, `the answer finished for an unknown reason: ${finish}`);
  if (calls === null) return invalid(usage, produced, 'a tool call of the answer has no name or is no call');
  if (calls.length === 0 && finish !== 'stop' && /^(?:tool|function)_/.test(finish)) {
    return invalid(usage, produced, `the answer finished for ${finish} and holds no call`);
  }
  if (calls.length === 0 && (content === null || content.trim() === '')) {
    return invalid(usage, produced, 'the answer is empty');
  }
  const model = asText(root.model) ?? asked.model;
  return { ok: true, usage, reply: { content, calls, model, ...(reasoning !== null && { reasoning }) } };
}

/** A count above the maximum shows a server that does not heed it; calls are refused then too, plain text is not. */
function reachesMaximum(usage: ReportedUsage, maximum: number | null): 'below' | 'at' | 'above' {
  if (maximum === null || usage.outputTokens === null || usage.outputTokens < maximum) return 'below';
  return usage.outputTokens === maximum ? 'at' : 'above';
}

/** Text, or the text parts of a list of parts. */
function readContent(content: unknown): string | null {
  if (!Array.isArray(content)) return asText(content);
  return asText(content.map((part) => asText(asObject(part)?.text) ?? '').join(''));
}

/** The calls in order; null when any of them is not readable as one, for a part of a turn must not run. */
function readCalls(message: JsonObject): LlmReply['calls'] | null {
  const listed = message.tool_calls ?? [];
  if (!Array.isArray(listed)) return null;
  const legacy = listed.length === 0 ? asObject(message.function_call) : null;
  const functions = legacy === null ? listed.map((call) => asObject(asObject(call)?.function)) : [legacy];
  const calls: LlmReply['calls'] = [];
  for (const called of functions) {
    const name = asText(called?.name);
    if (called === null || name === null) return null;
    calls.push({ name, arguments: readArguments(called.arguments) });
  }
  return calls;
}

/** Some servers send the object itself where its JSON text belongs. */
function readArguments(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

function invalid(usage: ReportedUsage, produced: string, message: string): Reading {
  return failed(usage, produced, 'retryable', 'invalid_response', message);
}

function failed(
  usage: ReportedUsage,
  produced: string,
  kind: LlmFailure['class'],
  code: 'invalid_response' | 'truncated' | 'server_error' | 'refused' | 'content_filter',
  message: string,
): Reading {
  const reason = code === 'server_error' ? 'attempts_exhausted' : code === 'truncated' ? 'invalid_response' : code;
  return { ok: false, usage, produced, failure: { class: kind, code, message, reason, retryAfterMs: null } };
}
