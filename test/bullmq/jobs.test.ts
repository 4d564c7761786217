/** What lies in BullMQ behind the ports: what jobs carry, jobs made by other hands, stalls, lost locks, epochs. */
import type { Worker, WorkerOptions } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { connectQueue } from '../../src/bullmq/connect.js';
import type { StepData } from '../../src/bullmq/job.js';
import { done, Inbox, step, until } from '../contract/inbox.js';
import { queueBackends } from '../support/services.js';
import { cuttable } from './cuttable.js';
import { type LoggedLine, memoryLog, openPool, openWorld, type RealWorld } from './worlds.js';

for (const kind of queueBackends()) {
  describe(`jobs on ${kind}`, () => {
    const cleanups: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    });

    async function start(concurrency = 1) {
      const world = await openWorld(kind);
      cleanups.push(world.close);
      const lines: LoggedLine[] = [];
      const backend = await world.connect({ log: memoryLog(lines) });
      cleanups.push(backend.close);
      const inbox = new Inbox();
      const consumer = backend.consumer({ queues: ['llm'], concurrency, handler: inbox.handler });
      cleanups.push(() => {
        inbox.endAll();
        return consumer.stop(5_000);
      });
      const { queue } = backend;
      const isAbsent = async (dispatch: ReturnType<typeof step>) => (await queue.probe([dispatch]))[0] === 'absent';
      return { world, backend, queue, inbox, consumer, lines, isAbsent };
    }

    const idOf = ({ runId, seq, dispatch }: ReturnType<typeof step>) => `${runId}.${seq}.${dispatch}`;

    it('keeps nothing but ids and short notes', async () => {
      const { world, queue, inbox, consumer, isAbsent } = await start();
      await consumer.start();
      const [completed, failed] = [step(), step()];
      await queue.add([completed]);
      (await inbox.next()).end({ end: 'complete', note: 'y'.repeat(9_000), isKept: true });
      await until(() => isAbsent(completed));
      await queue.add([failed]);
      (await inbox.next()).end({ end: 'retry', delayMs: 1, note: 'z'.repeat(9_000) });
      (await inbox.next()).end({ end: 'fail', note: 'z'.repeat(9_000) });
      await until(() => isAbsent(failed));
      const jobs = world.dashboard('llm');
      const { runId, seq, dispatch } = completed;
      expect(await jobs.getJob(idOf(completed))).toMatchObject({
        data: { runId, seq, dispatch },
        returnvalue: 'y'.repeat(200),
      });
      expect(await jobs.getJob(idOf(failed))).toMatchObject({
        failedReason: 'z'.repeat(500),
        stacktrace: [],
        attemptsMade: 2,
      });
    });

    it('keeps nothing of a job that was completed, unless it has something to tell', async () => {
      const { world, queue, inbox, consumer, isAbsent } = await start();
      await consumer.start();
      const [gone, kept] = [step(), step()];
      for (const [one, more] of [[gone, {}] as const, [kept, { isKept: true }] as const]) {
        await queue.add([one]);
        (await inbox.next()).end({ end: 'complete', note: 'seen', ...more });
        await until(() => isAbsent(one));
      }
      const jobs = world.dashboard('llm');
      expect(await jobs.getJob(idOf(gone))).toBeUndefined();
      expect(await jobs.getJob(idOf(kept))).toMatchObject({ returnvalue: 'seen' });
    });

    it('carries no options but those that keep its attempts without end', async () => {
      const { world, queue } = await start();
      const one = step();
      await queue.add([one]);
      const job = await world.dashboard('llm').getJob(idOf(one));
      expect(job?.opts).toMatchObject({ attempts: 1_000_000_000, backoff: { type: 'pawl' } });
      expect(Object.keys(job?.opts ?? {}).filter((name) => /remove|stack/.test(name))).toEqual([]);
    });

    it('fails jobs that other hands made, without asking the handler and without a loop', async () => {
      const { world, queue, inbox, consumer } = await start();
      const jobs = world.dashboard('llm');
      const good = { runId: 'run_a', seq: 1, dispatch: 1 };
      const made = [
        ['run_a.1.9', good],
        ['no-data', undefined],
        ['null', null],
        ['text', 'run_a.1.1'],
        ['list', [1, 2]],
        ['run_b.1.1', { ...good, runId: 'run_b', seq: '1' }],
        ['run_c.0.1', { ...good, runId: 'run_c', seq: 0 }],
        ['run_d.1.1', { ...good, runId: 'run_d', dispatch: 1.5 }],
        [`${'r'.repeat(400)}.1.1`, { ...good, runId: 'r'.repeat(400) }],
        ['run.e.1.1', { ...good, runId: 'run.e' }],
        [undefined, good],
      ] as const;
      for (const [jobId, data] of made) await jobs.add('odd name', data, jobId === undefined ? {} : { jobId });
      await consumer.start();
      await until(async () => (await jobs.getFailedCount()) === made.length);
      for (const job of await jobs.getFailed()) expect(job.failedReason).toMatch(/^not a job of Pawl: /);
      await jobs.retryJobs({ state: 'failed' });
      await until(async () => (await jobs.getFailedCount()) === made.length);
      const next = step();
      await queue.add([next]);
      expect((await inbox.next()).delivery.runId).toBe(next.runId);
    });

    it('delivers a job again that a dead worker held, without counting an attempt', async () => {
      const { world, queue, inbox, consumer, lines } = await start();
      const one = step();
      await queue.add([one]);
      let deliveries = 0;
      let hangs = () => {};
      const hung = new Promise<void>((resolve) => {
        hangs = resolve;
      });
      const dying = raw(world, { lockDuration: 100, skipLockRenewal: true }, async () => {
        deliveries += 1;
        if (deliveries === 1) throw new Error('counts');
        hangs();
        return new Promise(() => {});
      });
      await hung;
      await dying.close(true);
      const checker = raw(world, { autorun: false }, async () => '');
      cleanups.push(() => checker.close());
      await checker.startStalledCheckTimer();
      await until(async () => (await queue.probe([one]))[0] === 'ready');
      await consumer.start();
      const held = await inbox.next();
      expect(held.delivery).toEqual({ ...one, attemptsMade: 1 });
      held.end(done);
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    });

    it('lets a call go on whose lock was lost, and ignores the acknowledgement that fails', async () => {
      const { world, queue, inbox, consumer, lines, isAbsent } = await start();
      await consumer.start();
      for (const end of [
        done,
        { end: 'retry', delayMs: 1, note: '' },
        { end: 'fail', note: '' },
        { end: 'hand_back' },
      ] as const) {
        const one = step();
        await queue.add([one]);
        const held = await inbox.next();
        await world.stealLock('llm', idOf(one));
        held.end(end);
        const next = step();
        await queue.add([next]);
        (await inbox.next()).end(done);
        await until(() => isAbsent(next));
        expect(await queue.probe([one])).toEqual(['active']);
      }
      expect(lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
      expect(lines.map(({ message }) => message)).toContain('queue: an acknowledgement came too late');
    });

    it('loses the epoch when any one queue is emptied', async () => {
      const { world, queue } = await start();
      await queue.writeEpoch('one');
      expect(await queue.readEpoch()).toBe('one');
      await world.dashboard('tool').obliterate({ force: true });
      expect(await queue.readEpoch()).toBe(null);
    });

    it('answers for thousands of jobs beside a long backlog without asking for each', async () => {
      const { queue } = await start();
      const backlog = Array.from({ length: 10_000 }, () => step());
      await queue.add(backlog);
      const before = performance.now();
      const found = await queue.probe(backlog.slice(0, 5_000));
      expect(found.every((state) => state === 'ready')).toBe(true);
      // 5,000 scans of the wait list take half a minute.
      expect(performance.now() - before).toBeLessThan(4_000);
    });

    it('looks for work again a second after an error that is no lost connection, not at once', async () => {
      const { world, queue, inbox, consumer, lines } = await start();
      const repair = await world.breakFetching('llm');
      await consumer.start();
      const failures = () => lines.filter(({ message }) => message.startsWith('queue: error'));
      await until(() => failures().length > 0);
      const first = performance.now();
      await until(() => failures().length > 1);
      expect(performance.now() - first).toBeGreaterThan(800);
      await repair();
      const one = step();
      await queue.add([one]);
      expect((await inbox.next()).delivery.runId).toBe(one.runId);
    });

    function raw(
      world: RealWorld,
      options: Partial<WorkerOptions>,
      processor: () => Promise<unknown>,
    ): Worker<StepData> {
      const worker = world.rawWorker('llm', processor, {
        stalledInterval: 60,
        maxStalledCount: 1_000,
        settings: { backoffStrategy: () => 1 },
        ...options,
      });
      worker.on('error', () => {});
      return worker;
    }
  });
}

