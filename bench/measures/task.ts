/** What main asks of a child. Each carries the services, a database of its own and an empty Redis. */
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../child.ts', import.meta.url));
const compiled = new URL('../compiled.mjs', import.meta.url).href;

/** Arguments of Node's that start a child for a task. */
export function commandOf(task: Task): string[] {
  return ['--import', 'tsx', '--import', compiled, file, JSON.stringify(task)];
}

export interface Services {
  databaseUrl: string;
  redisUrl: string;
}

export interface ThroughputTask extends Services {
  measure: 'throughput';
  peer: string;
  concurrency: number;
  runs: number;
  steps: number;
  warmUpMs: number;
  aloneRuns: number;
}

export interface GrowthTask extends Services {
  measure: 'growth';
  peer: string;
  /** Steps of the one run. */
  steps: number;
}

export interface WorkersTask extends Services {
  measure: 'workers';
  workers: number;
  warmUpMs: number;
  concurrency: number;
  runs: number;
  steps: number;
}

export interface MemoryTask extends Services {
  measure: 'memory';
  queued: number;
  inFlight: number;
  seconds: number;
}

export interface PartsTask extends Services {
  measure: 'parts';
  warmUpMs: number;
  concurrency: number;
  runs: number;
  steps: number;
  postgresPid: number;
  redisPid: number;
}

export interface EnqueueTask extends Services {
  measure: 'enqueue';
  runs: number;
}

/** A worker of Pawl's that lives until its input is closed. */
export interface WorkerTask extends Services {
  measure: 'worker';
  concurrency: number;
  /** How long the work of a step takes. */
  workMs: number;
}

export type Task = ThroughputTask | GrowthTask | WorkersTask | MemoryTask | PartsTask | EnqueueTask | WorkerTask;
