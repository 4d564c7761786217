/**
 * The contract of the Llm port, kept by the real adapter against the scripted model over loopback and by the in-process
 * script alike; then what only the real adapter has to bear: sockets, adaptations, secrets and a proxy.
 */
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.js';
import type { LlmFailure } from '../../src/core/outcome.js';
import { createOpenAiEmbedder } from '../../src/openai/embed.js';
import { createOpenAiLlm, type OpenAiSettings } from '../../src/openai/llm.js';
import type { Llm, LlmRequest, Log } from '../../src/ports.js';
import {
  inTurn,
  type Script,
  type ScriptedModel,
  type ScriptedModelOptions,
  type ScriptedReply,
  scriptedLlm,
  startScriptedModel,
} from '../../src/testing/index.js';

const apiKey = 'sk-test-abcdef0123456789';
const logged: string[] = [];
const log: Log = {
  debug: (fields, message) => void logged.push(JSON.stringify([fields, message])),
  info: (fields, message) => void logged.push(JSON.stringify([fields, message])),
  warn: (fields, message) => void logged.push(JSON.stringify([fields, message])),
  error: (fields, message) => void logged.push(JSON.stringify([fields, message])),
  child: () => log,
};

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  logged.length = 0;
  for (const close of closers.splice(0)) await close();
});

function request(over: Partial<LlmRequest> = {}): LlmRequest {
  return {
    model: 'gpt-4o-mini',
    system: 'You add numbers.',
    messages: [{ role: 'user', content: 'Add 1 and 2.' }],
    tools: [{ name: 'add', description: 'Adds', parameters: { type: 'object', properties: {} } }],
    outputSchema: null,
    temperature: 0.2,
    maxOutputTokens: 500,
    timeoutMs: 10_000,
    ...over,
  };
}

async function startModel(script: Script, options: Omit<ScriptedModelOptions, 'script'> = {}): Promise<ScriptedModel> {
  const model = await startScriptedModel({ apiKey, script, ...options });
  closers.push(() => model.close());
  return model;
}

async function startAdapter(script: Script, settings: Partial<OpenAiSettings> = {}) {
  const model = await startModel(script);
  return { model, llm: createOpenAiLlm({ baseUrl: model.url, apiKey, log, ...settings }) };
}

const never = () => new AbortController().signal;

async function failureOf(llm: Llm, over: Partial<LlmRequest> = {}): Promise<LlmFailure> {
  const answer = await llm.complete(request(over), never());
  if (answer.ok) throw new Error('the call succeeded');
  return answer.failure;
}

const subjects: [string, (script: Script) => Promise<Llm>][] = [
  ['the adapter over HTTP', async (script) => (await startAdapter(script)).llm],
  ['the script in process', async (script) => scriptedLlm(script)],
];

