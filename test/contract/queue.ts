/**
 * What every queue must do, the fake and both of BullMQ's backends alike. Deliveries are held by the test and ended by hand;
 * that something is *not* delivered is shown by somebody else getting it.
 */
import { afterEach, describe, expect, it } from 'vitest';
import type { Consumer, Delivery, DeliveryEnd, Dispatch, Queue } from '../../src/ports.js';
import { done, Inbox, step, until } from './inbox.js';

/** One process's connection to the queue. */
export interface QueuePeer {
  queue: Queue;
  consumer(options: {
    queues: readonly string[];
    concurrency: number;
    handler: (delivery: Delivery) => Promise<DeliveryEnd>;
  }): Consumer;
  close(): Promise<void>;
}

export interface QueueWorld {
  /** A further process on the same queue. */
  peer(): Promise<QueuePeer>;
  /** Takes away all the queue has kept, as FLUSHALL or TRUNCATE would. */
  wipe(): Promise<void>;
  /** Retry in a dashboard. */
  retryFailed(dispatch: Dispatch): Promise<void>;
  close(): Promise<void>;
}

export function queueContract(name: string, makeWorld: () => Promise<QueueWorld>): void {
  describe(`the queue on ${name}`, () => {
    const cleanups: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    });

    async function world() {
      const made = await makeWorld();
      cleanups.push(() => made.close());
      const peer = async () => {
        const peer = await made.peer();
        cleanups.push(() => peer.close());
        return peer;
      };
      const { queue, consumer } = await peer();
      return { world: made, queue, consumer, peer };
    }

    async function started(
      peer: Pick<QueuePeer, 'consumer'>,
      options: { concurrency?: number; queues?: string[] } = {},
    ) {
      const inbox = new Inbox();
      const { concurrency = 1, queues = ['llm', 'tool'] } = options;
      const consumer = peer.consumer({ queues, concurrency, handler: inbox.handler });
      await consumer.start();
      cleanups.push(() => {
        inbox.endAll();
        return consumer.stop(5_000);
      });
      return { inbox, consumer };
    }

    const presence = async (queue: Queue, dispatch: Dispatch) => (await queue.probe([dispatch]))[0];

    it('delivers a job once, with its ids, its queue and no attempts counted', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const one = step({ queue: 'tool', seq: 7, dispatch: 3 });
      await peer.queue.add([one]);
      const held = await inbox.next();
      expect(held.delivery).toEqual({ ...one, attemptsMade: 0 });
      held.end(done);
      await until(async () => (await presence(peer.queue, one)) === 'absent');
      expect(inbox.arrived).toEqual([]);
    });

    it('ignores a job that exists already, whatever its state, and takes the next dispatch of its step', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      const held = await inbox.next();
      await peer.queue.add([one, one]);
      held.end({ end: 'complete', note: 'seen', isKept: true });
      await until(async () => (await presence(peer.queue, one)) === 'absent');
      await peer.queue.add([one]);
      const again = { ...one, dispatch: 2 };
      await peer.queue.add([again]);
      expect((await inbox.next()).delivery).toEqual({ ...again, attemptsMade: 0 });
    });

    it('delivers a retried job after its delay, with one more attempt counted', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      (await inbox.next()).end({ end: 'retry', delayMs: 400, note: 'rate limited' });
      const endedAt = performance.now();
      await until(async () => (await presence(peer.queue, one)) === 'absent');
      const held = await inbox.next();
      const waited = performance.now() - endedAt;
      expect(held.delivery).toEqual({ ...one, attemptsMade: 1 });
      expect(waited).toBeGreaterThan(390);
      expect(waited).toBeLessThan(2_000);
      held.end({ end: 'retry', delayMs: 0, note: 'at once' });
      expect((await inbox.next()).delivery.attemptsMade).toBe(2);
    });

    it('keeps a failed job, and delivers it again on Retry with its attempts kept', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      for (const attemptsMade of [0, 1, 2]) {
        const held = await inbox.next();
        expect(held.delivery).toEqual({ ...one, attemptsMade });
        held.end({ end: 'fail', note: 'dead: attempts_exhausted' });
        await until(async () => (await presence(peer.queue, one)) === 'absent');
        await peer.world.retryFailed(one);
      }
      (await inbox.next()).end(done);
    });

    it('takes a job handed back and delivers it again without counting an attempt', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      (await inbox.next()).end({ end: 'retry', delayMs: 1, note: 'once' });
      (await inbox.next()).end({ end: 'hand_back' });
      const held = await inbox.next();
      expect(held.delivery).toEqual({ ...one, attemptsMade: 1 });
      held.end(done);
    });

    it('survives a handler that throws anything, and retries its job later', async () => {
      const peer = await world();
      const control = Object.assign(new Error('bullmq:rateLimitExceeded'), { name: 'DelayedError' });
      const thrown: unknown[] = [undefined, null, 'text', new Error(''), control, { message: null }, Symbol('odd')];
      const left = [...thrown];
      const consumer = peer.consumer({
        queues: ['llm'],
        concurrency: 1,
        handler: async () => {
          throw left.shift();
        },
      });
      await consumer.start();
      cleanups.push(() => consumer.stop(500));
      const steps = thrown.map(() => step());
      await peer.queue.add(steps);
      await until(async () => (await peer.queue.probe(steps)).every((state) => state === 'absent'));
      expect(left).toEqual([]);
    });

    it('ends deliveries whose notes are long, odd or look like a command to the queue', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const notes = [
        'x'.repeat(100_000),
        'a\u0000b',
        `${'é'.repeat(199)}😀😀`,
        '\ud800',
        'bullmq:rateLimitExceeded',
        '',
      ];
      for (const note of notes) {
        for (const end of ['complete', 'fail', 'retry'] as const) {
          const one = step();
          await peer.queue.add([one]);
          const held = await inbox.next();
          expect(held.delivery.runId).toBe(one.runId);
          held.end(end === 'retry' ? { end, note, delayMs: 3_600_000 } : { end, note });
          await until(async () => (await presence(peer.queue, one)) === 'absent');
        }
      }
    });

    it('says of each job whether it waits, is being worked on or is absent, in the order asked', async () => {
      const peer = await world();
      const [waiting, active, failed, delayed, finished] = [step(), step(), step(), step(), step({ queue: 'tool' })];
      const unknown = step({ queue: 'never-used' });
      const { inbox } = await started(peer, { queues: ['llm', 'tool'] });
      await peer.queue.add([failed]);
      (await inbox.next()).end({ end: 'fail', note: 'dead' });
      await peer.queue.add([delayed]);
      (await inbox.next()).end({ end: 'retry', delayMs: 60_000, note: 'later' });
      await peer.queue.add([finished]);
      (await inbox.next()).end(done);
      await peer.queue.add([active]);
      const held = await inbox.next();
      await peer.queue.add([waiting]);
      await until(async () => (await presence(peer.queue, finished)) === 'absent');
      expect(await peer.queue.probe([waiting, unknown, active, failed, delayed, finished, waiting])).toEqual([
        'ready',
        'absent',
        'active',
        'absent',
        'absent',
        'absent',
        'ready',
      ]);
      expect(await peer.queue.probe([])).toEqual([]);
      held.end(done);
    });

    it('finds a few thousand jobs at once', async () => {
      const peer = await world();
      const steps = Array.from({ length: 3_000 }, (_, n) => step({ queue: n % 2 ? 'llm' : 'tool' }));
      await peer.queue.add(steps);
      const missing = Array.from({ length: 500 }, () => step());
      const found = await peer.queue.probe([...steps, ...missing]);
      expect(found.filter((state) => state === 'ready')).toHaveLength(3_000);
      expect(found.slice(3_000).every((state) => state === 'absent')).toBe(true);
    });

    it('removes jobs that wait or failed, ignores missing ones and leaves those being worked on', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const [failed, active, waiting] = [step(), step(), step()];
      await peer.queue.add([failed]);
      (await inbox.next()).end({ end: 'fail', note: 'dead' });
      await until(async () => (await presence(peer.queue, failed)) === 'absent');
      await peer.queue.add([active]);
      const held = await inbox.next();
      await peer.queue.add([waiting]);
      await peer.queue.remove([failed, active, waiting, step(), step({ queue: 'never-used' })]);
      expect(await peer.queue.probe([active, waiting])).toEqual(['active', 'absent']);
      await expect(peer.world.retryFailed(failed)).rejects.toThrow();
      const next = step();
      await peer.queue.add([next]);
      held.end(done);
      expect((await inbox.next()).delivery.runId).toBe(next.runId);
    });

    it('keeps the epoch with its data and loses it with them', async () => {
      const peer = await world();
      const other = await peer.peer();
      expect(await peer.queue.readEpoch()).toBe(null);
      await peer.queue.writeEpoch('epoch-1');
      expect(await other.queue.readEpoch()).toBe('epoch-1');
      await other.queue.writeEpoch('epoch-2');
      expect(await peer.queue.readEpoch()).toBe('epoch-2');
      await peer.world.wipe();
      expect(await peer.queue.readEpoch()).toBe(null);
      await peer.queue.writeEpoch('epoch-3');
      expect(await peer.queue.readEpoch()).toBe('epoch-3');
    });

    it('works on after it was wiped, also for the worker that held a job meanwhile', async () => {
      const peer = await world();
      const { inbox } = await started(peer);
      const [one, two] = [step(), step()];
      await peer.queue.add([one]);
      const held = await inbox.next();
      await peer.queue.add([two]);
      await peer.world.wipe();
      expect(await peer.queue.probe([one, two])).toEqual(['absent', 'absent']);
      await peer.queue.add([{ ...one, dispatch: 2 }]);
      held.end({ end: 'fail', note: 'acknowledged too late' });
      const again = await inbox.next();
      expect(again.delivery).toEqual({ ...one, dispatch: 2, attemptsMade: 0 });
      again.end(done);
      await until(async () => (await presence(peer.queue, { ...one, dispatch: 2 })) === 'absent');
    });

    it('fetches nothing while paused, lets the deliveries under way go on, and goes on when resumed', async () => {
      const peer = await world();
      const first = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      const held = await first.inbox.next();
      first.consumer.pause();
      const steps = [step(), step(), step()];
      await peer.queue.add(steps);
      held.end(done);
      await until(async () => (await presence(peer.queue, one)) === 'absent');
      const second = await started(await peer.peer());
      const seen = [];
      for (const _ of steps) {
        const held = await second.inbox.next();
        seen.push(held.delivery.runId);
        held.end(done);
      }
      expect(seen.sort()).toEqual(steps.map(({ runId }) => runId).sort());
      expect(first.inbox.arrived).toEqual([]);
      await second.consumer.stop(5_000);
      first.consumer.resume();
      const last = step();
      await peer.queue.add([last]);
      expect((await first.inbox.next()).delivery.runId).toBe(last.runId);
    });

    it('can be paused and resumed while idle, any number of times', async () => {
      const peer = await world();
      const { inbox, consumer } = await started(peer);
      for (let n = 0; n < 5; n += 1) {
        consumer.pause();
        consumer.pause();
        consumer.resume();
        consumer.resume();
      }
      const one = step();
      await peer.queue.add([one]);
      expect((await inbox.next()).delivery.runId).toBe(one.runId);
    });

    it('stops at once, after the deliveries under way ended and were acknowledged; the rest goes to others', async () => {
      const peer = await world();
      const first = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      const held = await first.inbox.next();
      let stopped = false;
      const stopping = first.consumer.stop(20_000).then(() => {
        stopped = true;
      });
      const two = step();
      await peer.queue.add([two]);
      const second = await started(await peer.peer());
      expect((await second.inbox.next()).delivery.runId).toBe(two.runId);
      expect(stopped).toBe(false);
      held.end(done);
      await stopping;
      expect(await presence(peer.queue, one)).toBe('absent');
      expect(first.inbox.arrived).toEqual([]);
    });

    it('hands back on stop what the handler has not claimed, for another worker to get', async () => {
      const peer = await world();
      const first = await started(peer);
      const one = step();
      await peer.queue.add([one]);
      const held = await first.inbox.next();
      const stopping = first.consumer.stop(20_000);
      held.end({ end: 'hand_back' });
      await stopping;
      const second = await started(await peer.peer());
      expect((await second.inbox.next()).delivery).toEqual({ ...one, attemptsMade: 0 });
    });

    it('gives a delivery that does not end no more than the time it was told', async () => {
      const peer = await world();
      const { inbox, consumer } = await started(peer);
      await peer.queue.add([step()]);
      const held = await inbox.next();
      const before = performance.now();
      await consumer.stop(200);
      expect(performance.now() - before).toBeLessThan(2_000);
      held.end(done);
    });

    it('loses no job to a worker that is stopped while it waits for one', async () => {
      const peer = await world();
      const steps: Dispatch[] = [];
      const delivered: string[] = [];
      for (let round = 0; round < 10; round += 1) {
        const inbox = new Inbox();
        const consumer = peer.consumer({ queues: ['llm'], concurrency: 2, handler: inbox.handler });
        await consumer.start();
        const one = step();
        steps.push(one);
        const added = peer.queue.add([one]);
        const stopped = consumer.stop(10_000);
        for (const held of inbox.arrived.splice(0)) held.end({ end: 'hand_back' });
        const next = inbox.next().then((held) => held.end({ end: 'hand_back' }));
        await Promise.all([added, stopped]);
        void next;
      }
      const last = await started(peer, { concurrency: 10 });
      for (const _ of steps) {
        const held = await last.inbox.next();
        expect(held.delivery.attemptsMade).toBe(0);
        delivered.push(held.delivery.runId);
        held.end(done);
      }
      expect(delivered.sort()).toEqual(steps.map(({ runId }) => runId).sort());
    });

    it('delivers a hundred jobs once each, ten at a time', async () => {
      const peer = await world();
      const { inbox } = await started(peer, { concurrency: 10, queues: ['llm'] });
      const steps = Array.from({ length: 100 }, () => step());
      await peer.queue.add(steps);
      const seen: string[] = [];
      while (seen.length < steps.length) {
        await until(() => inbox.underWay === Math.min(10, steps.length - seen.length));
        for (const held of inbox.arrived.splice(0)) {
          seen.push(held.delivery.runId);
          held.end(done);
        }
      }
      await until(async () => (await peer.queue.probe(steps)).every((state) => state === 'absent'));
      expect(seen.sort()).toEqual(steps.map(({ runId }) => runId).sort());
      expect(inbox.mostUnderWay).toBe(10);
      expect(inbox.arrived).toEqual([]);
    });
  });
}
