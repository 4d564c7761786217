/**
 * The world outside, as a process of its own that is never killed: the model and the effect ledger, over HTTP. Told by its
 * first argument what to be; says its addresses to the supervisor, and ends with it.
 */
import { createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { clockOf, type Epoch } from './clock.js';
import type { EffectOrder } from './crew.js';
import { files } from './evidence.js';
import { openLedger } from './ledger.js';
import { startCampaignModel } from './model.js';
import { lateMs } from './trade.js';

export interface WorldOrder {
  folder: string;
  seed: number;
  epoch: Epoch;
  apiKey: string;
  /** By so much longer than planned each call of the model or a tool takes. */
  callMs: number;
}

export interface WorldAddresses {
  modelUrl: string;
  worldUrl: string;
}

const order = JSON.parse(process.argv[2] ?? '') as WorldOrder;
process.on('disconnect', () => process.exit(1));
process.on('SIGINT', () => {}); // a terminal's Ctrl-C is the supervisor's to answer

const now = clockOf(order.epoch);
const ledger = openLedger(join(order.folder, files.ledger), order.seed, now);
const modelLog = createWriteStream(join(order.folder, files.model), { flags: 'a' });
const model = await startCampaignModel({
  ...order,
  now,
  write: (call) => void modelLog.write(`${JSON.stringify(call)}\n`),
});

const server = createServer(async (request, response) => {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const body: unknown = JSON.parse(await text(request));
    response.end(JSON.stringify(await answer(request.url ?? '', body, gone.signal)));
  } catch (thrown) {
    if (!response.destroyed) response.writeHead(500).end(String(thrown));
  }
});

async function answer(path: string, body: unknown, gone: AbortSignal): Promise<unknown> {
  if (path === '/fate') {
    const { runId, seq } = body as { runId: string; seq: number };
    return ledger.fate(runId, seq);
  }
  if (path !== '/effect' && path !== '/once') throw new Error(`nothing at ${path}`);
  const hit = ledger.hit(body as EffectOrder, path === '/effect');
  await delay(order.callMs + hit.waitMs + (hit.late ? lateMs : 0), undefined, { signal: gone });
  return hit.answer;
}

server.listen(0, '127.0.0.1', () => {
  const worldUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const addresses: WorldAddresses = { worldUrl, modelUrl: model.url };
  process.send?.(addresses);
});

process.once('message', async () => {
  // Told to end: what was written is on disk before it says so.
  await model.close();
  server.closeAllConnections();
  ledger.close();
  modelLog.end(() => process.exit(0));
});
