/**
 * Error answers of real providers, and what each is: retried, terminal or an overflow. The bodies are as public bug
 * reports show them.
 */
import { describe, expect, it } from 'vitest';
import { classify } from '../../../src/openai/classify.js';
import { type RawAnswer, readFault, retryAfterMs } from '../../../src/openai/read-fault.js';

const now = Date.parse('2026-01-05T12:00:00Z');

function answer(status: number, body: unknown, headers: Record<string, string> = {}): RawAnswer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { status, text, headers: new Headers(headers) };
}

function failureOf(status: number, body: unknown, headers: Record<string, string> = {}) {
  return classify(readFault(answer(status, body, headers), ['sk-secret-key-1'], now));
}

const openAi = (
  message: string,
  code: string | null = null,
  type = 'invalid_request_error',
  param: string | null = null,
) => ({
  error: { message, type, param, code },
});

const maxContext =
  "This model's maximum context length is 65536 tokens. However, you requested 66343 tokens (62247 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.";

const table: [string, number, unknown, string][] = [
  // Quota is not a rate limit, though both come as 429.
  [
    'OpenAI out of quota',
    429,
    openAi(
      'You exceeded your current quota, please check your plan and billing details.',
      'insufficient_quota',
      'insufficient_quota',
    ),
    'terminal quota_exhausted',
  ],
  [
    'DeepSeek out of balance',
    402,
    openAi('Insufficient Balance', 'invalid_request_error', 'unknown_error'),
    'terminal quota_exhausted',
  ],
  [
    'xAI out of credits',
    403,
    { code: 'The caller does not have permission', error: 'Your team has used all available credits' },
    'terminal quota_exhausted',
  ],
  [
    'Zhipu in arrears',
    429,
    { error: { code: '1113', message: '余额不足或无可用资源包,请充值。' } },
    'terminal quota_exhausted',
  ],
  ['a 429 that says it is about money', 429, { message: 'insufficient credits' }, 'terminal quota_exhausted'],
  // Rate limits, whatever they say of tokens.
  [
    'OpenAI rate limit',
    429,
    openAi(
      'Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.',
      'rate_limit_exceeded',
      'tokens',
    ),
    'retryable rate_limited',
  ],
  [
    'Bedrock, tokens but a rate limit',
    429,
    { message: 'Too many tokens, please wait before trying again.' },
    'retryable rate_limited',
  ],
  [
    'the same words with a 400',
    400,
    { message: 'Too many tokens, please wait before trying again.' },
    'retryable rate_limited',
  ],
  [
    'Gemini exhausted',
    429,
    [{ error: { code: 429, message: 'You exceeded your current quota', status: 'RESOURCE_EXHAUSTED' } }],
    'retryable rate_limited',
  ],
  ['a 429 without a body', 429, '', 'retryable rate_limited'],
  [
    'a rate limit whose text names the context',
    429,
    openAi(maxContext, 'rate_limit_exceeded'),
    'retryable rate_limited',
  ],
  // The prompt does not fit.
  [
    'OpenAI overflow',
    400,
    openAi(maxContext, 'context_length_exceeded', 'invalid_request_error', 'messages'),
    'overflow context_overflow',
  ],
  ['DeepSeek overflow, by its words', 400, openAi(maxContext, 'invalid_request_error'), 'overflow context_overflow'],
  [
    'vLLM overflow',
    400,
    {
      object: 'error',
      message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
      type: 'BadRequestError',
      code: 400,
    },
    'overflow context_overflow',
  ],
  [
    'llama.cpp overflow',
    400,
    {
      error: {
        code: 400,
        message: 'the request exceeds the available context size, try increasing it',
        type: 'exceed_context_size_error',
      },
    },
    'overflow context_overflow',
  ],
  [
    'llama.cpp overflow, older, as a 500',
    500,
    {
      error: {
        code: 500,
        message: 'the request exceeds the available context size. try increasing the context size',
        type: 'server_error',
      },
    },
    'overflow context_overflow',
  ],
  [
    'LM Studio overflow',
    400,
    { error: 'The number of tokens to keep from the initial prompt is greater than the context length' },
    'overflow context_overflow',
  ],
  [
    'Anthropic overflow',
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' },
    },
    'overflow context_overflow',
  ],
  [
    'Gemini overflow',
    400,
    {
      error: {
        code: 400,
        status: 'INVALID_ARGUMENT',
        message: 'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).',
      },
    },
    'overflow context_overflow',
  ],
  [
    'xAI overflow',
    400,
    { error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens." },
    'overflow context_overflow',
  ],
  [
    'Qwen overflow',
    400,
    openAi('Range of input length should be [1, 129024]', 'invalid_parameter_error'),
    'overflow context_overflow',
  ],
  [
    'Kimi overflow',
    400,
    openAi('Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)'),
    'overflow context_overflow',
  ],
  ['Zhipu overflow', 400, { error: { code: '1261', message: 'Prompt 超长' } }, 'overflow context_overflow'],
  [
    'larger than the allowance of a minute',
    429,
    openAi(
      'Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.',
      'rate_limit_exceeded',
      'tokens',
    ),
    'overflow context_overflow',
  ],
  [
    'a body too large for the gateway',
    413,
    '<html><body>413 Request Entity Too Large</body></html>',
    'overflow context_overflow',
  ],
  // Terminal for other reasons.
  [
    'a wrong key',
    401,
    openAi('Incorrect API key provided: sk-secret*****ey-1.', 'invalid_api_key'),
    'terminal invalid_api_key',
  ],
  [
    'DeepSeek, a wrong key',
    401,
    openAi('Authentication Fails (no such user)', 'invalid_request_error', 'authentication_error'),
    'terminal invalid_api_key',
  ],
  [
    'Gemini, a wrong key as a 400',
    400,
    [{ error: { code: 400, message: 'API key not valid. Please pass a valid API key.', status: 'INVALID_ARGUMENT' } }],
    'terminal invalid_api_key',
  ],
  [
    'a country not served',
    403,
    openAi('Country, region, or territory not supported', 'unsupported_country_region_territory', 'request_forbidden'),
    'terminal permission_denied',
  ],
  [
    'no such model',
    404,
    openAi('The model `gpt-9` does not exist or you do not have access to it.', 'model_not_found'),
    'terminal model_not_found',
  ],
  [
    'Ollama, no such model',
    404,
    { error: { message: 'model "llama9" not found, try pulling it first', type: 'api_error' } },
    'terminal model_not_found',
  ],
  ['DeepSeek, no such model', 400, openAi('Model Not Exist', 'invalid_request_error'), 'terminal model_not_found'],
  [
    'Gemini, no such model',
    404,
    [{ error: { code: 404, message: 'models/gemini-9 is not found for API version v1main', status: 'NOT_FOUND' } }],
    'terminal model_not_found',
  ],
  [
    'OpenRouter, no such model',
    404,
    { error: { message: 'No endpoints found for x/y.', code: 404 } },
    'terminal model_not_found',
  ],
  [
    'Groq, a model no longer served',
    400,
    openAi('The model `x` has been decommissioned', 'model_decommissioned'),
    'terminal model_not_found',
  ],
  [
    'Azure, no such deployment',
    404,
    { error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' } },
    'terminal model_not_found',
  ],
  // A path that is not there says nothing of the model.
  ['a wrong path at OpenAI', 404, openAi('Invalid URL (POST /v1/v1/chat/completions)'), 'terminal not_found'],
  ['a wrong path at vLLM', 404, { detail: 'Not Found' }, 'terminal not_found'],
  ['a wrong path at Ollama', 404, '404 page not found', 'terminal not_found'],
  ['a 404 without a body', 404, '', 'terminal not_found'],
  ['a base URL without /v1', 404, '<html><head><title>404 Not Found</title></head></html>', 'terminal not_found'],
  ['a redirect', 301, '', 'terminal invalid_request'],
  [
    'a filtered prompt on Azure',
    400,
    {
      error: {
        message: 'The response was filtered',
        code: 'content_filter',
        innererror: { code: 'ResponsibleAIPolicyViolation' },
      },
    },
    'terminal content_filter',
  ],
  [
    'a filtered prompt on Alibaba',
    400,
    openAi('Input data may contain inappropriate content.', 'data_inspection_failed'),
    'terminal content_filter',
  ],
  [
    'a moderated prompt on OpenRouter',
    403,
    { error: { code: 403, message: 'Your chosen model requires moderation and your input was flagged by it' } },
    'terminal content_filter',
  ],
  [
    'a bad parameter',
    400,
    openAi(
      "Invalid 'temperature': decimal above maximum value.",
      'decimal_above_max_value',
      'invalid_request_error',
      'temperature',
    ),
    'terminal invalid_request',
  ],
  [
    'FastAPI validation',
    422,
    { detail: [{ loc: ['body', 'messages'], msg: 'field required' }] },
    'terminal invalid_request',
  ],
  ['a 400 without a body', 400, '', 'terminal invalid_request'],
  // The provider's own trouble.
  [
    'a 500',
    500,
    openAi('The server had an error while processing your request.', null, 'server_error'),
    'retryable server_error',
  ],
  ['a 500 without a body', 500, '', 'retryable server_error'],
  ['a gateway page', 502, '<html><head><title>502 Bad Gateway</title></head></html>', 'retryable server_error'],
  [
    'Cloudflare in between',
    403,
    '<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>',
    'retryable server_error',
  ],
  ['Cloudflare, origin too slow', 524, '<html></html>', 'retryable timeout'],
  ['a request timeout', 408, '', 'retryable timeout'],
  ['overloaded', 503, openAi('The engine is currently overloaded', null, 'server_error'), 'retryable overloaded'],
  [
    'Moonshot overloaded, as a 429',
    429,
    openAi('The engine is currently overloaded, please try again later', null, 'engine_overloaded_error'),
    'retryable overloaded',
  ],
  [
    'Anthropic overloaded',
    529,
    { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    'retryable overloaded',
  ],
  // An error inside a 200 is judged by what its code says.
  [
    'OpenRouter, a 502 inside a 200',
    200,
    { error: { code: 502, message: 'Provider returned error' } },
    'retryable server_error',
  ],
  ['a 429 inside a 200', 200, { error: { code: 429, message: 'slow down' } }, 'retryable rate_limited'],
  ['an error inside a 200 that says nothing', 200, { error: { message: 'oops' } }, 'retryable invalid_response'],
  [
    'a page with status 200',
    200,
    '<html><head><title>Sign in to the guest network</title></head></html>',
    'retryable invalid_response',
  ],
];

describe('An error answer is classified by code, then status, then words', () => {
  it.each(table)('%s', (_, status, body, expected) => {
    const failure = failureOf(status, body);
    expect(`${failure.class} ${failure.code}`).toBe(expected);
  });

  it('ends the run for the reason its kind stands for', () => {
    expect(failureOf(429, openAi('x', 'insufficient_quota')).reason).toBe('quota_exhausted');
    expect(failureOf(400, openAi('x', 'context_length_exceeded')).reason).toBe('context_overflow');
    expect(failureOf(400, openAi('x', 'content_filter')).reason).toBe('content_filter');
    expect(failureOf(401, '').reason).toBe('invalid_request');
    expect(failureOf(404, '').reason).toBe('invalid_request');
    expect(failureOf(500, '').reason).toBe('attempts_exhausted');
    expect(failureOf(200, { error: { message: 'x' } }).reason).toBe('invalid_response');
  });

  it.each([
    null,
    0,
    true,
    'text',
    [],
    [[]],
    {},
    { error: 7 },
    { error: { message: { deep: [] }, code: {}, type: [] } },
    { error: [] },
  ])('reads %j, which no provider should send, without a fault of its own', (body) => {
    for (const status of [200, 302, 400, 429, 500, 999])
      expect(failureOf(status, body).message.length).toBeGreaterThan(0);
  });

  it('names the place to look when the address is wrong', () => {
    expect(failureOf(404, '<html></html>').message).toContain('check the base URL');
    expect(failureOf(308, '', { location: 'https://api.example.com/v1' }).message).toContain(
      'https://api.example.com/v1',
    );
  });

  it('keeps the words of the provider behind a router', () => {
    const body = { error: { code: 400, message: 'Provider returned error', metadata: { raw: 'prompt is too long' } } };
    expect(failureOf(400, body)).toMatchObject({
      class: 'overflow',
      message: expect.stringContaining('prompt is too long'),
    });
  });

  it('keeps no key and no page in its message', () => {
    const body = openAi(`Incorrect API key provided: sk-secret-key-1 ${'very '.repeat(2_000)}long`, 'invalid_api_key');
    const { message } = failureOf(401, body);
    expect(message).not.toContain('secret-key');
    expect(message.length).toBeLessThanOrEqual(500);
  });
});

describe('The delay a provider asks for', () => {
  const cases: [string, Record<string, string>, string, number | null][] = [
    ['in seconds', { 'retry-after': '20' }, '', 20_000],
    ['in fractions of a second', { 'retry-after': '0.5' }, '', 500],
    ['in milliseconds, which go first', { 'retry-after-ms': '250', 'retry-after': '20' }, '', 250],
    ['as a date', { 'retry-after': 'Mon, 05 Jan 2026 12:00:30 GMT' }, '', 30_000],
    ['as a date that has passed', { 'retry-after': 'Mon, 05 Jan 2026 11:00:00 GMT' }, '', 0],
    ['in words', {}, 'Please try again in 1m2.5s.', 62_500],
    ['in words, in ms', {}, 'Please try again in 6ms.', 6],
    ['in words, in whole minutes', {}, 'Please try again in 2m.', 120_000],
    ['not at all', {}, 'Rate limit reached.', null],
    ['as nonsense', { 'retry-after': '-5' }, '', null],
    ['as another nonsense', { 'retry-after': 'soon' }, 'try again in a while', null],
  ];
  it.each(cases)('is read %s', (_, headers, message, expected) => {
    expect(retryAfterMs(new Headers(headers), message, now)).toBe(expected);
  });

  it('belongs to failures that are retried only', () => {
    expect(failureOf(429, '', { 'retry-after': '7' }).retryAfterMs).toBe(7_000);
    expect(failureOf(503, '', { 'retry-after': '7' }).retryAfterMs).toBe(7_000);
    expect(failureOf(402, '', { 'retry-after': '7' }).retryAfterMs).toBeNull();
  });
});
