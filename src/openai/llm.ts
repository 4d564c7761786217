/**
 * The Llm port on OpenAI-compatible providers: one call of chat.completions, its answer as a value. It tells the story of
 * a call (write, send, adapt, read, settle the usage) and leaves each part to a file of its own. It never throws, never
 * retries, and sends a second request only in place of one that the provider refused for a parameter, unbilled.
 */
import { describeThrown } from '../core/errors.js';
import type { LlmAnswer, LlmFailure } from '../core/outcome.js';
import type { Price, Usage } from '../core/run.js';
import type { Llm, LlmRequest, Log } from '../ports.js';
import { classify, type Fault } from './classify.js';
import { contextTokensOf } from './contexts.js';
import { adapt, type Dialect, dialectOf } from './dialects.js';
import { parseJson } from './json.js';
import { priceOf } from './prices.js';
import { errorIn, isHtml, type RawAnswer, readFault } from './read-fault.js';
import { type Reading, readReply } from './read-reply.js';
import { redact } from './redact.js';
import { countTokens } from './tokens.js';
import { createFetch, type Endpoint, type Exchange, exchange, type Fetch, type ProxySettings } from './transport.js';
import { isComplete, nothingReported, type ReportedUsage, settleUsage } from './usage.js';
import { faultOfHistory, type WireRequest, writeRequest } from './write-request.js';

/** What the configuration says of one model. Prices are USD per million tokens. */
export interface ModelSettings {
  /** Another provider's address. The default key is not sent there: a model with a base URL brings its own key. */
  baseUrl?: string;
  apiKey?: string | null;
  contextTokens?: number;
  priceUsdPerMTok?: Price;
  dialect?: Partial<Dialect>;
}

export interface OpenAiSettings {
  /** Address up to `/v1`. */
  baseUrl: string;
  /** Null: no Authorization header, as local servers like it. */
  apiKey: string | null;
  models?: Readonly<Record<string, ModelSettings>>;
  /** Null or absent: no proxy. */
  proxy?: ProxySettings | null;
  fetch?: Fetch;
  log: Log;
}

/** What the process has learnt of a model by the provider's complaints. */
interface Learnt {
  dialect: Dialect;
  changed: Set<keyof Dialect>;
  warned: boolean;
}

function modelSettings({ models }: OpenAiSettings, model: string): ModelSettings {
  return models !== undefined && Object.hasOwn(models, model) ? (models[model] ?? {}) : {};
}

/** Where requests for the model go. */
export function endpointOf(settings: OpenAiSettings, model: string): Endpoint {
  const own = modelSettings(settings, model);
  if (own.baseUrl !== undefined) return { baseUrl: own.baseUrl, apiKey: own.apiKey ?? null };
  return { baseUrl: settings.baseUrl, apiKey: own.apiKey ?? settings.apiKey };
}

