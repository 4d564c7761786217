/** What people do to jobs by hand: add old ones, double ones and nonsense, remove, pause, retry and obliterate them all. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { type QueueName, queueNames } from './by-hand.js';
import { between, type FaultMaker, type Made, type Scene } from './faults.js';
import type { Random } from './random.js';

type Work = (queue: Queue, scene: Scene, random: Random) => Promise<Record<string, unknown>>;

/** A queue whose server is away at the moment answers nobody: what takes longer has failed. */
const patienceMs = 8_000;

const on =
  (work: Work) =>
  async (scene: Scene, random: Random): Promise<Made> => {
    const name = random.pick(queueNames);
    const done = work(scene.queues.queue(name), scene, random);
    done.catch(() => {});
    const target = `pawl-${name}`;
    return Promise.race([
      done.then((details) => ({ target, details })),
      delay(patienceMs, { target, failed: 'the queue did not answer' }),
    ]);
  };

interface KnownStep {
  run_id: string;
  seq: number;
  queue: string;
  dispatch: number;
}

async function someSteps(scene: Scene): Promise<KnownStep[]> {
  const { rows } = await scene.postgres.use((client) =>
    client.query<KnownStep>(
      `select run_id, seq, queue, dispatch from pawl.steps where dispatch > 0 order by random() limit 12`,
    ),
  );
  return rows;
}

async function addByHand(scene: Scene, random: Random): Promise<Made> {
  const steps = await someSteps(scene);
  let added = 0;
  for (const { run_id: runId, seq, queue, dispatch } of steps) {
    const isKnown = queueNames.includes(queue as QueueName);
    const jobs = scene.queues.queue(isKnown ? (queue as QueueName) : 'tool');
    // The current one once more, an older one, or one that is yet to come.
    const n = random.pick([dispatch, Math.max(1, dispatch - 1), 1, dispatch + 1]);
    const data = { runId, seq, dispatch: n };
    const id = `${runId}.${seq}.${n}`;
    const malformed = [
      {},
      null,
      'a text',
      { runId },
      { ...data, seq: -1 },
      { ...data, runId: '../..' },
      { ...data, dispatch: 1e20 },
    ];
    const isSound = random.chance(0.7);
    await jobs.add('step', isSound ? data : random.pick(malformed), {
      jobId: isSound ? id : `by-hand-${random.int(0, 1e9)}`,
      removeOnComplete: true,
    });
    added += 1;
  }
  return { target: 'queues', details: { added } };
}

export const jobFaults: FaultMaker[] = [
  {
    kind: 'jobs_added',
    weight: 6,
    make: (scene, random) =>
      Promise.race([
        addByHand(scene, random),
        delay(patienceMs, { target: 'queues', failed: 'the queue did not answer' }),
      ]),
  },
  {
    kind: 'jobs_removed',
    weight: 3,
    make: on(async (queue) => {
      await queue.drain(true);
      const removed = await Promise.all(
        (['completed', 'failed', 'delayed'] as const).map((state) => queue.clean(0, 5_000, state)),
      );
      return { removed: removed.flat().length };
    }),
  },
  {
    kind: 'jobs_paused',
    weight: 3,
    make: on(async (queue, { times }, random) => {
      const forMs = between(random, times.awayMs);
      await queue.pause();
      await delay(forMs);
      await queue.resume();
      return { forMs };
    }),
  },
  {
    kind: 'jobs_retried',
    weight: 4,
    make: on(async (queue, _, random) => {
      if (random.chance(0.5)) {
        await queue.retryJobs({ state: 'failed' });
        return { by: 'retryJobs' };
      }
      const failed = await queue.getFailed(0, 50);
      const retried = await Promise.allSettled(failed.map((job) => job.retry('failed')));
      return { by: 'retry', retried: retried.filter(({ status }) => status === 'fulfilled').length };
    }),
  },
  {
    kind: 'jobs_obliterated',
    weight: 2,
    make: on(async (queue) => {
      await queue.obliterate({ force: true });
      return {};
    }),
  },
];
