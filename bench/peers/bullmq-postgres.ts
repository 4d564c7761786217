/** A bare chain on BullMQ's Postgres backend: each job writes its step's row and adds the next one. */
import { createPostgresBackend, runMigrations, withBackend } from 'bullmq';
import pg from 'pg';
import type { Peer } from '../peer.js';
import { openStepRows } from '../step-rows.js';

const { Queue, Worker } = withBackend(createPostgresBackend);

interface Data {
  run: string;
  step: number;
  steps: number;
  last: string;
}

export const bullmqPostgres: Peer = {
  title: "bare chain on BullMQ's Postgres backend",
  packages: ['bullmq', 'pg'],
  how: 'each job writes a step row, then adds the next',
  share: 0.5,
  async open({ databaseUrl, concurrency, work }) {
    const migrating = new pg.Client(databaseUrl);
    await migrating.connect();
    await runMigrations(migrating, 'bullmq');
    await migrating.end();
    const rows = await openStepRows(databaseUrl, 10);
    const connection = { connectionString: databaseUrl, schema: 'bullmq' };
    const queue = new Queue<Data>('steps', { connection, defaultJobOptions: { removeOnComplete: true } });
    let ended = { left: 0, resolve: () => {}, reject: (_: Error) => {} };
    const worker = new Worker<Data>(
      'steps',
      async (job) => {
        const { run, step, steps } = job.data;
        const output = await work.perform(run, step);
        await rows.insert(run, step, output);
        if (step < steps) await queue.add('step', { run, step: step + 1, steps, last: output });
        return step === steps;
      },
      { connection, concurrency },
    );
    worker.on('completed', (_, last) => {
      if (last) ended.left -= 1;
      if (ended.left === 0) ended.resolve();
    });
    worker.on('failed', (_, error) => ended.reject(error));
    await worker.waitUntilReady();
    return {
      async play(runs, steps) {
        const all = new Promise<void>((resolve, reject) => {
          ended = { left: runs.length, resolve, reject };
        });
        await queue.addBulk(runs.map((run) => ({ name: 'step', data: { run, step: 1, steps, last: '' } })));
        await all;
      },
      outputs: rows.outputs,
      recorded: rows.recorded,
      async close() {
        await worker.close();
        await queue.close();
        await rows.pool.end();
      },
    };
  },
};
