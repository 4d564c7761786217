/**
 * A script: what a scripted model answers. The same script drives the HTTP server (model-server.ts) and the in-process
 * model (scripted-llm.ts). It sees a request in Pawl's own shapes and answers with text, tool calls or a fault.
 */
import type { Message } from '../core/message.js';
import type { ToolSpec } from '../ports.js';

export interface ScriptedRequest {
  model: string;
  system: string;
  /** Everything after the system message. */
  messages: readonly Message[];
  tools: readonly ToolSpec[];
  /** JSON Schema asked for by `response_format`; null: none. */
  outputSchema: Record<string, unknown> | null;
  temperature: number | null;
  maxOutputTokens: number | null;
  /** The body as it came over the wire; null in process. */
  body: Readonly<Record<string, unknown>> | null;
}

export interface ScriptContext {
  /** Counts the requests that reached the script, from 0. */
  callIndex: number;
  /** Aborts when the caller gives up. */
  signal: AbortSignal;
}

export interface ScriptedCall {
  name: string;
  /** An object, or the text itself, however broken. */
  arguments: Record<string, unknown> | string;
  /** Made up when absent. */
  id?: string;
}

export interface ScriptedAnswer {
  text?: string | null;
  calls?: readonly ScriptedCall[];
  reasoning?: string;
  refusal?: string;
  /** Absent: `stop`, or `tool_calls` beside calls. Null: none is sent. */
  finishReason?: string | null;
  /** Absent: counted from the text, four characters a token. `'missing'`: none is sent. Anything else is sent as it is. */
  usage?: unknown;
  /** Waits before it answers. */
  delayMs?: number;
}

/** What goes wrong. `delayMs` may stand beside each. */
export type ScriptedFault =
  /** An HTTP error with a body shaped like OpenAI's, or with the given one. */
  | {
      fault: 'status';
      status: number;
      message?: string;
      code?: string | null;
      type?: string | null;
      param?: string | null;
      /** Seconds, or an HTTP date. */
      retryAfter?: number | string;
      body?: unknown;
    }
  /** No answer until the caller gives up. */
  | { fault: 'hang' }
  /** Headers and half a body, then nothing more. */
  | { fault: 'hang_in_body' }
  /** The connection is cut. */
  | { fault: 'reset' }
  | { fault: 'html'; status?: number; title?: string }
  | { fault: 'malformed_json' }
  | { fault: 'empty_choices' }
  /** Neither text nor calls. */
  | { fault: 'empty_reply' }
  /** An error inside a 200. */
  | { fault: 'error_in_200'; code?: string | number; message?: string }
  /** Cut off at the maximum of tokens; a call's arguments end in the middle. */
  | { fault: 'truncated'; text?: string; calls?: readonly ScriptedCall[]; finishReason?: string }
  /** Any JSON at all as the body of a 200. */
  | { fault: 'raw'; body: unknown };

export type ScriptedReply = string | ScriptedAnswer | (ScriptedFault & { delayMs?: number });

export type Script = (request: ScriptedRequest, context: ScriptContext) => ScriptedReply | Promise<ScriptedReply>;

/** A script that answers with each reply in turn, and with the last one from then on. */
export function inTurn(first: ScriptedReply, ...rest: ScriptedReply[]): Script {
  const replies = [first, ...rest];
  return (_, { callIndex }) => replies[Math.min(callIndex, replies.length - 1)] ?? first;
}

/** A reply in its long form: a string is an answer of that text. */
export function toReply(reply: ScriptedReply): Exclude<ScriptedReply, string> {
  return typeof reply === 'string' ? { text: reply } : reply;
}
