/** A worker of Pawl's in a process of its own: as a child that serves one, and as its parent that starts one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { startPawlWorker } from '../peers/pawl.js';
import { Work } from '../work.js';
import { commandOf, type WorkerTask } from './task.js';

class SlowWork extends Work {
  readonly #workMs: number;
  constructor(workMs: number) {
    super();
    this.#workMs = workMs;
  }
  override async perform(run: string, step: number): Promise<string> {
    if (this.#workMs > 0) await delay(this.#workMs);
    return super.perform(run, step);
  }
}

export async function serveWorker(task: WorkerTask): Promise<void> {
  const work = new SlowWork(task.workMs);
  const worker = await startPawlWorker({ ...task, work }, task.redisUrl);
  process.stdout.write('ready\n');
  process.stdin.resume();
  await once(process.stdin, 'end');
  await worker.stop(5_000);
  process.exit(0);
}

export interface StartedWorker {
  pid: number;
  stop(): Promise<void>;
}

export async function startWorkerChild(task: WorkerTask): Promise<StartedWorker> {
  const child: ChildProcess = spawn(process.execPath, commandOf(task), {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit');
  await Promise.race([
    once(child.stdout ?? child, 'data'),
    gone.then(() => {
      throw new Error('a worker process ended at its start');
    }),
  ]);
  return {
    pid: child.pid ?? 0,
    async stop() {
      child.stdin?.end();
      await gone;
    },
  };
}
