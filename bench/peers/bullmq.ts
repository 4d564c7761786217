/** A bare chain on Redis: each job adds the next one. Nothing is recorded; this is the floor. */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Peer } from '../peer.js';
import { payloadOf } from '../work.js';

interface Data {
  run: string;
  step: number;
  steps: number;
  last: string;
}

export const bullmq: Peer = {
  title: 'bare BullMQ chain on Redis',
  packages: ['bullmq', 'ioredis'],
  how: 'each job adds the next; nothing is recorded',
  async open({ redisUrl, concurrency, work }) {
    const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
    const queue = new Queue<Data>('steps', { connection, defaultJobOptions: { removeOnComplete: true } });
    let ended = { left: 0, resolve: () => {}, reject: (_: Error) => {} };
    const worker = new Worker<Data>(
      'steps',
      async (job) => {
        const { run, step, steps, last } = job.data;
        if (step > 1 && last !== payloadOf(run, step - 1))
          throw new Error(`run ${run}: step ${step} got a wrong input`);
        const output = await work.perform(run, step);
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
      outputs: async () => null,
      recorded: async () => null,
      async close() {
        await worker.close();
        await queue.close();
        connection.disconnect();
      },
    };
  },
};
