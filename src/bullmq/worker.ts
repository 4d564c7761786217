/**
 * A BullMQ worker whose loop neither spins nor dies: an error that BullMQ does not take for a lost connection is otherwise
 * met again at once, thousands of times a second, and an error of the loop itself ends fetching without a sign.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type IQueueBackend, type Job, type JobJson, Worker } from 'bullmq';
import type { StepData } from './job.js';
import { settledWithin } from './quiet.js';

const pauseAfterErrorMs = 1_000;

export type StepJob = Job<StepData, string, string>;

export class StepWorker extends Worker<StepData, string, string, IQueueBackend> {
  override async run(): Promise<void> {
    while (!this.closing) {
      try {
        return await super.run();
      } catch (error) {
        this.emit('error', error as Error);
        await delay(pauseAfterErrorMs);
      }
    }
  }

  /** Traces of errors would be kept with the job. */
  protected override createJob(data: JobJson, jobId: string): StepJob {
    const job = super.createJob(data, jobId);
    job.opts.stackTraceLimit = 0;
    return job;
  }

  protected override async moveToActive(token: string, name?: string): Promise<StepJob> {
    try {
      return await super.moveToActive(token, name);
    } catch (error) {
      if (!this.closing && !this.paused) await delay(pauseAfterErrorMs);
      throw error;
    }
  }

  /** Never so long that a connection which waits is taken for a dead one. */
  protected override getBlockTimeout(blockUntil: number): number {
    return Math.min(super.getBlockTimeout(blockUntil), this.opts.drainDelay ?? Number.POSITIVE_INFINITY);
  }

  /** Lets go of everything without asking the server, after `close` did not come to an end in time. */
  async abandon(): Promise<void> {
    await this.lockManager.close();
    await settledWithin(500, this.backend.close(true));
  }
}
