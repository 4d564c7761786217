/**
 * The scripted model: an OpenAI-compatible HTTP server on loopback whose answers a script decides. It is as strict about
 * breaches of the protocol as the real API is at its strictest, and keeps what it was sent. For tests and the offline demo.
 * Read script.ts for what a script may answer.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerFault, sendError, sendJson } from './faults.js';
import { type Script, type ScriptedFault, toReply } from './script.js';
import { type Breach, findBreach, findEmbeddingBreach } from './strictness.js';
import { asJson, asList, readRequest, writeCompletion, writeEmbeddings } from './wire.js';
import { vectorOfWords } from './word-vectors.js';

export interface ScriptedModelOptions {
  script: Script;
  /** Vectors of texts, one each, or what goes wrong. Absent: texts are as near to one another as the words they share. */
  embed?: (texts: readonly string[], model: string) => number[][] | ScriptedFault;
  /** 0 or absent: any free port. */
  port?: number;
  /** Where given, a request must bring it as its bearer key, else it is answered 401. */
  apiKey?: string;
  /** Where given, any other model is answered 404. */
  models?: readonly string[];
  /** Told of every request once it was judged. */
  log?: (request: RecordedRequest) => void;
}

/** A request as it came in. */
export interface RecordedRequest {
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  /** The parsed body; undefined when it is no JSON. */
  body: unknown;
  /** The rule it breaks, if any. */
  breach: Breach | null;
}

export interface ScriptedModel {
  /** Base URL for a client: `http://127.0.0.1:<port>/v1`. */
  url: string;
  requests: RecordedRequest[];
  /** Requests for embeddings as they came in. */
  embeddingRequests: RecordedRequest[];
  /** The breaches among both; a test of a sound client expects none. */
  breaches: Breach[];
  /** Resolves when that many requests for a completion have come in, counted from the start. */
  received(count: number): Promise<void>;
  /** Ends every connection, calls that hang included. */
  close(): Promise<void>;
}

export async function startScriptedModel(options: ScriptedModelOptions): Promise<ScriptedModel> {
  const requests: RecordedRequest[] = [];
  const embeddingRequests: RecordedRequest[] = [];
  const breaches: Breach[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const closing = new AbortController();
  let callIndex = 0;

  function record(request: RecordedRequest): void {
    requests.push(request);
    if (request.breach !== null) breaches.push(request.breach);
    options.log?.(request);
    for (const { count, resolve } of waiting) if (requests.length >= count) resolve();
  }

  async function complete(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    const { body, breach } = parse(await readBody(request), findBreach);
    record({ headers: headersOf(request), body, breach });
    if (breach !== null) return sendError(response, 400, { type: 'invalid_request_error', ...breach });
    const model = String(asJson(body).model);
    if (options.models !== undefined && !options.models.includes(model)) {
      const message = `The model \`${model}\` does not exist or you do not have access to it.`;
      return sendError(response, 404, { message, type: 'invalid_request_error', code: 'model_not_found' });
    }
    const asked = readRequest(asJson(body));
    const index = callIndex++;
    const reply = toReply(await options.script(asked, { callIndex: index, signal }));
    if (reply.delayMs !== undefined) await sleep(reply.delayMs, undefined, { signal });
    if (signal.aborted) return;
    if ('fault' in reply) await answerFault(reply, { request: asked, response, callIndex: index, signal });
    else sendJson(response, 200, writeCompletion(asked, reply, index));
  }

  async function embed(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { body, breach } = parse(await readBody(request), findEmbeddingBreach);
    embeddingRequests.push({ headers: headersOf(request), body, breach });
    if (breach !== null) {
      breaches.push(breach);
      return sendError(response, 400, { type: 'invalid_request_error', ...breach });
    }
    const { input, model } = asJson(body);
    const texts = (Array.isArray(input) ? asList(input) : [input]).map(String);
    const answer = options.embed?.(texts, String(model)) ?? texts.map(vectorOfWords);
    if (Array.isArray(answer)) return sendJson(response, 200, writeEmbeddings(String(model), texts, answer));
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    await answerFault(answer, { request: readRequest({ model }), response, callIndex: 0, signal });
  }

  const server = createServer((request, response) => {
    // A caller that gave up aborts the waits; a script that throws is answered like a server's bug.
    route(request, response).catch((thrown: unknown) => {
      if (response.destroyed || response.writableEnded || response.headersSent) return;
      sendError(response, 500, { message: `The script threw: ${String(thrown)}`, type: 'server_error' });
    });
  });

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?')[0];
    if (options.apiKey !== undefined && request.headers.authorization !== `Bearer ${options.apiKey}`) {
      const message = 'Incorrect API key provided. You can find your API key where you set the script up.';
      return sendError(response, 401, { message, type: 'invalid_request_error', code: 'invalid_api_key' });
    }
    if (request.method === 'GET' && path === '/v1/models') {
      const data = (options.models ?? ['scripted']).map((id) => ({
        id,
        object: 'model',
        created: 0,
        owned_by: 'pawl',
      }));
      return sendJson(response, 200, { object: 'list', data });
    }
    if (request.method === 'POST' && path === '/v1/chat/completions') return complete(request, response);
    if (request.method === 'POST' && path === '/v1/embeddings') return embed(request, response);
    sendError(response, 404, {
      message: `Unknown request URL: ${request.method} ${path}`,
      type: 'invalid_request_error',
    });
  }

  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : options.port;

  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    embeddingRequests,
    breaches,
    received: (count) =>
      requests.length >= count ? Promise.resolve() : new Promise((resolve) => void waiting.push({ count, resolve })),
    async close() {
      closing.abort();
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** The bearer key is left out. */
function headersOf(request: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(request.headers).flatMap(([name, value]) =>
      name === 'authorization' || value === undefined ? [] : [[name, String(value)] as const],
    ),
  );
}

function parse(bytes: Buffer, find: (body: unknown) => Breach | null): { body: unknown; breach: Breach | null } {
  try {
    const body: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return { body, breach: find(body) };
  } catch (thrown) {
    const message = `We could not parse the JSON body of your request: ${String(thrown)}`;
    return { body: undefined, breach: { message, param: null, code: null } };
  }
}
