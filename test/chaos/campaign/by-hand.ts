/** The queues as a person at a dashboard has them: BullMQ itself on the same jobs, round the proxy. */
import { type ConnectionOptions, createPostgresBackend, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { PostgresService } from './postgres-service.js';

export const queueNames = ['llm', 'tool', 'dock'] as const;
export type QueueName = (typeof queueNames)[number];

export interface QueuesByHand {
  queue(name: QueueName): Queue;
  /** Whoever puts an old copy back looks whether somebody had paused what was copied. */
  resumeAll(): Promise<void>;
  close(): Promise<void>;
}

export async function openQueuesByHand(postgres: PostgresService, redisUrl: string | null): Promise<QueuesByHand> {
  const open = redisUrl === null ? onPostgres(postgres.url) : await onRedis(postgres, redisUrl);
  const queues = new Map<QueueName, Queue>();
  function queue(name: QueueName): Queue {
    const known = queues.get(name);
    if (known !== undefined) return known;
    const made = open.make(`pawl-${name}`);
    made.on('error', () => {}); // the service is being broken
    queues.set(name, made);
    return made;
  }
  return {
    queue,
    async resumeAll() {
      await Promise.allSettled(queueNames.map((name) => queue(name).resume()));
    },
    async close() {
      await Promise.allSettled([...queues.values()].map((queue) => queue.close()));
      await open.end();
    },
  };
}

function onPostgres(url: string) {
  const pool = new pg.Pool({
    connectionString: url,
    max: 4,
    application_name: 'campaign',
    options: '-c search_path=bullmq',
    connectionTimeoutMillis: 5_000,
  });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return {
    make: (name: string) => new Queue(name, { connection: pool }, createPostgresBackend) as unknown as Queue,
    end: () => pool.end(),
  };
}

async function onRedis(postgres: PostgresService, redisUrl: string) {
  const { rows } = await postgres.use((client) => client.query<{ id: string }>('select id from pawl.instance'));
  const client = new Redis(redisUrl, {
    maxRetriesPerRequest: null,
    retryStrategy: () => 100,
    connectionName: 'campaign',
  });
  client.on('error', () => {});
  return {
    make: (name: string) =>
      new Queue(name, {
        connection: client as ConnectionOptions,
        prefix: `{pawl:${rows[0]?.id}}`,
        skipVersionCheck: true,
      }),
    end: async () => client.disconnect(),
  };
}
