/**
 * The queue from outside, as an operator and their dashboard have it: BullMQ itself on the same jobs. It presses Retry,
 * wipes everything, and delivers old jobs once more.
 */
import { type ConnectionOptions, createPostgresBackend, type Job, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { replaceQueue } from './replace-queue.js';
import { until } from './until.js';

export interface JobRef {
  queue: string;
  runId: string;
  seq: number;
  dispatch: number;
}

export interface Dashboard {
  /** Waits until the job, asked for anew each time, is in the failed set; then does what a dashboard's button does. */
  retry(job: () => Promise<JobRef>, looks: number): Promise<void>;
  /** The queue loses everything: FLUSHDB, or all of BullMQ's tables emptied. */
  wipe(): Promise<void>;
  /** Delivers each of these jobs once more, unless the queue is not done with it, and waits until all are done with. */
  deliverAgain(jobs: readonly JobRef[], looks: number): Promise<void>;
  /** How the queue holds each of the jobs now, for a case that failed. */
  describe(jobs: readonly JobRef[]): Promise<string[]>;
  close(): Promise<void>;
}

export interface QueueServices {
  databaseUrl: string;
  redisUrl: string | null;
}

export async function openDashboard(services: QueueServices): Promise<Dashboard> {
  const { redisUrl } = services;
  const ground = redisUrl === null ? postgresGround(services) : await redisGround(redisUrl, services);
  const jobId = ({ runId, seq, dispatch }: JobRef) => `${runId}.${seq}.${dispatch}`;
  const find = async (job: JobRef): Promise<Job | undefined> => ground.queue(job.queue).getJob(jobId(job));

  return {
    async retry(current, looks) {
      const job = await until('the dead letter in the failed set', looks, async () => {
        const found = await find(await current());
        return (await found?.isFailed()) ? found : undefined;
      });
      await job.retry('failed');
    },
    wipe: ground.wipe,
    async deliverAgain(jobs, looks) {
      const added: JobRef[] = [];
      for (const job of jobs) {
        const kept = await find(job);
        if (kept !== undefined && !(await kept.isCompleted())) continue;
        await kept?.remove();
        const { runId, seq, dispatch } = job;
        await ground
          .queue(job.queue)
          .add('step', { runId, seq, dispatch }, { jobId: jobId(job), removeOnComplete: true, removeOnFail: false });
        added.push(job);
      }
      await until(`${added.length} old jobs delivered`, looks, async () => {
        const left = (await Promise.all(added.map(find))).filter((job) => job !== undefined);
        const failed = left.find((job) => job.attemptsMade > 0);
        if (failed !== undefined) throw new Error(`an old job failed: ${failed.failedReason}`);
        return left.length === 0;
      });
    },
    async describe(jobs) {
      const states = jobs.map(async (ref) => {
        const job = await find(ref);
        return job === undefined ? [] : [`job ${job.id}: ${await job.getState()}, ${job.attemptsMade} attempts`];
      });
      return (await Promise.all(states)).flat();
    },
    close: ground.close,
  };
}

interface RawGround {
  queue(name: string): Queue;
  wipe(): Promise<void>;
  close(): Promise<void>;
}

async function redisGround(url: string, { databaseUrl }: QueueServices): Promise<RawGround> {
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  const { rows } = await database.query<{ id: string }>('select id from pawl.instance');
  await database.end();
  const client = new Redis(url, { maxRetriesPerRequest: null });
  const queues = new Map<string, Queue>();
  const open = (name: string) =>
    new Queue(`pawl-${name}`, { connection: client as ConnectionOptions, prefix: `{pawl:${rows[0]?.id}}` });
  return {
    queue: (name) => kept(queues, name, open),
    wipe: async () => void (await client.flushdb()),
    async close() {
      for (const queue of queues.values()) await queue.close();
      await client.quit();
    },
  };
}

function postgresGround({ databaseUrl }: QueueServices): RawGround {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 3, options: '-c search_path=bullmq' });
  pool.on('error', () => {});
  const queues = new Map<string, Queue>();
  const open = (name: string) =>
    new Queue(`pawl-${name}`, { connection: pool }, createPostgresBackend) as unknown as Queue;
  return {
    queue: (name) => kept(queues, name, open),
    wipe: () => replaceQueue(pool),
    async close() {
      for (const queue of queues.values()) await queue.close();
      await pool.end();
    },
  };
}

function kept(queues: Map<string, Queue>, name: string, open: (name: string) => Queue): Queue {
  const known = queues.get(name) ?? open(name);
  queues.set(name, known);
  return known;
}