describe.each(subjects)('The Llm port, by %s', (_, create) => {
  it('answers with text, usage and the model', async () => {
    const llm = await create(inTurn('3'));
    const answer = await llm.complete(request(), never());
    expect(answer).toMatchObject({ ok: true, reply: { content: '3', calls: [], model: 'gpt-4o-mini' } });
    if (!answer.ok) return;
    expect(answer.reply.usage.inputTokens).toBeGreaterThan(0);
    expect(answer.reply.usage.outputTokens).toBeGreaterThan(0);
    expect(answer.reply.usage.estimated).toBe(false);
  });

  it('answers with calls in order, and the script sees their results next time', async () => {
    const llm = await create((asked) => {
      const results = asked.messages.filter((message) => message.role === 'tool');
      if (results.length > 0) return `sum: ${results.map((made) => `${made.name}=${made.content}`).join()}`;
      return {
        text: 'let me add',
        calls: [
          { name: 'add', arguments: { a: 1 } },
          { name: 'add', arguments: '{"a":2}' },
        ],
      };
    });
    const first = await llm.complete(request(), never());
    expect(first).toMatchObject({
      reply: {
        content: 'let me add',
        calls: [
          { name: 'add', arguments: '{"a":1}' },
          { name: 'add', arguments: '{"a":2}' },
        ],
      },
    });
    const turn: Message[] = [
      { role: 'user', content: 'Add 1 and 2.' },
      { role: 'assistant', content: null, toolCalls: [{ id: 'c00000002', name: 'add', arguments: '{"a":1}' }] },
      { role: 'tool', callId: 'c00000002', name: 'add', content: '3' },
    ];
    expect(await llm.complete(request({ messages: turn }), never())).toMatchObject({
      reply: { content: 'sum: add=3' },
    });
  });

  const faults: [string, ScriptedReply, Partial<LlmFailure>][] = [
    [
      'a rate limit',
      { fault: 'status', status: 429, retryAfter: 7 },
      { class: 'retryable', code: 'rate_limited', retryAfterMs: 7_000 },
    ],
    [
      'a server error',
      { fault: 'status', status: 500 },
      { class: 'retryable', code: 'server_error', reason: 'attempts_exhausted' },
    ],
    ['overload', { fault: 'status', status: 503 }, { class: 'retryable', code: 'overloaded' }],
    [
      'no quota',
      { fault: 'status', status: 429, code: 'insufficient_quota' },
      { class: 'terminal', code: 'quota_exhausted', reason: 'quota_exhausted' },
    ],
    [
      'a bad key',
      { fault: 'status', status: 401 },
      { class: 'terminal', code: 'invalid_api_key', reason: 'invalid_request' },
    ],
    [
      'no such model',
      { fault: 'status', status: 404, code: 'model_not_found' },
      { class: 'terminal', code: 'model_not_found', reason: 'invalid_request' },
    ],
    [
      'an invalid request',
      { fault: 'status', status: 400 },
      { class: 'terminal', code: 'invalid_request', reason: 'invalid_request' },
    ],
    [
      'a filtered prompt',
      { fault: 'status', status: 400, code: 'content_filter' },
      { class: 'terminal', code: 'content_filter' },
    ],
    [
      'an overflow',
      { fault: 'status', status: 400, code: 'context_length_exceeded' },
      { class: 'overflow', code: 'context_overflow', reason: 'context_overflow' },
    ],
    ['a page of a gateway', { fault: 'html' }, { class: 'retryable', code: 'server_error' }],
    ['an error inside a 200', { fault: 'error_in_200', code: 502 }, { class: 'retryable', code: 'server_error' }],
    [
      'JSON that does not parse',
      { fault: 'malformed_json' },
      { class: 'retryable', code: 'invalid_response', reason: 'invalid_response' },
    ],
    ['no choices', { fault: 'empty_choices' }, { class: 'retryable', code: 'invalid_response' }],
    ['an empty reply', { fault: 'empty_reply' }, { class: 'retryable', code: 'invalid_response' }],
    ['no finish reason', { text: 'x', finishReason: null }, { class: 'retryable', code: 'invalid_response' }],
    ['a truncated text', { fault: 'truncated' }, { class: 'retryable', code: 'truncated', reason: 'invalid_response' }],
    [
      'a truncated call',
      { fault: 'truncated', calls: [{ name: 'add', arguments: { a: 1 } }] },
      { class: 'retryable', code: 'truncated' },
    ],
    ['a refusal', { refusal: 'no' }, { class: 'terminal', code: 'refused', reason: 'refused' }],
    ['a connection cut', { fault: 'reset' }, { class: 'retryable', code: 'connection', reason: 'attempts_exhausted' }],
  ];
  it.each(faults)('makes of %s a failure that says what it is', async (_name, reply, expected) => {
    expect(await failureOf(await create(inTurn(reply)))).toMatchObject(expected);
  });

  it.each<[string, ScriptedReply]>([
    ['no headers', { fault: 'hang' }],
    ['half a body', { fault: 'hang_in_body' }],
    ['nothing in time', { text: 'late', delayMs: 60_000 }],
  ])('gives up at its deadline on %s, and counts what may have been billed', async (_name, reply) => {
    const failure = await failureOf(await create(inTurn(reply)), { timeoutMs: 100 });
    expect(failure).toMatchObject({ class: 'retryable', code: 'timeout', usage: { estimated: true } });
    expect(failure.usage?.inputTokens).toBeGreaterThan(0);
  });

  it('ends a call in flight when it is aborted, and the other side hears of it', async () => {
    const abort = new AbortController();
    let heard = Promise.resolve();
    const llm = await create((_asked, { signal }) => {
      heard = new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      abort.abort();
      return { fault: 'hang' };
    });
    const answer = await llm.complete(request(), abort.signal);
    expect(answer).toMatchObject({
      ok: false,
      failure: { class: 'retryable', code: 'aborted', usage: { estimated: true } },
    });
    await heard;
  });

  it('sends nothing when it was aborted before', async () => {
    let asked = 0;
    const llm = await create(() => `${++asked}`);
    const answer = await llm.complete(request(), AbortSignal.abort());
    expect(answer).toMatchObject({ ok: false, failure: { code: 'aborted', usage: null } });
    expect(asked).toBe(0);
  });

  it('counts tokens of each text and knows the size of a context', async () => {
    const llm = await create(inTurn('x'));
    const counts = await llm.countTokens('gpt-4o-mini', [
      '',
      'a few words of text',
      'a few words of text and some more',
    ]);
    expect(counts[0]).toBe(0);
    expect(counts[1]).toBeGreaterThan(0);
    expect(counts[2]).toBeGreaterThan(counts[1] ?? 0);
    expect(llm.contextTokens('gpt-4o-mini')).toBe(128_000);
  });
});

