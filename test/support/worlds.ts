/**
 * A whole Pawl for one test: a database and a queue of its own, a client, and workers of this process, with a scripted model
 * and times short enough for a test. `stopAll` leaves nothing open.
 */

import { type Client, openClient, startWorkerProcess, type WorkerProcess, type WorkerSettings } from '../../src/app.js';
import type { Agent } from '../../src/core/agent.js';
import type { RunView } from '../../src/core/view.js';
import type { Llm } from '../../src/ports.js';
import { quietLog } from './quiet-log.js';
import { createTestDatabase, createTestRedis, type QueueBackend } from './services.js';

export interface World {
  client: Client;
  databaseUrl: string;
  redisUrl: string | null;
  startWorker(
    settings: Pick<WorkerSettings, 'agents'> & { llm: Llm } & Partial<WorkerSettings>,
  ): Promise<WorkerProcess>;
  /** Waits until the run is final or suspended. */
  settled(id: string): Promise<RunView>;
  stopAll(): Promise<void>;
}

export async function openWorld(backend: QueueBackend): Promise<World> {
  const database = await createTestDatabase();
  const redis = backend === 'redis' ? await createTestRedis() : null;
  const services = { databaseUrl: database.url, redisUrl: redis?.url ?? null, log: quietLog };
  const client = await openClient(services);
  const workers: WorkerProcess[] = [];
  return {
    client,
    databaseUrl: database.url,
    redisUrl: redis?.url ?? null,
    async startWorker(settings) {
      const worker = await startWorkerProcess({
        ...services,
        role: 'all',
        concurrency: 5,
        queues: null,
        heartbeatMs: 200,
        deathMs: 2_000,
        ...settings,
      });
      workers.push(worker);
      return worker;
    },
    async settled(id) {
      for await (const _ of client.runs.watch(id));
      return client.runs.get(id);
    },
    async stopAll() {
      await Promise.all(workers.map((worker) => worker.stop(5_000)));
      await client.close();
    },
  };
}

export function agentsOf(...agents: Agent[]): Agent[] {
  return agents.map((agent) => agent.withDefaultModel('scripted'));
}
