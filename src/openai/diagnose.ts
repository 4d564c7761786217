/**
 * `pawl doctor --llm`: two tiny calls to a model, and what they tell: whether the address, the key and the model are right,
 * and whether tools, JSON output and usage come back. A fault is named with what to set instead.
 */
import { bad, type Check, missingModel, note, ok } from '../core/checkup.js';
import { describeThrown } from '../core/errors.js';
import type { LlmAnswer, LlmFailure } from '../core/outcome.js';
import type { LlmRequest } from '../ports.js';
import { createOpenAiEmbedder } from './embed.js';
import { asObject, asText, parseJson } from './json.js';
import { createOpenAiLlm, endpointOf, type OpenAiSettings } from './llm.js';
import { redact } from './redact.js';
import { createFetch, type Endpoint } from './transport.js';

const timeoutMs = 30_000;
const tool = {
  name: 'ping',
  description: 'Checks the line',
  parameters: {
    type: 'object',
    properties: { word: { type: 'string' } },
    required: ['word'],
    additionalProperties: false,
  },
};
const outputSchema = {
  type: 'object',
  properties: { word: { type: 'string' } },
  required: ['word'],
  additionalProperties: false,
};

export async function diagnose(settings: OpenAiSettings, model: string): Promise<Check[]> {
  const name = `llm ${model}`;
  const endpoint = endpointOf(settings, model);
  const withoutPath = endpoint.baseUrl.replace(/\/chat\/completions\/?$/, '');
  if (withoutPath !== endpoint.baseUrl) {
    return [bad(name, `the base URL ${shown(endpoint)} ends with /chat/completions`, `set it to ${withoutPath}`)];
  }
  const begun = performance.now();
  const asked = await call(settings, model, { tools: [tool], words: 'Call the tool ping with the word "pong".' });
  const tookMs = Math.round(performance.now() - begun);
  if (asked.ok) {
    const answered = ok(name, `${asked.reply.model} at ${shown(endpoint)} answered in ${tookMs} ms`);
    const toolsCheck = asked.reply.calls.some((made) => made.name === tool.name)
      ? ok(`${name}: tools`, 'a tool call came back')
      : note(
          `${name}: tools`,
          'no tool call came back',
          'use a model that can call functions if your agents have tools',
        );
    return [answered, toolsCheck, await checkJson(settings, model, name), checkUsage(asked, name)];
  }
  if (asked.failure.code === 'invalid_request') {
    const plain = await call(settings, model, { words: 'Say pong.' });
    if (plain.ok) {
      return [
        ok(name, `${plain.reply.model} at ${shown(endpoint)} answered`),
        bad(`${name}: tools`, `refused: ${asked.failure.message}`, 'use a model that can call functions'),
        await checkJson(settings, model, name),
        checkUsage(plain, name),
      ];
    }
  }
  return [await explain(settings, model, name, asked.failure)];
}

/** One call to the embedding model of the config. Without it facts are found by words alone: nothing fails by it. */
export async function diagnoseEmbeddings(settings: OpenAiSettings, model: string): Promise<Check> {
  const name = `embeddings ${model}`;
  try {
    const { vectors } = await createOpenAiEmbedder(settings, model).embed(['pong'], AbortSignal.timeout(timeoutMs));
    return ok(name, `${vectors[0]?.length} numbers a text, from ${shown(endpointOf(settings, model))}`);
  } catch (error) {
    const fix = 'name a model that the address takes for /embeddings, or leave embeddingModel out';
    return bad(name, describeThrown(error), fix);
  }
}

async function checkJson(settings: OpenAiSettings, model: string, name: string): Promise<Check> {
  const answer = await call(settings, model, { outputSchema, words: 'Answer with the word pong, as JSON.' });
  const fix = 'give no output schema to agents of this model, or use another model for them';
  if (!answer.ok) return bad(`${name}: JSON output`, `refused: ${answer.failure.message}`, fix);
  const parsed = asObject(parseJson(answer.reply.content ?? ''));
  if (typeof parsed?.word === 'string') return ok(`${name}: JSON output`, 'it keeps to a schema');
  return note(`${name}: JSON output`, 'the answer did not keep to the schema', fix);
}

