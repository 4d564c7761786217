/**
 * How the scripted model fails over HTTP: each fault of a script as the bytes, or the silence, that a client would meet.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { ScriptedCall, ScriptedFault, ScriptedRequest } from './script.js';
import { argumentsText, writeCompletion } from './wire.js';

export interface ErrorBody {
  message: string;
  type?: string | null;
  code?: string | null;
  param?: string | null;
}

interface Exchange {
  request: ScriptedRequest;
  response: ServerResponse;
  callIndex: number;
  /** Aborts when the caller gives up or the server closes. */
  signal: AbortSignal;
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** An error in OpenAI's shape. */
export function sendError(
  response: ServerResponse,
  status: number,
  error: ErrorBody,
  headers: Record<string, string> = {},
): void {
  sendJson(response, status, { error: { type: null, code: null, param: null, ...error } }, headers);
}

export async function answerFault(
  fault: ScriptedFault,
  { request, response, callIndex, signal }: Exchange,
): Promise<void> {
  const completion = (answer: Parameters<typeof writeCompletion>[1]) => writeCompletion(request, answer, callIndex);
  switch (fault.fault) {
    case 'status': {
      const { message = `scripted ${fault.status}`, type = null, code = null, param = null, retryAfter } = fault;
      const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) };
      if (fault.body !== undefined) return sendJson(response, fault.status, fault.body, headers);
      return sendError(response, fault.status, { message, type, code, param }, headers);
    }
    case 'hang':
      return until(signal);
    case 'hang_in_body':
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"id":"chatcmpl-scripted","choices":[{"message":{"content":"half of');
      return until(signal);
    case 'reset':
      // Without a RST the client would see an orderly end; both are a connection lost.
      response.socket?.resetAndDestroy();
      return;
    case 'html': {
      const { status = 502, title = '502 Bad Gateway' } = fault;
      response.writeHead(status, { 'content-type': 'text/html; charset=utf-8' });
      response.end(`<!doctype html><html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>`);
      return;
    }
    case 'malformed_json':
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"id":"chatcmpl-scripted","choices":[{"message":{"content":"half of');
      return;
    case 'empty_choices':
      return sendJson(response, 200, { ...completion({}), choices: [] });
    case 'empty_reply':
      return sendJson(response, 200, completion({ text: '' }));
    case 'error_in_200': {
      const { code = 'server_error', message = 'scripted error' } = fault;
      return sendJson(response, 200, { error: { message, code } });
    }
    case 'truncated': {
      const calls = fault.calls?.map(cutShort);
      const answer = {
        text: fault.text ?? (calls === undefined ? 'half of' : null),
        finishReason: fault.finishReason ?? 'length',
      };
      return sendJson(response, 200, completion(calls === undefined ? answer : { ...answer, calls }));
    }
    case 'raw':
      return sendJson(response, 200, fault.body);
  }
}

function cutShort(call: ScriptedCall): ScriptedCall {
  return { ...call, arguments: argumentsText(call).slice(0, -1) };
}

async function until(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
