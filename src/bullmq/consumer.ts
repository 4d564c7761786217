/**
 * The consumer port on BullMQ: one worker for each queue, whose processor only translates. It fetches, hands the delivery to
 * the engine and ends the job the way the engine says. A lock that is lost stops nothing: the claim in Postgres is what
 * fences, and the acknowledgement that then fails is ignored. Next: worker.ts, job.ts.
 */
import { UnrecoverableError } from 'bullmq';
import { describeThrown } from '../core/errors.js';
import type { Consumer, Delivery, DeliveryEnd, Log } from '../ports.js';
import type { Ground } from './ground.js';
import {
  backoff,
  bullName,
  endProcessor,
  handBack,
  RetryLater,
  readJob,
  retention,
  stallsWithoutLimit,
} from './job.js';
import { quietly, settledWithin, tooLate } from './quiet.js';
import { type StepJob, StepWorker } from './worker.js';

const defaultLockMs = 30_000;
/** How long a worker sleeps on an empty queue before it looks by itself: a wake-up lost with a killed worker costs this. */
const pollSeconds = 2;
const retryServerMs = 2_000;

export interface OpenConsumerOptions {
  ground: Ground;
  queues: readonly string[];
  /** Deliveries at once, for each queue. */
  concurrency: number;
  handler: (delivery: Delivery) => Promise<DeliveryEnd>;
  /** How long a job stays with a worker that is silent; absent: 30 s. Looked after every half of it. */
  lockMs?: number | undefined;
  log: Log;
  /** How long `start` waits for the server before it goes on connecting in the background. */
  answerWithinMs: number;
}

export function openConsumer({
  ground,
  queues,
  concurrency,
  handler,
  lockMs = defaultLockMs,
  log,
  answerWithinMs,
}: OpenConsumerOptions): Consumer {
  let state: 'fetching' | 'paused' | 'stopped' = 'fetching';

  async function process(queue: string, job: StepJob, token: string | undefined): Promise<string> {
    // Fetched while the fetching was being stopped: nobody has claimed its step.
    if (state !== 'fetching') return handBack(() => job.moveToWait(token));
    const read = readJob(queue, job);
    if ('malformed' in read) {
      log.warn({ queue, job: job.id, fault: read.malformed }, 'queue: not a job of Pawl');
      throw new UnrecoverableError(`not a job of Pawl: ${read.malformed}`);
    }
    const end = await handled(read.delivery);
    if (end.end === 'complete' && end.isKept !== true) job.opts.removeOnComplete = true;
    return end.end === 'hand_back' ? handBack(() => job.moveToWait(token)) : endProcessor(end);
  }

  /** The handler does not throw; if it does, the delivery comes again. */
  async function handled(delivery: Delivery): Promise<DeliveryEnd> {
    try {
      return await handler(delivery);
    } catch (thrown) {
      const note = describeThrown(thrown);
      log.error({ runId: delivery.runId, seq: delivery.seq, error: note }, 'queue: the handler of a delivery threw');
      throw new RetryLater(Number.NaN, note);
    }
  }

  const workers = queues.map((queue) => {
    // Two parameters: a third would make BullMQ abort the call when a lock is lost.
    const processor = (job: StepJob, token?: string) => process(queue, job, token);
    const worker = new StepWorker(
      bullName(queue),
      processor,
      {
        connection: ground.workerConnection,
        prefix: ground.prefix,
        autorun: false,
        concurrency,
        lockDuration: lockMs,
        stalledInterval: lockMs / 2,
        maxStalledCount: stallsWithoutLimit,
        drainDelay: pollSeconds,
        runRetryDelay: retryServerMs,
        settings: { backoffStrategy: backoff },
        ...retention(ground.kind),
      },
      ground.factory,
    );
    worker.on('error', quietly(log, { queue }));
    worker.on('stalled', (job) => log.warn({ queue, job }, 'queue: a job stalled and is delivered again'));
    return worker;
  });

  let stopping: Promise<void> | undefined;
  async function stop(withinMs: number): Promise<void> {
    state = 'stopped';
    // Pausing ends the check for stalled jobs, which closing by force would leave running.
    for (const worker of workers) void worker.pause(true);
    const closed = Promise.allSettled(workers.map((worker) => worker.close()));
    if ((await settledWithin(withinMs, closed)) !== tooLate) return;
    log.warn({ withinMs }, 'queue: deliveries did not end in time, or the queue does not answer; letting go');
    await Promise.all(workers.map((worker) => worker.abandon()));
  }

  return {
    async start() {
      for (const worker of workers) void worker.run();
      const ready = Promise.all(workers.map((worker) => worker.waitUntilReady()));
      if ((await settledWithin(answerWithinMs, ready)) === tooLate) {
        log.warn({ queues }, 'queue: no answer yet; fetching begins when there is one');
      }
    },

    pause() {
      if (state !== 'fetching') return;
      state = 'paused';
      for (const worker of workers) void worker.pause(true);
    },

    resume() {
      if (state !== 'paused') return;
      state = 'fetching';
      for (const worker of workers) void worker.resume();
    },

    stop(withinMs) {
      stopping ??= stop(withinMs);
      return stopping;
    },
  };
}
