/**
 * What differs between the two places BullMQ can keep its jobs, Redis and Postgres: how connections are made, and the few
 * questions asked of many jobs at once, which BullMQ's own interface answers only one job at a time.
 * See redis.ts and postgres.ts.
 */
import type { BackendFactory, ConnectionOptions, IQueueBackend } from 'bullmq';
import type { Presence } from '../ports.js';

/** A job by its queue's name in BullMQ and its id. */
export interface JobRef {
  name: string;
  id: string;
}

export interface Ground {
  readonly kind: 'redis' | 'postgres';
  readonly factory: BackendFactory<IQueueBackend>;
  /** Connection of queues: shared, fails fast. Connection of workers: their own, waits for a server that is away. */
  readonly queueConnection: ConnectionOptions;
  readonly workerConnection: ConnectionOptions;
  readonly prefix: string;
  ping(): Promise<void>;
  /** Waits for the first connection while that is being made; fails with it. */
  opened(): Promise<void>;
  /** Where each job is, in the order given. */
  probe(jobs: readonly JobRef[]): Promise<Presence[]>;
  /** The epoch all these queues hold; null as soon as one of them holds none or another. */
  readEpoch(names: readonly string[]): Promise<string | null>;
  writeEpoch(names: readonly string[], epoch: string): Promise<void>;
  /** Whether the error came from tables that were dropped, and they stand again: then the caller tries once more. */
  heal(error: unknown): Promise<boolean>;
  close(): Promise<void>;
}

/** Events kept in each queue's stream. Nobody replays them; dashboards look at the last ones. */
export const keptEvents = 1_000;

export function inChunks<T>(items: readonly T[], size: number): T[][] {
  const chunks: T[][] = [];
  for (let at = 0; at < items.length; at += size) chunks.push(items.slice(at, at + size));
  return chunks;
}
