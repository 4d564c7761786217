/** graphile-worker: each job writes its step's row and adds the next one. */
import { Logger, makeWorkerUtils, parseCronItems, run as runWorker } from 'graphile-worker';
import { inLanes, type Peer } from '../peer.js';
import { openStepRows } from '../step-rows.js';

interface Payload {
  run: string;
  step: number;
  steps: number;
  last: string;
}

export const graphileWorker: Peer = {
  title: 'graphile-worker',
  packages: ['graphile-worker'],
  how: 'each job writes a step row, then adds the next',
  share: 0.5,
  async open({ databaseUrl, concurrency, work }) {
    const rows = await openStepRows(databaseUrl, 10);
    let ended = { left: 0, resolve: () => {}, reject: (_: Error) => {} };
    const logger = new Logger(() => () => {});
    const utils = await makeWorkerUtils({ connectionString: databaseUrl, logger });
    await utils.migrate();
    const runner = await runWorker({
      connectionString: databaseUrl,
      concurrency,
      maxPoolSize: 20,
      noHandleSignals: true,
      logger,
      parsedCronItems: parseCronItems([]),
      taskList: {
        async step(payload, helpers) {
          const { run, step, steps } = payload as Payload;
          const output = await work.perform(run, step);
          await rows.insert(run, step, output);
          if (step < steps) await helpers.addJob('step', { run, step: step + 1, steps, last: output });
        },
      },
    });
    runner.events.on('job:success', ({ job }) => {
      const { step, steps } = job.payload as Payload;
      if (step === steps) ended.left -= 1;
      if (ended.left === 0) ended.resolve();
    });
    runner.events.on('job:error', ({ error }) => ended.reject(error as Error));
    return {
      async play(runs, steps) {
        const all = new Promise<void>((resolve, reject) => {
          ended = { left: runs.length, resolve, reject };
        });
        await inLanes(runs, 10, (run) => utils.addJob('step', { run, step: 1, steps, last: '' }));
        await all;
      },
      outputs: rows.outputs,
      recorded: rows.recorded,
      async close() {
        await runner.stop();
        await utils.release();
        await rows.pool.end();
      },
    };
  },
};
