/**
 * The queue dashboard: bull-board on the same jobs as the workers', as an app to be mounted. Its buttons move jobs and no
 * rows: Retry on a failed job makes a delivery that redrives its run, and whatever else they do the sweep makes good.
 */
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import { Queue as BullQueue } from 'bullmq';
import type { Hono } from 'hono';
import type { Log } from '../ports.js';
import type { Ground } from './ground.js';
import { bullName, queueOptions } from './job.js';
import { quietly, settledWithin } from './quiet.js';

export interface BoardOptions {
  /** Queues by the engine's names. */
  queues: readonly string[];
  /** Where it is mounted, without a slash at its end. */
  basePath: string;
  /** Where a run is to be seen. */
  linkOf: (runId: string) => string;
}

export interface Board {
  app: Hono;
  close(): Promise<void>;
}

export function openBoard(ground: Ground, log: Log, { queues, basePath, linkOf }: BoardOptions): Board {
  const opened = queues.map((name) => openQueue(ground, log, name));
  const serverAdapter = new HonoAdapter(serveStatic).setBasePath(basePath);
  createBullBoard({
    queues: opened.map((queue) => adapterOf(queue, linkOf)),
    serverAdapter,
    options: {
      uiConfig: {
        boardTitle: 'Pawl queues',
        hideDocsLink: true,
        miscLinks: [{ text: 'Runs as JSON', url: linkOf('') }],
        pollingInterval: { showSetting: true },
      },
    },
  });
  return {
    app: serverAdapter.registerPlugin() as unknown as Hono,
    async close() {
      await settledWithin(1_000, Promise.allSettled(opened.map((queue) => queue.close())));
    },
  };
}

function openQueue(ground: Ground, log: Log, name: string): BullQueue {
  const queue = new BullQueue(bullName(name), queueOptions(ground), ground.factory);
  queue.on('error', quietly(log, { queue: name, board: true }));
  return queue as unknown as BullQueue;
}

function adapterOf(queue: BullQueue, linkOf: BoardOptions['linkOf']): BullMQAdapter {
  const adapter = new BullMQAdapter(queue, {
    externalJobUrl: ({ data }) => {
      const { runId } = idsOf(data);
      return typeof runId === 'string' ? { displayText: 'Run', href: linkOf(runId) } : { href: linkOf('') };
    },
  });
  // Jobs of Pawl hold ids and notes. Whatever somebody else put into one is not shown.
  adapter.setFormatter('data', idsOf);
  adapter.setFormatter('returnValue', (value) =>
    typeof value === 'string' ? value.slice(0, longestNote) : hidden(value),
  );
  adapter.setFormatter('progress', (value) => (typeof value === 'number' ? value : 0));
  return adapter;
}

const longestNote = 200;
const shownIds = new Set(['runId', 'seq', 'dispatch']);

function idsOf(data: unknown): Record<string, unknown> {
  if (typeof data !== 'object' || data === null) return {};
  return Object.fromEntries(
    Object.entries(data).map(([name, value]) => [
      name.slice(0, 100),
      shownIds.has(name) && (typeof value === 'number' || isId(value)) ? value : hidden(value),
    ]),
  );
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && /^[\w-]{1,128}$/.test(value);
}

function hidden(value: unknown): unknown {
  return value === null || value === undefined ? value : '[not shown]';
}
