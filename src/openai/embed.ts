/**
 * The Embedder port on OpenAI-compatible providers: one POST /embeddings, its vectors in the order of the texts. It rejects
 * with what went wrong, redacted, and never retries: whoever asks can do without.
 */
import type { Embedder } from '../ports.js';
import { asObject, parseJson, wellFormed } from './json.js';
import { endpointOf, type OpenAiSettings } from './llm.js';
import { priceOf } from './prices.js';
import { errorIn, isHtml, readFault } from './read-fault.js';
import { createFetch, exchange } from './transport.js';
import { readUsage } from './usage.js';

/** Longer than anybody waits: the deadline is the caller's signal. */
const longestMs = 120_000;

export function createOpenAiEmbedder(settings: OpenAiSettings, model: string): Embedder {
  const fetch = settings.fetch ?? createFetch(settings.proxy ?? null);
  return {
    model,
    price: settings.models?.[model]?.priceUsdPerMTok ?? priceOf(model),
    async embed(texts, signal) {
      const endpoint = endpointOf(settings, model);
      const body = { model, input: texts.map(wellFormed) };
      const got = await exchange(endpoint, body, { path: '/embeddings', fetch, timeoutMs: longestMs, signal });
      if (got.got === 'nothing') throw new Error(got.message);
      const { answer } = got;
      const parsed = parseJson(answer.text);
      const isGood = answer.status >= 200 && answer.status < 300 && !isHtml(answer) && errorIn(parsed) === null;
      if (!isGood) {
        const secrets = endpoint.apiKey === null ? [] : [endpoint.apiKey];
        throw new Error(readFault(answer, secrets, Date.now()).message);
      }
      const { inputTokens } = readUsage(asObject(parsed)?.usage);
      return { vectors: readVectors(parsed, texts.length), inputTokens };
    },
  };
}

/** `data` may come in any order; each part says by its `index` which text it is of. */
function readVectors(body: unknown, count: number): Float32Array[] {
  const data = asObject(body)?.data;
  const vectors = new Map<number, Float32Array>();
  for (const [at, part] of (Array.isArray(data) ? data : []).entries()) {
    const given = asObject(part);
    const vector = readVector(given?.embedding);
    if (vector !== null) vectors.set(typeof given?.index === 'number' ? given.index : at, vector);
  }
  return Array.from({ length: count }, (_, index) => {
    const vector = vectors.get(index);
    if (vector === undefined) throw new Error(`the answer holds no vector of text ${index}`);
    return vector;
  });
}

function readVector(value: unknown): Float32Array | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const vector = Float32Array.from(value, Number);
  return vector.every(Number.isFinite) ? vector : null;
}
