/**
 * A worker in a process of its own that kills itself with SIGKILL in one gap of one step. It has loaded everything when its
 * order comes, as a first message. Deliveries of later steps wait for ever, so that what follows the step is left to
 * whoever comes after.
 */
import { once } from 'node:events';
import { startWorkerProcess } from '../../src/app.js';
import { castOf } from './cast.js';
import { type LogLine, logTo } from './log-lines.js';
import { isStruck, type Strike } from './strike.js';

export interface Order {
  databaseUrl: string;
  redisUrl: string | null;
  stageUrl: string;
  caseId: string;
  strike: Strike;
  heartbeatMs: number;
  deathMs: number;
  lockMs: number;
}

/** What it says to whoever sent the order: that it waits for it, that it works, or a line of its log. */
export type Said = { loaded: true } | { ready: true } | { line: LogLine };

process.on('disconnect', () => process.exit(1));
const say = (said: Said) => void process.send?.(said);
const ordered = once(process, 'message') as Promise<[Order]>;
say({ loaded: true });
const [order] = await ordered;
const never = new Promise<never>(() => {});

const { agent, llm } = castOf(order);
await startWorkerProcess({
  databaseUrl: order.databaseUrl,
  redisUrl: order.redisUrl,
  log: logTo((line) => say({ line })),
  role: 'all',
  agents: [agent],
  llm,
  concurrency: 2,
  queues: null,
  heartbeatMs: order.heartbeatMs,
  deathMs: order.deathMs,
  lockMs: order.lockMs,
  async onGap(gap, delivery) {
    if (delivery.seq > order.strike.seq) return never;
    if (!(await isStruck(order.strike, gap, delivery, order.databaseUrl))) return;
    process.kill(process.pid, 'SIGKILL');
    return never;
  },
});
say({ ready: true });