describe('The adapter', () => {
  it('sends requests without a breach, and one per call', async () => {
    const { llm, model } = await startAdapter(inTurn('3'));
    const schema = {
      type: 'object',
      properties: { sum: { type: 'number' } },
      required: ['sum'],
      additionalProperties: false,
    };
    await llm.complete(request({ outputSchema: schema }), never());
    expect(model.breaches).toEqual([]);
    expect(model.requests).toHaveLength(1);
    expect(model.requests[0]?.body).toMatchObject({
      max_tokens: 500,
      temperature: 0.2,
      response_format: { type: 'json_schema' },
    });
  });

  it('does not retry by itself', async () => {
    const { llm, model } = await startAdapter(inTurn({ fault: 'status', status: 500 }));
    await failureOf(llm);
    expect(model.requests).toHaveLength(1);
  });

  it('estimates usage that is missing or odd, and flags it', async () => {
    for (const usage of ['missing', null, { prompt_tokens: '7', completion_tokens: -1 }]) {
      const { llm } = await startAdapter(inTurn({ text: 'three, I think', usage }));
      const answer = await llm.complete(request(), never());
      expect(answer).toMatchObject({ ok: true, reply: { usage: { estimated: true } } });
      if (answer.ok)
        expect(Math.min(answer.reply.usage.inputTokens, answer.reply.usage.outputTokens)).toBeGreaterThan(0);
    }
  });

  it('prices what was used, by the configuration before its own table', async () => {
    const usage = {
      prompt_tokens: 1_000_000,
      completion_tokens: 1_000,
      prompt_tokens_details: { cached_tokens: 500_000 },
    };
    const script = inTurn({ text: 'x', usage });
    const own = { priceUsdPerMTok: { input: 4, cachedInput: 1, output: 1_000 }, contextTokens: 9 };
    const { llm } = await startAdapter(script, { models: { 'my-model': own } });
    const costOf = async (model: string) => {
      const answer = await llm.complete(request({ model }), never());
      return answer.ok ? answer.reply.usage.costUsd : undefined;
    };
    expect(await costOf('my-model')).toBeCloseTo(2 + 0.5 + 1, 9);
    expect(await costOf('gpt-4o-mini')).toBeCloseTo(0.075 + 0.0375 + 0.0006, 9);
    expect(await costOf('unheard-of')).toBeNull();
    expect(llm.contextTokens('my-model')).toBe(9);
  });

  it('learns of refused parameters once a model, in the call that meets them', async () => {
    const refuse = (param: string, message: string): ScriptedReply => ({
      fault: 'status',
      status: 400,
      param,
      code: 'unsupported_parameter',
      message,
    });
    const { llm, model } = await startAdapter(({ body }) => {
      if (body === null || body.model !== 'picky') return 'ok';
      if ('max_tokens' in body) return refuse('max_tokens', "Use 'max_completion_tokens' instead.");
      if ('temperature' in body) return refuse('temperature', 'Only the default (1) value is supported.');
      if ('response_format' in body) return refuse('response_format', 'This response_format type is unavailable now');
      return 'ok';
    });
    const ask = (name: string) => llm.complete(request({ model: name, outputSchema: { type: 'object' } }), never());
    expect(await ask('picky')).toMatchObject({ ok: true });
    expect(model.requests).toHaveLength(4);
    expect(await ask('picky')).toMatchObject({ ok: true });
    expect(model.requests).toHaveLength(5);
    expect(model.requests[4]?.body).toMatchObject({ max_completion_tokens: 500 });
    expect(JSON.stringify(model.requests[4]?.body)).toContain('satisfies this JSON Schema');
    await ask('other');
    expect(model.requests[5]?.body).toMatchObject({ max_tokens: 500, temperature: 0.2 });
    expect(model.breaches).toEqual([]);
  });

  it('gives up on a provider that refuses both ways to say it', async () => {
    const { llm, model } = await startAdapter(() => ({
      fault: 'status',
      status: 400,
      message: 'max_tokens and max_completion_tokens are not supported',
    }));
    expect(await failureOf(llm)).toMatchObject({ class: 'terminal', code: 'invalid_request' });
    expect(model.requests).toHaveLength(2);
  });

  it('sends no history that lacks a result', async () => {
    const { llm, model } = await startAdapter(inTurn('x'));
    const messages: Message[] = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: null, toolCalls: [{ id: 'c1', name: 'add', arguments: '{}' }] },
    ];
    expect(await failureOf(llm, { messages })).toMatchObject({
      class: 'terminal',
      code: 'invalid_request',
      message: expect.stringContaining('c1'),
    });
    expect(model.requests).toHaveLength(0);
  });

  it('is refused by the scripted model for whatever a real one would refuse', async () => {
    const { llm, model } = await startAdapter(inTurn('x'));
    const tools = [{ name: 'not a name', description: '', parameters: { type: 'object' } }];
    expect(await failureOf(llm, { tools })).toMatchObject({ class: 'terminal', code: 'invalid_request' });
    expect(model.breaches).toHaveLength(1);
  });

  it('says a wrong key and an unknown model for what they are', async () => {
    const model = await startModel(inTurn('x'), { models: ['gpt-4o-mini'] });
    const withKey = (key: string | null) => createOpenAiLlm({ baseUrl: model.url, apiKey: key, log });
    expect(await failureOf(withKey('sk-wrong'))).toMatchObject({ class: 'terminal', code: 'invalid_api_key' });
    expect(await failureOf(withKey(null))).toMatchObject({ class: 'terminal', code: 'invalid_api_key' });
    expect(await failureOf(withKey('sk-wrong\nkey'))).toMatchObject({ class: 'terminal', code: 'invalid_request' });
    expect(await failureOf(withKey(apiKey), { model: 'gpt-9' })).toMatchObject({
      class: 'terminal',
      code: 'model_not_found',
    });
  });

  it('keeps the key out of messages and logs, also when a provider quotes it', async () => {
    const { llm } = await startAdapter(() => ({
      fault: 'status',
      status: 400,
      message: `bad request with Authorization: Bearer ${apiKey} and ${apiKey}`,
    }));
    const failure = await failureOf(llm);
    expect(JSON.stringify(failure)).not.toContain('abcdef0123456789');
    expect(logged.join()).not.toContain('abcdef0123456789');
  });

  it('does not take the default key to another provider', async () => {
    const seen: (string | undefined)[] = [];
    const other = createServer((incoming, response) => {
      seen.push(incoming.headers.authorization);
      response.writeHead(500).end();
    });
    const url = await listen(other);
    const { llm } = await startAdapter(inTurn('x'), {
      models: { local: { baseUrl: url }, keyed: { baseUrl: url, apiKey: 'sk-own' } },
    });
    await failureOf(llm, { model: 'local' });
    await failureOf(llm, { model: 'keyed' });
    expect(seen).toEqual([undefined, 'Bearer sk-own']);
  });

  it('answers for an address where nothing listens, and for one that is none', async () => {
    const closed = createServer();
    const url = await listen(closed);
    await closers.pop()?.();
    const at = (baseUrl: string) => createOpenAiLlm({ baseUrl, apiKey, log });
    expect(await failureOf(at(url))).toMatchObject({ class: 'retryable', code: 'connection', usage: null });
    expect(await failureOf(at('not an address'))).toMatchObject({ class: 'terminal', code: 'invalid_request' });
  });

  it('follows no redirect', async () => {
    const { llm } = await startAdapter(() => ({ fault: 'status', status: 307 }));
    expect(await failureOf(llm)).toMatchObject({
      class: 'terminal',
      code: 'invalid_request',
      message: expect.stringContaining('redirect'),
    });
  });

  it('warns once of a provider that seems to cut prompts', async () => {
    const { llm } = await startAdapter(inTurn({ text: 'x', usage: { prompt_tokens: 20, completion_tokens: 1 } }));
    const messages: Message[] = [{ role: 'user', content: 'many words of a long history '.repeat(50) }];
    await llm.complete(request({ messages }), never());
    await llm.complete(request({ messages }), never());
    expect(logged.filter((line) => line.includes('cut prompts'))).toHaveLength(1);
    expect(logged.join()).not.toContain('long history');
  });

  it('goes through the proxy, except to this machine and where it was told not to', async () => {
    const model = await startModel(inTurn('x'));
    const tunnels: string[] = [];
    const proxy = createServer();
    proxy.on('connect', (incoming, socket) => {
      tunnels.push(String(incoming.url));
      const upstream = connect(Number(new URL(model.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      upstream.on('error', () => socket.destroy());
      socket.on('error', () => upstream.destroy());
    });
    const url = await listen(proxy);
    const at = (baseUrl: string, noProxy?: string) =>
      createOpenAiLlm({
        baseUrl,
        apiKey,
        log,
        proxy: { httpProxy: url, httpsProxy: url, ...(noProxy && { noProxy }) },
      });
    const ask = (llm: Llm) => llm.complete(request(), never());
    expect(await ask(at('http://provider.invalid/v1'))).toMatchObject({ ok: true });
    expect(tunnels).toEqual(['provider.invalid:80']);
    expect(await ask(at(model.url))).toMatchObject({ ok: true });
    expect(await ask(at('http://provider.invalid/v1', 'provider.invalid'))).toMatchObject({ ok: false });
    expect(tunnels).toHaveLength(1);
  });
});

describe('The Embedder port, over HTTP', () => {
  const startEmbedder = async (
    options: Omit<ScriptedModelOptions, 'script'> = {},
    over: Partial<OpenAiSettings> = {},
  ) => {
    const model = await startModel(inTurn('x'), options);
    return { model, embedder: createOpenAiEmbedder({ baseUrl: model.url, apiKey, log, ...over }, 'vectors-1') };
  };

  it('gives each text its vector, in their order and whatever is in them', async () => {
    const { model, embedder } = await startEmbedder({
      embed: (texts) => texts.map((text) => [text.length, 0.5, -1e-9]),
    });
    const texts = ['a', 'half of \ud83d', '你好,世界', 'line\nbreak'];
    const { vectors, inputTokens } = await embedder.embed(texts, never());
    expect(inputTokens).toBeGreaterThan(0);
    expect(vectors.map((vector) => vector[0])).toEqual(texts.map(({ length }) => length));
    expect(vectors[0]).toEqual(Float32Array.from([1, 0.5, -1e-9]));
    expect(model.embeddingRequests).toMatchObject([{ body: { model: 'vectors-1' } }]);
    expect(model.breaches).toEqual([]);
    expect(model.requests).toEqual([]);
  });

  it.each<[string, ScriptedModelOptions['embed'], RegExp]>([
    ['an error', () => ({ fault: 'status', status: 429, message: `slow down, ${apiKey}` }), /^429 slow down, (?!sk-)/],
    ['a page', () => ({ fault: 'html' }), /502 Bad Gateway/],
    ['an error in 200', () => ({ fault: 'error_in_200', message: 'no such model' }), /no such model/],
    ['no JSON', () => ({ fault: 'malformed_json' }), /no vector of text 0/],
    ['too few', () => [[1]], /no vector of text 1/],
    ['no numbers', () => ({ fault: 'raw', body: { data: [{ embedding: ['x'] }, { embedding: [1] }] } }), /of text 0/],
    ['a lost connection', () => ({ fault: 'reset' }), /the connection failed/],
  ])('rejects with what went wrong: %s', async (_, embed, message) => {
    const { embedder } = await startEmbedder({ ...(embed && { embed }) });
    const failed = await embedder.embed(['a', 'b'], never()).catch((error: Error) => error.message);
    expect(failed).toMatch(message);
    expect(failed).not.toContain(apiKey);
  });

  it('ends with its signal, and goes where its model is', async () => {
    const { model, embedder } = await startEmbedder({ embed: () => ({ fault: 'hang' }) });
    const stop = new AbortController();
    const hanging = embedder.embed(['a'], stop.signal).catch((error: Error) => error.message);
    await expect.poll(() => model.embeddingRequests.length).toBe(1);
    stop.abort();
    expect(await hanging).toBe('the call was aborted');
    const elsewhere = await startEmbedder({}, { models: { 'vectors-1': { baseUrl: model.url, apiKey: 'other' } } });
    expect(await elsewhere.embedder.embed(['a'], never()).catch((error: Error) => error.message)).toMatch(/^401 /);
  });
});

describe('The scripted model', () => {
  it('lists its models and refuses other paths', async () => {
    const model = await startModel(inTurn('x'), { models: ['a', 'b'] });
    const headers = { authorization: `Bearer ${apiKey}` };
    const list = await (await fetch(`${model.url}/models`, { headers })).json();
    expect(list).toMatchObject({ object: 'list', data: [{ id: 'a' }, { id: 'b' }] });
    expect((await fetch(`${model.url}/responses`, { method: 'POST', headers })).status).toBe(404);
    expect((await fetch(`${model.url}/models`)).status).toBe(401);
  });

  it('refuses a body that is no JSON or no UTF-8, and keeps no key', async () => {
    const model = await startModel(inTurn('x'));
    const post = (body: string | Uint8Array<ArrayBuffer>) =>
      fetch(`${model.url}/chat/completions`, { method: 'POST', body, headers: { authorization: `Bearer ${apiKey}` } });
    expect((await post('{"model":')).status).toBe(400);
    expect((await post(new Uint8Array([0x22, 0xff, 0x22]))).status).toBe(400);
    expect(model.breaches).toHaveLength(2);
    expect(JSON.stringify(model.requests)).not.toContain(apiKey);
  });

  it('closes under calls that hang', async () => {
    const model = await startScriptedModel({ script: inTurn({ fault: 'hang' }) });
    const llm = createOpenAiLlm({ baseUrl: model.url, apiKey: null, log });
    const hanging = llm.complete(request(), never());
    await model.received(1);
    await model.close();
    expect(await hanging).toMatchObject({ ok: false, failure: { code: 'connection' } });
  });
});

/** Listens on a free port of loopback until the test ends; the base URL. */
async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
}
