/**
 * One HTTP exchange with a provider, through the `openai` client, which knows the address, the headers and the key. The
 * answer is kept raw: the client's own reading loses error bodies that are not `{error: …}`, trusts the content type, and
 * lets a body that stops after the headers hang for ever. No retry happens here, and no environment variable is read.
 */
import OpenAI from 'openai';
import { Agent, EnvHttpProxyAgent, fetch as undiciFetch } from 'undici';
import { describeThrown } from '../core/errors.js';
import { asObject, type JsonObject } from './json.js';
import type { RawAnswer } from './read-fault.js';
import { redact } from './redact.js';

/** Values of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as the composition root read them. */
export interface ProxySettings {
  httpsProxy?: string;
  httpProxy?: string;
  noProxy?: string;
}

/** What this folder needs of the global `fetch`; a test may hand in its own. */
export type Fetch = (
  url: string,
  init: { method?: string; headers: Headers; body?: string; signal: AbortSignal; redirect: 'manual' },
) => Promise<{ status: number; headers: { get(name: string): string | null }; text(): Promise<string> }>;

/** Where requests for a model go. A null key sends no Authorization header. */
export interface Endpoint {
  baseUrl: string;
  apiKey: string | null;
}

export type Exchange =
  | { got: 'answer'; answer: RawAnswer }
  /** `mayBeBilled`: the request may have reached the provider. */
  | {
      got: 'nothing';
      cause: 'timeout' | 'aborted' | 'connection' | 'unsendable';
      message: string;
      mayBeBilled: boolean;
    };

/** Characters of an answer beyond which it is no answer: 64 M. */
const longestAnswer = 64 * 1024 * 1024;

/** Beyond 2^31 ms a timer fires at once. */
const longestTimeoutMs = 2_147_000_000;

/** A fetch through the proxy, if any. The deadline is the caller's, so undici's own five minutes are off. */
export function createFetch(proxy: ProxySettings | null): Fetch {
  const limits = { headersTimeout: 0, bodyTimeout: 0 };
  // Empty strings keep undici from reading the environment for what was not given.
  const dispatcher =
    proxy === null
      ? new Agent(limits)
      : new EnvHttpProxyAgent({
          ...limits,
          httpsProxy: proxy.httpsProxy ?? '',
          httpProxy: proxy.httpProxy ?? '',
          // What runs on this machine is no proxy's business.
          noProxy: proxy.noProxy === '*' ? '*' : ['localhost,127.0.0.1,::1', proxy.noProxy ?? ''].join(),
        });
  return (url, init) => undiciFetch(url, { ...init, headers: [...init.headers], dispatcher });
}

/** Sends the body as a POST. Never rejects. `timeoutMs` covers the answer to its last byte. */
export async function exchange(
  endpoint: Endpoint,
  body: JsonObject,
  options: { path: '/chat/completions' | '/embeddings'; fetch: Fetch; timeoutMs: number; signal: AbortSignal },
): Promise<Exchange> {
  const { signal } = options;
  const nothing = (cause: 'timeout' | 'aborted' | 'connection' | 'unsendable', message: string, mayBeBilled: boolean) =>
    ({ got: 'nothing', cause, message, mayBeBilled }) as const;
  if (signal.aborted) return nothing('aborted', 'the call was aborted before it was sent', false);
  const timeoutMs = Math.min(Math.max(1, Math.ceil(options.timeoutMs)), longestTimeoutMs);
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal.addEventListener('abort', abort, { once: true });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    stop.abort();
  }, timeoutMs);

  let answer: RawAnswer | null = null;
  let fault: unknown;
  try {
    const client = new OpenAI({
      baseURL: endpoint.baseUrl,
      apiKey: endpoint.apiKey ?? 'none',
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
      ...(endpoint.apiKey === null && { defaultHeaders: { Authorization: null } }),
      maxRetries: 0,
      timeout: timeoutMs + 1_000,
      // The client would print whole requests where OPENAI_LOG says debug.
      logLevel: 'off',
      fetch: async (url, init) => {
        try {
          const response = await options.fetch(String(url), {
            ...(init?.method !== undefined && { method: init.method }),
            headers: new Headers(init?.headers),
            ...(typeof init?.body === 'string' && { body: init.body }),
            signal: stop.signal,
            redirect: 'manual',
          });
          answer = { status: response.status, headers: response.headers, text: await response.text() };
        } catch (thrown) {
          fault = thrown;
        }
        return Response.json({});
      },
    });
    await client.post(options.path, { body, signal: stop.signal });
  } catch (thrown) {
    fault ??= thrown;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }

  const got = answer as RawAnswer | null;
  if (got !== null) {
    if (got.text.length <= longestAnswer) return { got: 'answer', answer: got };
    return nothing('connection', 'the answer is longer than any answer may be', true);
  }
  if (timedOut) return nothing('timeout', `no answer within ${timeoutMs} ms`, true);
  if (signal.aborted) return nothing('aborted', 'the call was aborted', true);
  const { text, code, isNetwork } = describeFault(fault);
  const message = redact(
    `${text}; the base URL is ${endpoint.baseUrl}`,
    endpoint.apiKey === null ? [] : [endpoint.apiKey],
  );
  if (!isNetwork) return nothing('unsendable', message, false);
  return nothing('connection', `the connection failed: ${message}`, !(code !== null && neverSent.has(code)));
}

/** Failures before the first byte of the request left. */
const neverSent = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

const invalidCodes = new Set(['ERR_INVALID_URL', 'ERR_INVALID_CHAR', 'ERR_INVALID_ARG_TYPE', 'UND_ERR_INVALID_ARG']);

/** undici says "fetch failed" and keeps what happened in `cause`, where several addresses failed in `errors` of it. */
function describeFault(thrown: unknown): { text: string; code: string | null; isNetwork: boolean } {
  let text = describeThrown(thrown);
  let code: string | null = null;
  let at: unknown = thrown;
  for (let depth = 0; depth < 5 && at instanceof Error; depth++) {
    const own = asObject(at)?.code;
    if (typeof own === 'string') code = own;
    if (at.message !== '' && at !== thrown) text = at.message;
    at = at instanceof AggregateError ? at.errors[0] : at.cause;
  }
  // A bad address or header is a TypeError; so is "fetch failed", which has a cause.
  const unsendable = code === null ? thrown instanceof TypeError && thrown.cause === undefined : invalidCodes.has(code);
  const isNetwork = !unsendable || /fetch failed|terminated/.test(describeThrown(thrown));
  return { text: code === null || text.includes(code) ? text : `${text} (${code})`, code, isNetwork };
}