function checkUsage(answer: Extract<LlmAnswer, { ok: true }>, name: string): Check {
  const { inputTokens, outputTokens, estimated } = answer.reply.usage;
  if (!estimated) return ok(`${name}: usage`, `${inputTokens} tokens in, ${outputTokens} out`);
  return note(
    `${name}: usage`,
    'the provider reports none',
    'costs and limits of its runs are estimates; nothing need be done',
  );
}

async function explain(settings: OpenAiSettings, model: string, name: string, failure: LlmFailure): Promise<Check> {
  const endpoint = endpointOf(settings, model);
  const { code, message } = failure;
  switch (code) {
    case 'not_found':
    case 'invalid_response':
      return explainAddress(settings, model, name, failure);
    case 'invalid_api_key':
      return endpoint.apiKey === null
        ? bad(name, `${shown(endpoint)} wants a key`, 'set OPENAI_API_KEY, or apiKeyEnv of the model')
        : bad(name, `${shown(endpoint)} refuses the key: ${message}`, 'set OPENAI_API_KEY to a key of this provider');
    case 'model_not_found':
      // A 404 that does not name the model may as well be about the address.
      if (!message.includes(model)) return explainAddress(settings, model, name, failure);
      return missingModel(name, model, await listModels(settings, endpoint));
    case 'connection':
    case 'timeout': {
      const proxy = settings.proxy ? ', and that the proxy of HTTPS_PROXY lets it through' : '';
      return bad(
        name,
        `${shown(endpoint)} cannot be reached: ${message}`,
        `check OPENAI_BASE_URL and the network${proxy}`,
      );
    }
    case 'quota_exhausted':
      return bad(name, message, 'look at the balance and the limits of the account');
    default:
      return bad(name, `${code}: ${message}`, 'read what the provider says, and try again');
  }
}

/** Nothing is served at the address: is it without its /v1? */
async function explainAddress(
  settings: OpenAiSettings,
  model: string,
  name: string,
  failure: LlmFailure,
): Promise<Check> {
  const { baseUrl, apiKey } = endpointOf(settings, model);
  const withVersion = `${baseUrl.replace(/\/+$/, '')}/v1`;
  if (!/\/v\d+\w*\/?$/.test(baseUrl)) {
    const there = await call({ ...settings, baseUrl: withVersion, apiKey, models: {} }, model, { words: 'Say pong.' });
    if (there.ok || !isNotServed(there.failure, model)) {
      return bad(name, `the base URL ${baseUrl} lacks its /v1`, `set it to ${withVersion}, which answers`);
    }
  }
  return bad(
    name,
    `${baseUrl} serves no chat completions: ${failure.message}`,
    'set OPENAI_BASE_URL to the address up to /v1',
  );
}

function isNotServed({ code, message }: LlmFailure, model: string): boolean {
  if (code === 'model_not_found') return !message.includes(model);
  return code === 'not_found' || code === 'invalid_response' || code === 'connection';
}

async function call(
  settings: OpenAiSettings,
  model: string,
  { words, ...asked }: { words: string } & Partial<Pick<LlmRequest, 'tools' | 'outputSchema'>>,
): Promise<LlmAnswer> {
  const request: LlmRequest = {
    model,
    system: 'You check that a connection works.',
    messages: [{ role: 'user', content: words }],
    tools: [],
    outputSchema: null,
    temperature: null,
    maxOutputTokens: 500,
    timeoutMs,
    ...asked,
  };
  return createOpenAiLlm(settings).complete(request, new AbortController().signal);
}

/** Names of the provider's models; none where it does not tell. */
async function listModels(settings: OpenAiSettings, { baseUrl, apiKey }: Endpoint): Promise<string[]> {
  const fetch = settings.fetch ?? createFetch(settings.proxy ?? null);
  const headers = new Headers(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` });
  const signal = AbortSignal.timeout(5_000);
  try {
    const answer = await fetch(`${baseUrl.replace(/\/+$/, '')}/models`, { headers, signal, redirect: 'manual' });
    const data = asObject(parseJson(await answer.text()))?.data;
    if (!Array.isArray(data)) return [];
    return data.flatMap((each) => asText(asObject(each)?.id) ?? []);
  } catch (error) {
    settings.log.debug({ cause: redact(describeThrown(error), []) }, 'the provider lists no models');
    return [];
  }
}

function shown({ baseUrl }: Endpoint): string {
  return redact(baseUrl, []);
}
