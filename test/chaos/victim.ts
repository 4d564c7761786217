/**
 * A worker in a process of its own that kills itself with SIGKILL in one gap of one step, told by its first argument.
 * Deliveries of later steps wait for ever, so that what follows the step is left to whoever comes after.
 */
import { startWorkerProcess } from '../../src/app.js';
import type { Log } from '../../src/ports.js';
import { castOf } from './cast.js';
import { isStruck, type Strike } from './strike.js';

export interface Order {
  databaseUrl: string;
  redisUrl: string | null;
  stageUrl: string;
  caseId: string;
  strike: Strike;
  heartbeatMs: number;
  deathMs: number;
}

const order = JSON.parse(process.argv[2] ?? '') as Order;
process.on('disconnect', () => process.exit(1));

const quiet = () => {};
const loud = (fields: object, message: string) =>
  console.error(JSON.stringify({ case: order.caseId, ...fields, message }));
const log: Log = { debug: quiet, info: quiet, warn: quiet, error: loud, child: () => log };
const never = new Promise<never>(() => {});

const { agent, llm } = castOf(order);
await startWorkerProcess({
  databaseUrl: order.databaseUrl,
  redisUrl: order.redisUrl,
  log,
  role: 'all',
  agents: [agent],
  llm,
  concurrency: 2,
  queues: null,
  heartbeatMs: order.heartbeatMs,
  deathMs: order.deathMs,
  async onGap(gap, delivery) {
    if (delivery.seq > order.strike.seq) return never;
    if (!(await isStruck(order.strike, gap, delivery, order.databaseUrl))) return;
    process.kill(process.pid, 'SIGKILL');
    return never;
  },
});
process.send?.('ready');
