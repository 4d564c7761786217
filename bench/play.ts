/**
 * Plays measurements: each in a fresh child process, interleaved, repeated where others kept the machine busy meanwhile. What
 * cannot be measured is named with its reason.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { busyNow, othersShare } from './machine.js';
import { commandOf, type Services, type Task } from './measures/task.js';
import type { BenchServices } from './services.js';

/** A measurement is noisy, and done again, where others took more of the machine than this. */
const noisyShare = 0.08;
/** For a measurement beside the time that it is to watch. */
const childMs = 240_000;

export type Ask<T extends Task = Task> = T extends Task ? Omit<T, keyof Services> : never;

export interface Measured<T> {
  value: T;
  /** The share of the machine that others took meanwhile; null: unknown. */
  others: number | null;
}

export interface Player {
  measure<T>(label: string, ask: Ask): Promise<Measured<T>>;
  inProcess<T>(label: string, work: (services: Services) => Promise<T>): Promise<Measured<T>>;
}

export function createPlayer(services: BenchServices, say: (line: string) => void, tries: number): Player {
  const roots = [process.pid, services.pids.postgresPid, services.pids.redisPid];

  async function once<T>(work: (given: Services) => Promise<T>): Promise<Measured<T>> {
    const { drop, ...given } = await services.fresh();
    const from = await busyNow(roots);
    try {
      const value = await work(given);
      return { value, others: othersShare(from, await busyNow(roots)) };
    } finally {
      await drop();
    }
  }

  async function inProcess<T>(label: string, work: (given: Services) => Promise<T>): Promise<Measured<T>> {
    let best: Measured<T> | null = null;
    for (let n = 0; n < tries; n++) {
      const measured = await once(work);
      if (best === null || (measured.others ?? 0) < (best.others ?? 0)) best = measured;
      const isNoisy = (measured.others ?? 0) > noisyShare;
      say(
        `${label}: ${JSON.stringify(rounded(measured.value))}${isNoisy ? `, others took ${percent(measured.others)}` : ''}`,
      );
      if (!isNoisy) break;
    }
    if (best === null) throw new Error('a measurement needs at least one try');
    return best;
  }

  return { inProcess, measure: (label, ask) => inProcess(label, (given) => runChild({ ...ask, ...given } as Task)) };
}

export function percent(share: number | null): string {
  return share === null ? 'unknown' : `${Math.round(share * 100)} %`;
}

async function runChild<T>(task: Task): Promise<T> {
  const child = spawn(process.execPath, commandOf(task), {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = () => child.kill('SIGTERM');
  process.once('exit', end);
  const withinMs = childMs + ('seconds' in task ? task.seconds * 1_000 : 0);
  const late = setTimeout(end, withinMs);
  let out = '';
  let errors = '';
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (errors += String(chunk)));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  clearTimeout(late);
  process.off('exit', end);
  if (code === 0) return JSON.parse(out.trimEnd().split('\n').at(-1) ?? '') as T;
  const said =
    errors
      .trim()
      .split('\n')
      .find((line) => /error/i.test(line)) ?? errors.trim().split('\n').at(-1);
  throw new Error(signal === null ? said || `ended with ${code}` : `not done within ${withinMs / 1_000} s`);
}

function rounded(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_, item) => (typeof item === 'number' ? Number(item.toPrecision(4)) : item)),
  );
}
