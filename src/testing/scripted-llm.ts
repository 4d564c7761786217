/**
 * The scripted model in process: the Llm port driven by a script, without HTTP, for tests of everything above the port.
 * It passes the same contract suite as the real adapter. Tokens are four characters each; time is the given clock's.
 */
import type { LlmAnswer, LlmFailure, LlmReply } from '../core/outcome.js';
import { costOf, type Price, type Usage } from '../core/run.js';
import type { Llm, LlmRequest } from '../ports.js';
import { type Script, type ScriptedAnswer, type ScriptedFault, toReply } from './script.js';
import { argumentsText, asJson, countRoughly } from './wire.js';

export interface ScriptedLlm extends Llm {
  /** Every request, in order. */
  requests: LlmRequest[];
}

export interface ScriptedLlmOptions {
  /** Tokens any model's context holds; absent: 128,000. */
  contextTokens?: number;
  /** Of any model; absent: not known. */
  price?: Price;
  /** Waits `ms` or until aborted, then resolves; absent: a real timer. Bounds a call that hangs, and delays one that is slow. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export function scriptedLlm(script: Script, options: ScriptedLlmOptions = {}): ScriptedLlm {
  const { contextTokens = 128_000, price = null, sleep = sleepFor } = options;
  const requests: LlmRequest[] = [];

  async function answer(request: LlmRequest, signal: AbortSignal, callIndex: number): Promise<LlmAnswer> {
    const reply = toReply(await script({ ...request, body: null }, { callIndex, signal }));
    if (reply.delayMs !== undefined) await sleep(reply.delayMs, signal);
    if (!('fault' in reply)) return readAnswer(request, reply);
    if (reply.fault === 'hang' || reply.fault === 'hang_in_body') await untilAborted(signal);
    return { ok: false, failure: failureOf(request, reply) };
  }

  return {
    requests,
    async complete(request, signal) {
      if (signal.aborted)
        return { ok: false, failure: retryable('aborted', 'the call was aborted before it was sent') };
      const callIndex = requests.push(request) - 1;
      const stop = new AbortController();
      const abort = () => stop.abort();
      signal.addEventListener('abort', abort, { once: true });
      const late = sleep(request.timeoutMs, stop.signal).then((): LlmAnswer => {
        const failure = signal.aborted
          ? retryable('aborted', 'the call was aborted')
          : retryable('timeout', `no answer within ${request.timeoutMs} ms`);
        return { ok: false, failure: { ...failure, usage: usageOf(request, '', true) } };
      });
      const answered = answer(request, stop.signal, callIndex).catch((thrown: unknown): LlmAnswer => {
        return { ok: false, failure: retryable('server_error', `the script threw: ${String(thrown)}`) };
      });
      try {
        return priced(await Promise.race([answered, late]), price);
      } finally {
        signal.removeEventListener('abort', abort);
        stop.abort();
      }
    },
    countTokens: async (_, texts) => texts.map(countRoughly),
    price: () => price,
    contextTokens: () => contextTokens,
  };
}

function priced(answer: LlmAnswer, price: Price | null): LlmAnswer {
  if (answer.ok) return { ok: true, reply: { ...answer.reply, usage: withCost(answer.reply.usage, price) } };
  const { usage } = answer.failure;
  return usage === null ? answer : { ok: false, failure: { ...answer.failure, usage: withCost(usage, price) } };
}

function withCost(usage: Usage, price: Price | null): Usage {
  return { ...usage, costUsd: costOf(usage, price) };
}

function readAnswer(request: LlmRequest, answer: ScriptedAnswer): LlmAnswer {
  const calls = (answer.calls ?? []).map((call) => ({ name: call.name, arguments: argumentsText(call) }));
  const content = answer.text === undefined || answer.text === '' ? null : answer.text;
  const usage = reportedBy(answer) ?? usageOf(request, JSON.stringify([content, calls]), answer.usage !== undefined);
  const failed = (failure: LlmFailure): LlmAnswer => ({ ok: false, failure: { ...failure, usage } });
  if (answer.refusal !== undefined) return failed(terminal('refused', `the model refused: ${answer.refusal}`));
  if (answer.finishReason === null) return failed(invalid('the answer does not say why it finished'));
  if (answer.finishReason === 'length') return failed(invalid('the answer was cut off', 'truncated'));
  if (answer.finishReason === 'content_filter') return failed(terminal('content_filter', 'the answer was withheld'));
  if (content === null && calls.length === 0) return failed(invalid('the answer is empty'));
  const { reasoning } = answer;
  const reply: LlmReply = {
    content,
    calls,
    usage,
    model: request.model,
    ...(reasoning !== undefined && { reasoning }),
  };
  return { ok: true, reply };
}

/** The failure each fault is to the real adapter. A bare status stands for the commonest trouble of that status. */
function failureOf(request: LlmRequest, fault: ScriptedFault): LlmFailure {
  const usage = usageOf(request, '', true);
  switch (fault.fault) {
    case 'status':
      return ofStatus(fault.status, fault.code ?? null, fault.message ?? `scripted ${fault.status}`, fault.retryAfter);
    case 'html':
      return ofStatus(fault.status ?? 502, null, fault.title ?? '502 Bad Gateway', undefined);
    case 'error_in_200':
      return ofStatus(Number(fault.code) || 500, String(fault.code), fault.message ?? 'scripted error', undefined);
    case 'reset':
      return { ...retryable('connection', 'the connection was lost'), usage };
    case 'hang':
    case 'hang_in_body':
      return { ...retryable('aborted', 'the call was aborted'), usage };
    case 'truncated':
      return { ...invalid('the answer was cut off', 'truncated'), usage };
    case 'malformed_json':
    case 'empty_choices':
    case 'empty_reply':
    case 'raw':
      return { ...invalid(`scripted ${fault.fault}`), usage };
  }
}

function ofStatus(status: number, code: string | null, message: string, retryAfter: number | string | undefined) {
  if (code === 'insufficient_quota' || status === 402) return terminal('quota_exhausted', message);
  if (code === 'context_length_exceeded') return { ...invalid(message, 'context_overflow'), ...overflow };
  if (code === 'content_filter') return terminal('content_filter', message);
  if (code === 'model_not_found') return { ...terminal('invalid_request', message), code };
  const retryAfterMs = typeof retryAfter === 'number' ? retryAfter * 1_000 : null;
  if (status === 429) return { ...retryable('rate_limited', message), retryAfterMs };
  if (status === 503 || status === 529) return { ...retryable('overloaded', message), retryAfterMs };
  if (status >= 500) return { ...retryable('server_error', message), retryAfterMs };
  return { ...terminal('invalid_request', message), code: status === 401 ? 'invalid_api_key' : 'invalid_request' };
}

const overflow = { class: 'overflow', reason: 'context_overflow' } as const;

function retryable(code: string, message: string): LlmFailure {
  return { class: 'retryable', code, message, reason: 'attempts_exhausted', retryAfterMs: null, usage: null };
}

function invalid(message: string, code = 'invalid_response'): LlmFailure {
  return { ...retryable(code, message), reason: 'invalid_response' };
}

function terminal(
  reason: 'refused' | 'content_filter' | 'quota_exhausted' | 'invalid_request',
  message: string,
): LlmFailure {
  return { ...retryable(reason, message), class: 'terminal', reason };
}

/** Usage the script itself reports, in the API's spelling; null when it reports none that can be used. */
function reportedBy(answer: ScriptedAnswer): Usage | null {
  const { prompt_tokens: input, completion_tokens: output } = asJson(answer.usage);
  if (typeof input !== 'number' || typeof output !== 'number' || input <= 0 || output <= 0) return null;
  return { inputTokens: input, cachedInputTokens: 0, outputTokens: output, costUsd: null, estimated: false };
}

function usageOf(request: LlmRequest, produced: string, estimated: boolean): Usage {
  const inputTokens = countRoughly(JSON.stringify([request.system, request.messages, request.tools]));
  return { inputTokens, cachedInputTokens: 0, outputTokens: countRoughly(produced), costUsd: null, estimated };
}

function sleepFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return sleepFor(2 ** 31 - 1, signal);
}
