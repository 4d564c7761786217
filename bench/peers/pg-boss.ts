/**
 * pg-boss: jobs are fetched in batches; each writes its step's row and sends the next one. Its worker polls every half a
 * second at the fastest, so it is told of each new job (`notifyWorker`), as its documentation offers.
 */
import PgBoss from 'pg-boss';
import type { Peer } from '../peer.js';
import { openStepRows } from '../step-rows.js';

interface Data {
  run: string;
  step: number;
  steps: number;
  last: string;
}

export const pgBoss: Peer = {
  title: 'pg-boss',
  packages: ['pg-boss'],
  how: 'batches of jobs; each writes a step row, then sends the next and wakes the worker up',
  share: 0.5,
  async open({ databaseUrl, concurrency, work }) {
    const rows = await openStepRows(databaseUrl, 10);
    const boss = new PgBoss({ connectionString: databaseUrl });
    let ended = { left: 0, resolve: () => {}, reject: (_: Error) => {} };
    boss.on('error', (error) => ended.reject(error));
    await boss.start();
    await boss.createQueue('steps');
    let worker = '';
    const perform = async ({ run, step, steps }: Data) => {
      const output = await work.perform(run, step);
      await rows.insert(run, step, output);
      if (step < steps) await boss.send('steps', { run, step: step + 1, steps, last: output });
      else ended.left -= 1;
      boss.notifyWorker(worker);
    };
    worker = await boss.work<Data>('steps', { batchSize: concurrency, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      await Promise.all(jobs.map(({ data }) => perform(data))).catch((error) => ended.reject(error));
      if (ended.left === 0) ended.resolve();
    });
    return {
      async play(runs, steps) {
        const all = new Promise<void>((resolve, reject) => {
          ended = { left: runs.length, resolve, reject };
        });
        await boss.insert(runs.map((run) => ({ name: 'steps', data: { run, step: 1, steps, last: '' } })));
        boss.notifyWorker(worker);
        await all;
      },
      outputs: rows.outputs,
      recorded: rows.recorded,
      async close() {
        await boss.stop({ graceful: false });
        await rows.pool.end();
      },
    };
  },
};
