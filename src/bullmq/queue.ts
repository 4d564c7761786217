/**
 * The queue port on BullMQ: hands steps over as jobs that carry ids, and answers where they are. It never waits long for a
 * queue that does not answer: what could not be handed over stays pending in Postgres, and the sweep hands it over again.
 */
import { Queue as BullQueue, type IQueueBackend } from 'bullmq';
import { PawlError } from '../core/errors.js';
import type { Dispatch, Log, Presence, Queue } from '../ports.js';
import { type Ground, inChunks, keptEvents } from './ground.js';
import { bullName, jobId, jobName, queueOptions, type StepData } from './job.js';
import { answered, quietly, settledWithin } from './quiet.js';

type StepQueue = BullQueue<StepData, string, string, StepData, string, string, IQueueBackend>;

const addedAtOnce = 1_000;
const removedAtOnce = 100;

export interface OpenQueueOptions {
  ground: Ground;
  /** Queues that are known to exist; others are opened when something is added to them. */
  queues: readonly string[];
  log: Log;
  answerWithinMs: number;
}

export function openQueue({ ground, queues, log, answerWithinMs }: OpenQueueOptions): Queue {
  const open = new Map<string, StepQueue>();
  const names = queues.map(bullName);

  function queueOf(name: string): StepQueue {
    const known = open.get(name);
    if (known !== undefined) return known;
    const queue: StepQueue = new BullQueue(
      bullName(name),
      { ...queueOptions(ground), streams: { events: { maxLen: keptEvents } } },
      ground.factory,
    );
    queue.on('error', quietly(log, { queue: name }));
    open.set(name, queue);
    return queue;
  }

  async function ask<T>(what: string, work: () => Promise<T>): Promise<T> {
    return answered(answerWithinMs, what, async () => {
      try {
        return await work();
      } catch (error) {
        if (await ground.heal(error)) return work();
        throw error;
      }
    });
  }

  for (const name of queues) queueOf(name);

  const gathering = new Map<string, { group: Dispatch[]; added: Promise<void> }>();

  /** Steps recorded together are dispatched together: what is added in one turn of the event loop goes in one round trip. */
  function addSoon(name: string, dispatches: readonly Dispatch[]): Promise<void> {
    const waiting = gathering.get(name);
    if (waiting !== undefined) {
      waiting.group.push(...dispatches);
      return waiting.added;
    }
    const group = [...dispatches];
    const added = new Promise<void>((resolve) => process.nextTick(resolve)).then(() => {
      gathering.delete(name);
      return addNow(name, group);
    });
    gathering.set(name, { group, added });
    return added;
  }

  async function addNow(name: string, group: readonly Dispatch[]): Promise<void> {
    for (const chunk of inChunks(group, addedAtOnce)) {
      const jobs = chunk.map(({ runId, seq, dispatch }) => {
        const data = { runId, seq, dispatch };
        return { name: jobName, data, opts: { jobId: jobId(data) } };
      });
      await ask(`adding to queue ${name}`, async () => {
        await ground.opened();
        return queueOf(name).addBulk(jobs);
      });
    }
  }

  return {
    async add(dispatches) {
      for (const [name, group] of byQueue(dispatches)) await addSoon(name, group);
    },

    async probe(dispatches): Promise<Presence[]> {
      if (dispatches.length === 0) return [];
      const jobs = dispatches.map((dispatch) => ({ name: bullName(dispatch.queue), id: jobId(dispatch) }));
      return ask('looking for jobs', () => ground.probe(jobs));
    },

    async remove(dispatches) {
      for (const [name, group] of byQueue(dispatches)) {
        for (const chunk of inChunks(group, removedAtOnce)) {
          const queue = queueOf(name);
          await ask(`removing from queue ${name}`, () =>
            Promise.all(chunk.map((dispatch) => queue.remove(jobId(dispatch), { removeChildren: false }))),
          );
        }
      }
    },

    readEpoch: () => ask("reading the queue's epoch", () => ground.readEpoch(names)),
    writeEpoch: (epoch) => ask("writing the queue's epoch", () => ground.writeEpoch(names, epoch)),

    async close() {
      await settledWithin(1_000, Promise.allSettled([...open.values()].map((queue) => queue.close())));
    },
  };
}

function byQueue(dispatches: readonly Dispatch[]): Map<string, Dispatch[]> {
  const groups = new Map<string, Dispatch[]>();
  for (const dispatch of dispatches) {
    if (!/^[\w-]+$/.test(dispatch.queue)) {
      throw new PawlError('internal', `not a queue's name: ${JSON.stringify(dispatch.queue)}`);
    }
    const group = groups.get(dispatch.queue);
    if (group === undefined) groups.set(dispatch.queue, [dispatch]);
    else group.push(dispatch);
  }
  return groups;
}
