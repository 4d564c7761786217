/**
 * Starts the demo's workers as processes of their own, by the loader this process runs by: tsx in a clone, plain Node in an
 * installed package. A worker can be killed where it stands; what is left at the end is told to stop, then made to.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PawlError } from '../core/errors.js';
import type { WorkerOrder, WorkerWord } from './worker.js';

export interface DemoWorker {
  pid: number;
  /** As the rows name it. */
  id: string;
  /** How the process ended, where it has, and where its log lies; null while it lives. */
  ended(): string | null;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

const startMs = 60_000;
const stopMs = 5_000;

/** Resolves when the worker has registered and takes steps. `logFile`: where its log goes. */
export async function startDemoWorker(order: WorkerOrder, logFile: string, signal: AbortSignal): Promise<DemoWorker> {
  const log = await open(logFile, 'a');
  const child = fork(entry.file, [], { execArgv: entry.execArgv, stdio: ['ignore', log.fd, log.fd, 'ipc'] });
  await log.close();
  child.on('error', () => {}); // a process that could not be started ends, too
  child.send(order, () => {});
  try {
    const id = await readiness(child, logFile, AbortSignal.any([signal, AbortSignal.timeout(startMs)]));
    return {
      pid: child.pid ?? 0,
      id,
      ended: () => (endOf(child) === null ? null : `${endOf(child)}; its log is ${logFile}`),
      kill: () => kill(child),
      stop: () => stop(child),
    };
  } catch (error) {
    await kill(child);
    signal.throwIfAborted();
    throw error;
  }
}

const entry = entryOf(import.meta.url);

function entryOf(url: string): { file: string; execArgv: string[] } {
  const isSource = url.endsWith('.ts');
  const file = fileURLToPath(new URL(isSource ? './worker.ts' : './worker.js', url));
  const loader = () => pathToFileURL(createRequire(url).resolve('tsx')).href;
  return { file, execArgv: isSource ? ['--import', loader()] : [] };
}

async function readiness(child: ChildProcess, logFile: string, signal: AbortSignal): Promise<string> {
  const said = once(child, 'message', { signal }) as Promise<[WorkerWord]>;
  const gone = once(child, 'exit', { signal });
  gone.catch(() => {});
  said.catch(() => {});
  const word = await Promise.race([
    said.then(([word]) => word),
    gone.then(async (): Promise<WorkerWord> => failure(`${endOf(child)}${await lastLines(logFile)}`)),
  ]).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    return failure(`it said nothing for ${startMs / 1_000} s`);
  });
  if ('ready' in word) return word.ready;
  throw new PawlError(word.code, `a worker of the demo did not start: ${word.failed}\nIts log is ${logFile}`);
}

const failure = (failed: string): WorkerWord => ({ failed, code: 'internal' });

async function lastLines(logFile: string): Promise<string> {
  const text = await readFile(logFile, 'utf8').catch(() => '');
  const lines = text.trim().split('\n').slice(-5).join('\n');
  return lines === '' ? '' : `\n${lines}`;
}

function endOf({ exitCode, signalCode }: ChildProcess): string | null {
  if (signalCode !== null) return `it was ended by ${signalCode}`;
  return exitCode === null ? null : `it ended with status ${exitCode}`;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || endOf(child) !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || endOf(child) !== null) return;
  const gone = once(child, 'exit');
  if (child.connected) child.disconnect();
  const timer = new AbortController();
  await Promise.race([gone, delay(stopMs, undefined, { signal: timer.signal }).catch(() => {})]);
  timer.abort();
  await kill(child);
}
