/** A worker in a process of its own that kills itself where it is told to: see victim.ts. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { until } from './until.js';
import type { Order } from './victim.js';

const victim = fileURLToPath(new URL('victim.ts', import.meta.url));

/** Starts the worker, calls `whenUp`, and resolves once the worker has killed itself. */
export async function killWorker(order: Order, whenUp: () => Promise<void>, withinMs: number): Promise<void> {
  const child = spawn(process.execPath, ['--import', 'tsx', victim, JSON.stringify(order)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  try {
    await Promise.race([once(child, 'message'), once(child, 'exit')]);
    await whenUp();
    await until(`a worker to kill itself ${order.strike.gap} of step ${order.strike.seq}`, withinMs, isOver);
    if (child.signalCode !== 'SIGKILL') throw new Error(`the worker to be killed exited with ${child.exitCode}`);
  } finally {
    if (!isOver()) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  }
}
