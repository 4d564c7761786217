/**
 * A project with tools of a test's own, the `pawl worker` processes that serve it, and a client beside them. A worker that
 * dies can be started again at once, as a supervisor would.
 */
import pg from 'pg';
import { type Client, openClient } from '../../src/app.js';
import { type Script, startScriptedModel } from '../../src/testing/index.js';
import { type Dashboard, openDashboard } from '../chaos/dashboard.js';
import { quietLog } from '../support/quiet-log.js';
import { createTestDatabase, createTestRedis, type QueueBackend } from '../support/services.js';
import { makeProject, type Project, type Running } from './command.js';

export interface Fleet {
  client: Client;
  pool: pg.Pool;
  dashboard: Dashboard;
  project: Project;
  /** Deaths of workers so far. */
  deaths: number;
  startWorker(): Promise<Running>;
  /** Starts a worker, and another one whenever it dies. */
  keepWorker(): Promise<void>;
  /** Waits until the run is final or suspended. */
  settled(id: string): Promise<void>;
  close(): Promise<void>;
}

export interface FleetOptions {
  backend: QueueBackend;
  /** Text of pawl.config.ts. */
  config: string;
  script: Script;
  env?: Record<string, string>;
}

export async function openFleet({ backend, config, script, env = {} }: FleetOptions): Promise<Fleet> {
  const { url: databaseUrl } = await createTestDatabase();
  const redisUrl = backend === 'redis' ? (await createTestRedis()).url : null;
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2, application_name: 'the test' });
  const client = await openClient({ databaseUrl, redisUrl, log: quietLog });
  const dashboard = await openDashboard({ databaseUrl, redisUrl });
  const model = await startScriptedModel({ script });
  const project = makeProject(
    { 'pawl.config.ts': config },
    {
      DATABASE_URL: databaseUrl,
      ...(redisUrl === null ? {} : { REDIS_URL: redisUrl }),
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: 'sk-test',
      ...env,
    },
  );
  let closing = false;

  async function startWorker(): Promise<Running> {
    const worker = project.start(['worker']);
    await worker.says('worker ready');
    return worker;
  }

  const fleet: Fleet = {
    client,
    pool,
    dashboard,
    project,
    deaths: 0,
    startWorker,
    async keepWorker() {
      const worker = await startWorker();
      void worker.ended.then(() => {
        if (closing) return;
        fleet.deaths += 1;
        // The project ends with its workers, also one that is just starting.
        fleet.keepWorker().catch(() => {});
      });
    },
    async settled(id) {
      for await (const _ of client.runs.watch(id));
    },
    async close() {
      closing = true;
      await project.close();
      await dashboard.close();
      await client.close();
      await pool.end();
      await model.close();
    },
  };
  return fleet;
}
