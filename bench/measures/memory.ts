/** Memory of a worker process with many runs queued and many steps in flight, against the same process idle. */
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { createPawl } from '../../src/index.js';
import { startRuns } from '../peers/pawl.js';
import { median } from './numbers.js';
import type { MemoryTask } from './task.js';
import { namesOf } from './throughput.js';
import { startWorkerChild } from './worker-process.js';

export interface Memory {
  idleMb: number;
  /** The median and the most over the time observed. */
  busyMb: number;
  mostMb: number;
  /** The median of the last fifth less that of the first. */
  driftMb: number;
  seconds: number;
}

const refillSeconds = 30;
const looksASecond = 4;

export async function measureMemory(task: MemoryTask): Promise<Memory> {
  const { databaseUrl, redisUrl, queued, inFlight, seconds } = task;
  await migrate(databaseUrl);
  const worker = await startWorkerChild({
    databaseUrl,
    redisUrl,
    measure: 'worker',
    concurrency: inFlight,
    workMs: 1_000,
  });
  await delay(3_000);
  const idleMb = await residentMb(worker.pid);
  const client = createPawl({ databaseUrl, redisUrl });
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const samples: number[] = [];
  const began = performance.now();
  const elapsed = () => (performance.now() - began) / 1_000;
  for (let refills = 0; elapsed() < seconds; ) {
    // As many are queued at the end as at the beginning, however long it is watched.
    if (elapsed() >= refills * refillSeconds) {
      refills += 1;
      await startRuns(client, namesOf(`run${refills}-`, queued - (await openRuns(database))), 20);
    }
    samples.push(await residentMb(worker.pid));
    await delay(1_000 / looksASecond);
  }
  await database.end();
  await client.close();
  await worker.stop();
  const fifth = Math.ceil(samples.length / 5);
  const driftMb = median(samples.slice(-fifth)) - median(samples.slice(0, fifth));
  return { idleMb, busyMb: median(samples), mostMb: Math.max(...samples), driftMb, seconds };
}

async function openRuns(database: pg.Client): Promise<number> {
  const { rows } = await database.query<{ n: number }>(
    'select count(*)::int as n from pawl.runs where finished_at is null',
  );
  return rows[0]?.n ?? 0;
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1_024;
}
