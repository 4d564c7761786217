/**
 * The stage: one HTTP server in the test's process that is the model and the world outside for every case. It keeps what it
 * was asked and what was done to it, so that neither depends on the memory of a process that gets killed. A shelf or a card
 * that has seen a key before does nothing more: `raw` effects are the calls, `applied` ones those that did something.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { dialectOf } from '../../src/openai/dialects.js';
import { writeRequest } from '../../src/openai/write-request.js';
import type { LlmRequest } from '../../src/ports.js';
import { type Breach, findBreach, type Script, type ScriptedLlm, scriptedLlm } from '../../src/testing/index.js';
import type { Case } from './cases.js';
import type { Effect } from './cast.js';

export interface LedgerEntry extends Effect {
  applied: boolean;
}

export interface Stage {
  url: string;
  /** Every effect of the case, in order. */
  ledger(caseId: string): LedgerEntry[];
  /** How often the model was asked for the first step, and for the one that answers. */
  asked(caseId: string): { first: number; last: number };
  /** The results of its calls, in order, as each request after the first showed them to the model. */
  shown(caseId: string): string[][];
  /** Requests that a provider would have refused. */
  breaches(caseId: string): Breach[];
  close(): Promise<void>;
}

export async function openStage(cases: readonly Case[]): Promise<Stage> {
  const ledger: LedgerEntry[] = [];
  const models = new Map<string, ScriptedLlm>(cases.map((played) => [played.id, scriptedLlm(scriptOf(played))]));
  const requestsOf = (caseId: string) => models.get(caseId)?.requests ?? [];

  async function answer(path: string | undefined, body: unknown): Promise<unknown> {
    if (path === '/effect') {
      const effect = body as Effect;
      const applied = !ledger.some(({ caseId, key }) => caseId === effect.caseId && key === effect.key);
      ledger.push({ ...effect, applied });
      return `${effect.tool} of step ${effect.seq} is done`;
    }
    const { caseId, request } = body as { caseId: string; request: LlmRequest };
    const model = models.get(caseId);
    if (path !== '/model' || model === undefined) throw new Error(`nothing at ${path} for case ${caseId}`);
    return model.complete(request, new AbortController().signal);
  }

  const server = createServer(async (request, response) => {
    try {
      const said = await answer(request.url, JSON.parse(await text(request)));
      response.end(JSON.stringify(said));
    } catch (thrown) {
      response.writeHead(500).end(String(thrown));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ledger: (caseId) => ledger.filter((entry) => entry.caseId === caseId),
    asked(caseId) {
      const last = requestsOf(caseId).filter(isLast).length;
      return { first: requestsOf(caseId).length - last, last };
    },
    shown: (caseId) =>
      requestsOf(caseId)
        .filter(isLast)
        .map(({ messages }) => messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []))),
    breaches: (caseId) =>
      requestsOf(caseId).flatMap((request) => findBreach(writeRequest(request, dialectOf(request.model))) ?? []),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function isLast({ messages }: Pick<LlmRequest, 'messages'>): boolean {
  return messages.some((message) => message.role === 'tool');
}

/** One turn of tools, then the answer. Where a step must die by its model, the first request for it is refused for good. */
function scriptOf({ kind, place }: Case): Script {
  const put = { name: 'put', arguments: { item: 'book' } };
  // Two calls that are alike: only their place tells them apart, and so their keys must differ.
  const calls = kind === 'once' ? [{ name: 'charge', arguments: { cents: 100 } }] : kind === 'llm' ? [put, put] : [put];
  let refuses = place === 'after_death' && (kind === 'llm' || kind === 'last');
  return (request) => {
    const last = isLast(request);
    if (refuses && last === (kind === 'last')) {
      refuses = false;
      return { fault: 'status', status: 400, message: 'the model is not in the mood' };
    }
    return last ? 'the shelf is in order' : { calls };
  };
}
