/**
 * A worker process of the demo: an ordinary worker, whose agent and settings come by message from the demo's own process
 * and not from a config file. It ends in good order when that process lets go of it or dies. Next: worker-child.ts.
 */
import { once } from 'node:events';
import { startWorkerProcess } from '../app.js';
import type { Settings } from '../config.js';
import { describeThrown, type ErrorCode, PawlError } from '../core/errors.js';
import { createLog } from '../log.js';
import { createOpenAiLlm, type ModelSettings } from '../openai/llm.js';
import { type AnalystOptions, analyst } from './analyst.js';

export interface WorkerOrder {
  databaseUrl: string;
  redisUrl: string | null;
  analyst: AnalystOptions;
  llm: {
    baseUrl: string;
    apiKey: string | null;
    proxy: Settings['proxy'];
    models: Record<string, ModelSettings>;
  };
  settings: Pick<
    Settings,
    'concurrency' | 'heartbeatMs' | 'deathMs' | 'shutdownMs' | 'logLevel' | 'logDir' | 'secrets'
  >;
}

export type WorkerWord = { ready: string } | { failed: string; code: ErrorCode };

// A terminal's Ctrl-C reaches this process, too: it is the demo's own process that ends it.
process.on('SIGINT', () => {});
const left = once(process, 'disconnect');
const [order] = (await once(process, 'message')) as [WorkerOrder];
const { logLevel: level, logDir: dir, secrets, ...settings } = order.settings;
const log = createLog({ level, dir, secrets, readable: false });
try {
  const worker = await startWorkerProcess({
    ...settings,
    databaseUrl: order.databaseUrl,
    redisUrl: order.redisUrl,
    role: 'all',
    agents: [analyst(order.analyst)],
    llm: createOpenAiLlm({ ...order.llm, log }),
    queues: null,
    log,
  });
  say({ ready: worker.workerId() ?? '' });
  await left;
  await worker.stop(settings.shutdownMs);
  process.exit(0);
} catch (error) {
  log.error({ cause: error }, 'the worker of the demo could not start');
  say({ failed: describeThrown(error), code: error instanceof PawlError ? error.code : 'internal' });
  await left;
  process.exit(1);
}

function say(word: WorkerWord): void {
  if (process.connected) process.send?.(word);
}