describe.runIf(queueBackends().includes('redis'))('jobs on a Redis that lost a part', () => {
  it('calls a job absent that no list holds any more, and fails one that has no data', async () => {
    const world = await openWorld('redis');
    const { queue, consumer: open, close } = await world.connect();
    const client = new Redis(world.url);
    const one = step();
    await queue.add([one]);
    await client.del('{pawl:test}:pawl-llm:wait');
    expect(await queue.probe([one])).toEqual(['absent']);
    await client.lpush('{pawl:test}:pawl-llm:wait', 'ghost');
    const inbox = new Inbox();
    const consumer = open({ queues: ['llm'], concurrency: 1, handler: inbox.handler });
    await consumer.start();
    await queue.add([{ ...one, dispatch: 2 }]);
    (await inbox.next()).end(done);
    const failed = await world.dashboard('llm').getJob('ghost');
    expect(failed?.failedReason).toMatch(/^not a job of Pawl: /);
    await consumer.stop(5_000);
    await close();
    client.disconnect();
    await world.close();
  });
});

describe('the pool of the Postgres backend', () => {
  it('must have room for every worker, and the search path of the queue', async () => {
    const world = await openWorld('postgres');
    const small = openPool(world.url, 1);
    const log = memoryLog();
    const { consumer, close } = await connectQueue({ kind: 'postgres', pool: small, queues: ['llm', 'tool'], log });
    const open = () => consumer({ queues: ['llm', 'tool'], concurrency: 1, handler: async () => done });
    expect(open).toThrow('2 workers need a pool of 5 connections');
    await close();
    await small.end();
    const elsewhere = new pg.Pool({ connectionString: world.url });
    await expect(connectQueue({ kind: 'postgres', pool: elsewhere, queues: [], log })).rejects.toThrow('search_path');
    await elsewhere.end();
    await world.close();
  });
});

