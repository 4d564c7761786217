/**
 * What Pawl puts into a BullMQ job and how a delivery ends it: names, ids, options, and the endings turned into what BullMQ
 * understands. A job carries ids and nothing else; nothing that BullMQ would read a meaning into (a thrown `undefined`, a
 * `DelayedError`, its own control messages) leaves this file. Next: consumer.ts.
 */
import { type JobsOptions, UnrecoverableError, WaitingError, type WorkerOptions } from 'bullmq';
import type { Delivery, DeliveryEnd, Dispatch } from '../ports.js';
import type { Ground } from './ground.js';

export interface StepData {
  runId: string;
  seq: number;
  dispatch: number;
}

export const jobName = 'step';
/** The count that ends a step is kept in Postgres; BullMQ's must never be reached. Fits a 32-bit column. */
const attemptsWithoutLimit = 1_000_000_000;
export const stallsWithoutLimit = 1_000_000_000;
/** Delay of a retry whose error is not ours: an acknowledgement that failed, or a handler with a bug. */
const fallbackRetryMs = 5_000;
const longestRetryMs = 7 * 24 * 3_600_000;
const longestNote = 200;
const longestReason = 500;
const failedForSeconds = 30 * 24 * 3_600;

export function bullName(queue: string): string {
  return `pawl-${queue}`;
}

export function jobId(dispatch: Omit<Dispatch, 'queue'>): string {
  return `${dispatch.runId}.${dispatch.seq}.${dispatch.dispatch}`;
}

/** How Pawl opens a queue of BullMQ's, whoever asks: what is added by hand is kept as what Pawl adds. */
export function queueOptions(ground: Pick<Ground, 'queueConnection' | 'prefix'>) {
  return {
    connection: ground.queueConnection,
    prefix: ground.prefix,
    skipWaitingForReady: true,
    // Asking for the version would fail while Redis is away, and the queue would remember that for ever.
    skipVersionCheck: true,
    defaultJobOptions: jobOptions,
  };
}

/** All a job carries beside its ids; the rest is set where it is worked (`retention`, worker.ts), and written into none. */
const jobOptions: JobsOptions = { attempts: attemptsWithoutLimit, backoff: { type: 'pawl' } };

/**
 * What becomes of finished jobs: a completed one leaves the queue at once, unless it has something to tell (consumer.ts), and of
 * those few are kept to be looked at; failed ones are the dead letters. On the Postgres backend a limit by count reads that
 * many rows at every job that fails, so there only age ends them.
 */
export function retention(kind: 'redis' | 'postgres'): Pick<WorkerOptions, 'removeOnComplete' | 'removeOnFail'> {
  return {
    removeOnComplete: { count: 100 },
    removeOnFail: kind === 'redis' ? { count: 10_000, age: failedForSeconds } : { age: failedForSeconds },
  };
}

/** The delivery a job stands for, or why it stands for none (somebody added or changed it by hand). */
export function readJob(
  queue: string,
  job: { id?: string | undefined; data: unknown; attemptsMade: number },
): { delivery: Delivery } | { malformed: string } {
  const { data } = job;
  if (typeof data !== 'object' || data === null) return { malformed: 'its data is no object' };
  const { runId, seq, dispatch } = data as Record<string, unknown>;
  if (typeof runId !== 'string' || !/^[\w-]{1,128}$/.test(runId)) return { malformed: 'runId is missing or no run id' };
  if (!isCount(seq)) return { malformed: 'seq is missing or no positive whole number' };
  if (!isCount(dispatch)) return { malformed: 'dispatch is missing or no positive whole number' };
  if (job.id !== jobId({ runId, seq, dispatch })) return { malformed: 'its id is not the one its data asks for' };
  return { delivery: { runId, seq, dispatch, queue, attemptsMade: job.attemptsMade } };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}

/** Thrown to have BullMQ try a job again after a delay; the only error whose delay the backoff rule believes. */
export class RetryLater extends Error {
  constructor(
    readonly delayMs: number,
    note: string,
  ) {
    super(storable(note, longestReason));
  }
}

/** BullMQ's custom backoff: the delay comes with the error. At least 1 ms: 0 takes another path through BullMQ. */
export function backoff(_attemptsMade: number, _type?: string, error?: Error): number {
  const asked = error instanceof RetryLater && Number.isFinite(error.delayMs) ? error.delayMs : fallbackRetryMs;
  return Math.min(longestRetryMs, Math.max(1, Math.round(asked)));
}

/** Ends a processor the way the delivery ended: returns the note that is kept, or throws what BullMQ wants thrown. */
export function endProcessor(end: Exclude<DeliveryEnd, { end: 'hand_back' }>): string {
  switch (end.end) {
    case 'complete':
      return storable(end.note, longestNote);
    case 'retry':
      throw new RetryLater(end.delayMs, end.note);
    case 'fail':
      throw new UnrecoverableError(storable(end.note, longestReason));
  }
}

/**
 * Puts a job back where it was, without spending an attempt. Also when that fails (lock lost, server gone) the processor
 * ends as if it had worked: the job stays active until it stalls, and is delivered again with the same count.
 */
export async function handBack(moveToWait: () => Promise<unknown>): Promise<never> {
  await moveToWait().catch(() => undefined);
  throw new WaitingError();
}

/** Cut short, well-formed, free of NUL, and never one of BullMQ's control messages. */
function storable(note: string, longest: number): string {
  const cut = String(note)
    .slice(0, longest)
    .replaceAll('\u0000', ' ')
    .replaceAll(/\p{Surrogate}/gu, '\uFFFD');
  return cut.startsWith('bullmq:') ? `(${cut.slice(0, longest - 2)})` : cut;
}
