/** Steps a second of one or more worker processes of Pawl's, driven by a client in a process of its own. */
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { createPawl } from '../../src/index.js';
import { startRuns } from '../peers/pawl.js';
import type { WorkersTask } from './task.js';
import { namesOf, warmUp } from './throughput.js';
import { startWorkerChild } from './worker-process.js';

export interface Workers {
  stepsPerSecond: number;
}

export async function measureWorkers(task: WorkersTask): Promise<Workers> {
  const { databaseUrl, redisUrl, runs, steps } = task;
  await migrate(databaseUrl);
  const start = () => startWorkerChild({ ...task, measure: 'worker', workMs: 0 });
  const workers = await Promise.all(Array.from({ length: task.workers }, start));
  const client = createPawl({ databaseUrl, redisUrl });
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  let warmed = 0;
  await warmUp(task.warmUpMs, async (name) => {
    await startRuns(client, namesOf(name, 50), steps);
    warmed += 50;
    await untilCompleted(pool, warmed);
  });
  const began = performance.now();
  await startRuns(client, namesOf('run', runs), steps);
  await untilCompleted(pool, warmed + runs);
  const seconds = (performance.now() - began) / 1_000;
  await client.close();
  await pool.end();
  await Promise.all(workers.map((worker) => worker.stop()));
  return { stepsPerSecond: (runs * steps) / seconds };
}

async function untilCompleted(pool: pg.Pool, runs: number): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ completed: number; failed: number }>(
      `select count(*) filter (where status = 'completed')::int as completed,
              count(*) filter (where status = 'failed')::int as failed from pawl.runs`,
    );
    if ((rows[0]?.failed ?? 0) > 0) throw new Error(`${rows[0]?.failed} runs failed`);
    if (rows[0]?.completed === runs) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
