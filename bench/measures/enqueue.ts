/** Runs a second that one client accepts through createPawl, with no worker running. */
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { createPawl } from '../../src/index.js';
import { startPawlWorker, startRuns } from '../peers/pawl.js';
import { Work } from '../work.js';
import type { EnqueueTask } from './task.js';
import { namesOf } from './throughput.js';

export interface Enqueue {
  runsPerSecond: number;
}

export async function measureEnqueue({ databaseUrl, redisUrl, runs }: EnqueueTask): Promise<Enqueue> {
  await migrate(databaseUrl);
  // A worker registers the agent, and is gone before the clock starts.
  const worker = await startPawlWorker({ databaseUrl, concurrency: 1, work: new Work() }, redisUrl);
  await worker.stop(5_000);
  const client = createPawl({ databaseUrl, redisUrl });
  await startRuns(client, namesOf('warm', 200), 20);
  const began = performance.now();
  await startRuns(client, namesOf('run', runs), 20);
  const seconds = (performance.now() - began) / 1_000;
  await client.close();
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from pawl.runs');
  await pool.end();
  if (rows[0]?.n !== runs + 200) throw new Error(`${rows[0]?.n} runs were accepted instead of ${runs + 200}`);
  return { runsPerSecond: runs / seconds };
}