export function createOpenAiLlm(settings: OpenAiSettings): Llm {
  const { log } = settings;
  const fetch = settings.fetch ?? createFetch(settings.proxy ?? null);
  const learnt = new Map<string, Learnt>();
  const settingsOf = (model: string): ModelSettings => modelSettings(settings, model);

  function learntOf(model: string): Learnt {
    let known = learnt.get(model);
    if (known === undefined) {
      known = { dialect: dialectOf(model, settingsOf(model).dialect), changed: new Set(), warned: false };
      learnt.set(model, known);
    }
    return known;
  }

  const price = (model: string): Price | null => settingsOf(model).priceUsdPerMTok ?? priceOf(model);

  /** Sends the request, changed once for each parameter the provider refuses; the answer to the last one sent. */
  async function send(request: LlmRequest, endpoint: Endpoint, secrets: string[], signal: AbortSignal) {
    const known = learntOf(request.model);
    const until = performance.now() + request.timeoutMs;
    for (;;) {
      // Read at every turn: another call of this process may have learnt in the meantime.
      const sentAs = known.dialect;
      const body = writeRequest(request, sentAs);
      const timeoutMs = until - performance.now();
      const got = await exchange(endpoint, body, { path: '/chat/completions', fetch, timeoutMs, signal });
      const fault = got.got === 'answer' ? faultOf(got.answer, secrets) : null;
      if (fault === null || classify(fault).class !== 'terminal') return { body, got, fault };
      const change = adapt(sentAs, fault, body, known.changed);
      if (change === null && known.dialect === sentAs) return { body, got, fault };
      if (change === null) continue;
      known.dialect = { ...known.dialect, [change.field]: change.dialect[change.field] };
      known.changed.add(change.field);
      log.warn(
        { model: request.model, parameter: change.field },
        'the provider refused a parameter; it is sent otherwise from now on',
      );
    }
  }

  async function answer(request: LlmRequest, signal: AbortSignal): Promise<LlmAnswer> {
    const endpoint = endpointOf(settings, request.model);
    const unfit = faultOfHistory(request.messages) ?? faultOfKey(endpoint.apiKey);
    if (unfit !== null) return refused(unfit);
    const secrets = endpoint.apiKey === null ? [] : [endpoint.apiKey];
    const { body, got, fault } = await send(request, endpoint, secrets, signal);
    const settle = (reported: ReportedUsage, produced: string) =>
      settled(request.model, body, reported, produced, price(request.model));

    if (got.got === 'nothing') {
      const usage = got.mayBeBilled ? await settle(nothingReported, '') : null;
      return { ok: false, failure: { ...failureOf(got), usage } };
    }
    if (fault !== null) return { ok: false, failure: classify(fault) };
    const reading = readReply(parseJson(got.answer.text), request);
    await warnOfCut(request.model, body, reading);
    if (!reading.ok) {
      const failure = { ...reading.failure, message: redact(reading.failure.message, secrets) };
      return { ok: false, failure: { ...failure, usage: await settle(reading.usage, reading.produced) } };
    }
    const { reply } = reading;
    const produced = [reply.content, reply.reasoning, ...reply.calls.flatMap((call) => [call.name, call.arguments])];
    return { ok: true, reply: { ...reply, usage: await settle(reading.usage, produced.join(' ').trim()) } };
  }

  /** Some local servers cut a prompt that is too long and say nothing; the run then answers from half its history. */
  async function warnOfCut(model: string, body: WireRequest, { usage }: Reading): Promise<void> {
    const known = learntOf(model);
    const reported = usage.inputTokens;
    const text = promptOf(body);
    // Ordinary text has fewer than six characters a token; only a prompt that looks cut by that is counted.
    if (known.warned || reported === null || text.length < 6 * reported) return;
    const [counted = 0] = await countTokens(model, [text]);
    if (reported > counted / 2) return;
    known.warned = true;
    log.warn(
      { model, reported, counted },
      'the provider reports far fewer prompt tokens than were sent; it may cut prompts',
    );
  }

  return {
    async complete(request, signal) {
      try {
        return await answer(request, signal);
      } catch (thrown) {
        // Nothing above is known to throw, whatever a provider sends; if something does, it was in reading an answer.
        log.error({ model: request.model, error: redact(describeThrown(thrown), []) }, 'an answer could not be read');
        const message = `the answer could not be read: ${redact(describeThrown(thrown), [])}`;
        const failure = { class: 'retryable', code: 'invalid_response', reason: 'invalid_response' } as const;
        return { ok: false, failure: { ...failure, message, retryAfterMs: null, usage: null } };
      }
    },
    countTokens,
    price,
    contextTokens: (model) => settingsOf(model).contextTokens ?? contextTokensOf(model),
  };
}

/** The fault of an answer that is an error by its status or by its body; null where a reply is to be read. */
function faultOf(answer: RawAnswer, secrets: string[]): Fault | null {
  const good = answer.status >= 200 && answer.status < 300;
  if (good && !isHtml(answer) && errorIn(parseJson(answer.text)) === null) return null;
  return readFault(answer, secrets, Date.now());
}

function failureOf(got: Exclude<Exchange, { got: 'answer' }>): Omit<LlmFailure, 'usage'> {
  if (got.cause === 'unsendable') {
    const message = `the request could not be sent: ${got.message}`;
    return { class: 'terminal', code: 'invalid_request', message, reason: 'invalid_request', retryAfterMs: null };
  }
  const { cause, message } = got;
  return { class: 'retryable', code: cause, message, reason: 'attempts_exhausted', retryAfterMs: null };
}

function faultOfKey(apiKey: string | null): string | null {
  return apiKey === null || /^[\x21-\x7e]+$/.test(apiKey)
    ? null
    : 'the API key is empty or holds characters no header may carry';
}

function refused(message: string): LlmAnswer {
  const failure = { class: 'terminal', code: 'invalid_request', reason: 'invalid_request' } as const;
  return { ok: false, failure: { ...failure, message, retryAfterMs: null, usage: null } };
}

/** The texts of a prompt that cost tokens, without the words of the protocol around them. */
function promptOf(body: WireRequest): string {
  const of = (message: WireRequest['messages'][number]) =>
    [message.content, message.tool_calls === undefined ? '' : JSON.stringify(message.tool_calls)].join('');
  return [...body.messages.map(of), body.tools === undefined ? '' : JSON.stringify(body.tools)].join('\n');
}

async function settled(
  model: string,
  body: WireRequest,
  reported: ReportedUsage,
  produced: string,
  price: Price | null,
): Promise<Usage> {
  if (isComplete(reported, produced !== '')) return settleUsage(reported, null, price);
  const [input = 0, output = 0] = await countTokens(model, [promptOf(body), produced]);
  return settleUsage(reported, { input: input + 4 * body.messages.length, output }, price);
}
