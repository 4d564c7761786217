/** What main asks of a child. Each carries the services, a database of its own and an empty Redis. */

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
  warmUpRuns: number;
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