describe.each(queueBackends().filter((kind) => kind === 'redis'))('what many jobs cost in %s', () => {
  it('is a read or two for those that are added in one turn, and for those that end in one', async () => {
    const world = await openWorld('redis');
    const proxy = await cuttable(world.url, 6379);
    const backend = await world.connect({ url: proxy.url });
    const commands = await countCommands(world.url);
    const inbox = new Inbox();
    const consumer = backend.consumer({ queues: ['llm'], concurrency: 50, handler: inbox.handler });
    try {
      // The scripts are known to the connection by then.
      await backend.queue.add([step()]);
      const many = Array.from({ length: 49 }, () => step());
      const before = proxy.reads();
      await Promise.all(many.map((one) => backend.queue.add([one])));
      expect(proxy.reads() - before).toBeLessThan(20);
      await consumer.start();
      const held = await Promise.all(Array.from({ length: 50 }, () => inbox.next()));
      const fetched = { reads: proxy.reads(), calls: await commands.soFar() };
      for (const one of held) one.end(done);
      await until(async () => (await world.dashboard('llm').getActiveCount()) === 0);
      expect(proxy.reads() - fetched.reads).toBeLessThan(20);
      // One script, and what it calls: neither a set of completed jobs nor a search for old ones.
      expect(((await commands.soFar()) - fetched.calls) / held.length).toBeLessThan(24);
    } finally {
      inbox.endAll();
      await consumer.stop(5_000);
      await backend.close();
      commands.stop();
      await proxy.close();
      await world.close();
    }
  });
});

/** Commands that Redis carries out in the database of the URL, those of scripts included; others share the server. */
async function countCommands(url: string): Promise<{ soFar(): Promise<number>; stop(): void }> {
  const redis = new Redis(url);
  const monitor = await redis.monitor();
  const database = new URL(url).pathname.slice(1);
  const marks = new Map<string, () => void>();
  let count = 0;
  monitor.on('monitor', (_time: string, args: string[], _source: string, of: string) => {
    const seen = marks.get(args[1] ?? '');
    if (seen !== undefined) seen();
    else if (of === database) count += 1;
  });
  return {
    /** All that was carried out before: what is watched comes after a mark that is carried out now. */
    async soFar() {
      const mark = `mark-${marks.size}`;
      const seen = new Promise<void>((resolve) => marks.set(mark, resolve));
      await redis.echo(mark);
      await seen;
      return count;
    },
    stop() {
      monitor.disconnect();
      redis.disconnect();
    },
  };
}
