/** Memory of a worker process with many runs queued and many steps in flight, against the same process idle. */
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
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
  await startRuns(client, namesOf('run', queued), 20);
  const samples: number[] = [];
  for (let n = 0; n < seconds * 4; n++) {
    samples.push(await residentMb(worker.pid));
    await delay(250);
  }
  await client.close();
  await worker.stop();
  const fifth = Math.ceil(samples.length / 5);
  const driftMb = median(samples.slice(-fifth)) - median(samples.slice(0, fifth));
  return { idleMb, busyMb: median(samples), mostMb: Math.max(...samples), driftMb, seconds };
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1_024;
}
