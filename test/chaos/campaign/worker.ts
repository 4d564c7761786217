/**
 * A worker process of a campaign: an ordinary worker with the campaign's agents, told by a first message what to be. It
 * writes each gap that a delivery passes, so that what it held is known when it is killed, and does to itself what only the
 * process itself can do: die in a gap, or block its event loop. Every line is one write, so none is lost or torn.
 */
import { once } from 'node:events';
import { openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { startWorkerProcess } from '../../../src/app.js';
import type { OnGap } from '../../../src/engine/gaps.js';
import { createLog } from '../../../src/log.js';
import { createOpenAiLlm } from '../../../src/openai/llm.js';
import { clockOf, type Epoch } from './clock.js';
import { crewOf } from './crew.js';
import { files, type WorkerLine } from './evidence.js';
import type { WorkerCommand } from './worker-command.js';

export interface WorkerOrder {
  name: string;
  role: 'all' | 'steps' | 'maintenance';
  folder: string;
  epoch: Epoch;
  databaseUrl: string;
  redisUrl: string | null;
  modelUrl: string;
  worldUrl: string;
  apiKey: string;
  heartbeatMs: number;
  deathMs: number;
  shutdownMs: number;
  concurrency: number;
}

type Said = WorkerLine extends infer Line
  ? Line extends WorkerLine
    ? Omit<Line, 'at' | 'worker' | 'pid'>
    : never
  : never;

// It may have waited, loaded and ready, for the place of another to become free.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
const [order] = (await once(process, 'message')) as [WorkerOrder];
const now = clockOf(order.epoch);
const file = openSync(join(order.folder, files.workers), 'a');
const { pid } = process;

function say(said: Said): void {
  writeSync(file, `${JSON.stringify({ at: now(), worker: order.name, pid, ...said })}\n`);
}

const log = createLog({
  level: 'debug',
  dir: null,
  readable: false,
  secrets: [order.apiKey],
  write(line) {
    const { level, msg, time: _, pid: __, hostname: ___, ...fields } = JSON.parse(line) as Record<string, unknown>;
    if (msg === 'delivery refused') {
      const { runId, seq, dispatch, refusal } = fields as {
        runId: string;
        seq: number;
        dispatch: number;
        refusal: string;
      };
      return say({ what: 'refused', runId, seq, dispatch, refusal });
    }
    if (level !== 'debug') say({ what: 'log', level: String(level), msg: String(msg), fields });
  },
});

let armed: Extract<WorkerCommand, { gap: unknown }> | null = null;
const never = new Promise<never>(() => {});

const onGap: OnGap = (gap, { runId, seq, dispatch, attemptsMade }, claim) => {
  const step = claim?.step ?? null;
  const token = step?.claim?.token ?? null;
  say({ what: 'gap', gap, runId, seq, dispatch, attemptsMade, attempt: step?.attempt ?? null, token });
  if (armed === null || armed.gap !== gap) return;
  if (armed.do === 'stop_at') {
    armed = null;
    process.kill(pid, 'SIGSTOP');
    return;
  }
  if (armed.effect !== null && armed.effect !== (step?.kind === 'llm' ? 'llm' : step?.effect)) return;
  process.kill(pid, 'SIGKILL');
  return never;
};

const rough = (text: string) => Math.ceil(text.length / 4);
const worker = await startWorkerProcess({
  databaseUrl: order.databaseUrl,
  redisUrl: order.redisUrl,
  log,
  role: order.role,
  agents: crewOf(order.worldUrl),
  llm: {
    ...createOpenAiLlm({ baseUrl: order.modelUrl, apiKey: order.apiKey, log }),
    // The real tokenizer takes half a second to load, of a process that may live for one.
    countTokens: async (_, texts) => texts.map(rough),
    contextTokens: () => 128_000,
  },
  concurrency: order.concurrency,
  queues: null,
  heartbeatMs: order.heartbeatMs,
  deathMs: order.deathMs,
  onGap,
});
say({ what: 'ready', workerId: worker.workerId() });
process.send?.('ready');

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await worker.stop(order.shutdownMs);
  process.exit(0);
}
process.on('SIGTERM', stop);
process.on('SIGINT', () => {}); // a terminal's Ctrl-C is the supervisor's to answer
process.on('message', (command: WorkerCommand) => {
  if (command.do === 'die_at' || command.do === 'stop_at') armed = command;
  if (command.do === 'live') armed = null;
  if (command.do === 'block') {
    const until = performance.now() + command.ms;
    while (performance.now() < until);
  }
});
