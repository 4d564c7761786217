/**
 * The queue engine: BullMQ on Redis where there is one, else on its own Postgres backend, behind the same two ports.
 * This folder is the only place that imports bullmq and ioredis. Next: queue.ts, consumer.ts, and what differs: ground.ts.
 */
import type { Pool } from 'pg';
import type { Consumer, Delivery, DeliveryEnd, Log, Queue } from '../ports.js';
import type { Board, BoardOptions } from './board.js';
import { openConsumer } from './consumer.js';
import type { Ground } from './ground.js';
import { openPostgres } from './postgres.js';
import { openQueue } from './queue.js';
import { answered } from './quiet.js';
import { openRedis } from './redis.js';

const answerWithinMs = 5_000;
/** Of several starters one migrates and the others wait for it. */
const migratedWithinMs = 60_000;

export type QueueOptions = {
  /** Queues by the engine's names: `llm`, `tool`, and the tool pools. */
  queues: readonly string[];
  log: Log;
} & (
  | {
      kind: 'redis';
      url: string;
      /** The database's instance id: it is part of every key. */
      prefixId: string;
      /** Do not fail when Redis does not answer now: a client's dispatches are then left to the sweep. */
      lazy?: boolean;
    }
  | {
      kind: 'postgres';
      /** With `search_path=bullmq`, direct, and of `queuePoolSize(workers)`; the caller ends it after `close`. */
      pool: Pool;
    }
);

interface ConsumerOptions {
  queues: readonly string[];
  /** Deliveries at once, for each queue. */
  concurrency: number;
  handler: (delivery: Delivery) => Promise<DeliveryEnd>;
  lockMs?: number | undefined;
}

export interface QueueBackend {
  kind: 'redis' | 'postgres';
  queue: Queue;
  /** A consumer that has not begun to fetch; its owner stops it before the backend is closed. */
  consumer(options: ConsumerOptions): Consumer;
  /** The dashboard of these queues; its owner closes it before the backend. */
  board(options: BoardOptions): Promise<Board>;
  /** Throws `queue_unreachable` unless the queue answers within 5 s. */
  ping(): Promise<void>;
  /** Never waits long for a server that is gone. */
  close(): Promise<void>;
}

/** Throws `queue_unreachable` when the queue does not answer, and `schema_mismatch` when its tables are of newer code. */
export async function connectQueue(options: QueueOptions): Promise<QueueBackend> {
  const { queues, log } = options;
  const ground = await openGround(options);
  const queue = openQueue({ ground, queues, log, answerWithinMs });
  return {
    kind: ground.kind,
    queue,
    consumer: (consumer) => openConsumer({ ...consumer, ground, log, answerWithinMs }),
    async board(options) {
      // Loaded here, since workers show no dashboard.
      const { openBoard } = await import('./board.js');
      return openBoard(ground, log, options);
    },
    ping: () => answered(answerWithinMs, 'the queue does not answer', () => ground.ping()),
    async close() {
      await queue.close();
      await ground.close();
    },
  };
}

async function openGround(options: QueueOptions): Promise<Ground> {
  if (options.kind === 'postgres') {
    return answered(migratedWithinMs, "preparing the queue's tables", () => openPostgres(options));
  }
  const ground = openRedis({ ...options, answerWithinMs });
  if (options.lazy) return ground;
  try {
    await answered(answerWithinMs, `Redis at ${withoutSecrets(options.url)} does not answer`, () => ground.ping());
    return ground;
  } catch (error) {
    await ground.close();
    throw error;
  }
}

function withoutSecrets(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return 'the given address';
  }
}
