/** The queue's server gone: at the start, in the middle, silent, and at the end. */
import { afterEach, describe, expect, it } from 'vitest';
import { connectQueue } from '../../src/bullmq/connect.js';
import { done, Inbox, step, until } from '../contract/inbox.js';
import { queueBackends } from '../support/services.js';
import { cuttable } from './cuttable.js';
import { type LoggedLine, memoryLog, openPool, openWorld, queues } from './worlds.js';

const unreachable = expect.objectContaining({ code: 'queue_unreachable' });

for (const kind of queueBackends()) {
  describe(`${kind} gone`, () => {
    const cleanups: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    });

    async function start() {
      const world = await openWorld(kind);
      cleanups.push(world.close);
      const proxy = await cuttable(world.url, kind === 'redis' ? 6379 : 5432);
      cleanups.push(proxy.close);
      const lines: LoggedLine[] = [];
      const log = memoryLog(lines);
      async function connect() {
        const backend = await world.connect({ url: proxy.url, log });
        cleanups.push(backend.close);
        const inbox = new Inbox();
        const consumer = backend.consumer({ queues: ['llm'], concurrency: 2, handler: inbox.handler });
        cleanups.push(() => {
          inbox.endAll();
          return consumer.stop(5_000);
        });
        return { backend, queue: backend.queue, inbox, consumer };
      }
      return { world, proxy, lines, log, connect };
    }

    async function within<T>(ms: number, work: Promise<T>): Promise<T> {
      const before = performance.now();
      try {
        return await work;
      } finally {
        expect(performance.now() - before).toBeLessThan(ms);
      }
    }

    it('is named in an error when a process starts without it, soon and without its password', async () => {
      const { world, proxy } = await start();
      await proxy.cut();
      const url = new URL(proxy.url);
      url.password = 'hunter2';
      const failure = await within(
        6_500,
        world.connect({ url: url.href }).then(
          () => undefined,
          (error: unknown) => error,
        ),
      );
      expect(failure).toEqual(unreachable);
      expect(String(failure)).not.toContain('hunter2');
    });

    it('is refused to soon, not waited for, while it is away, and used again when it is back', async () => {
      const { proxy, connect, lines } = await start();
      const { queue, inbox, consumer } = await connect();
      await consumer.start();
      const [held, waiting, later] = [step(), step(), step()];
      await queue.add([held, waiting]);
      const [first, second] = [await inbox.next(), await inbox.next()];
      await proxy.cut();
      await expect(within(6_000, queue.add([later]))).rejects.toEqual(unreachable);
      await expect(within(6_000, queue.probe([later]))).rejects.toEqual(unreachable);
      await expect(within(6_000, queue.remove([later]))).rejects.toEqual(unreachable);
      await expect(within(6_000, queue.readEpoch())).rejects.toEqual(unreachable);
      await expect(within(6_000, queue.writeEpoch('e'))).rejects.toEqual(unreachable);
      first.end(done);
      await proxy.restore();
      second.end(done);
      await until(() =>
        queue.add([later]).then(
          () => true,
          () => false,
        ),
      );
      const third = await inbox.next();
      expect(third.delivery).toEqual({ ...later, attemptsMade: 0 });
      third.end(done);
      await until(async () => (await queue.probe([held, waiting, later])).every((state) => state === 'absent'));
      // Said once in a while, not at every attempt.
      expect(lines.filter(({ level }) => level !== 'debug').length).toBeLessThan(15);
      expect(lines.length).toBeLessThan(150);
    });

    it('is given five seconds when it accepts and does not answer', async () => {
      const { proxy, connect } = await start();
      const { queue, backend } = await connect();
      proxy.freeze();
      const before = performance.now();
      const asked = [queue.add([step()]), queue.probe([step()]), queue.readEpoch(), backend.ping()];
      for (const answer of await Promise.allSettled(asked)) {
        expect(answer).toEqual({ status: 'rejected', reason: unreachable });
      }
      expect(performance.now() - before).toBeGreaterThan(3_000);
      expect(performance.now() - before).toBeLessThan(7_000);
      await proxy.cut();
    });

    it('is found again by new connections when the old ones died without a word', async () => {
      const { proxy, connect } = await start();
      const { queue, inbox, consumer } = await connect();
      await consumer.start();
      const [before, after] = [step(), step()];
      await queue.add([before]);
      (await inbox.next()).end(done);
      await until(async () => (await queue.probe([before])).every((state) => state === 'absent'));
      proxy.strand();
      await until(() =>
        queue.add([after]).then(
          () => true,
          () => false,
        ),
      );
      const delivered = await inbox.next();
      expect(delivered.delivery).toEqual({ ...after, attemptsMade: 0 });
      delivered.end(done);
    });

    for (const how of ['cut', 'freeze'] as const) {
      it(`cannot keep a process from stopping (${how})`, async () => {
        const { world, proxy, connect } = await start();
        const { backend, queue, inbox, consumer } = await connect();
        await consumer.start();
        const one = step();
        await queue.add([one]);
        const held = await inbox.next();
        await proxy[how]();
        const stopping = within(3_500, consumer.stop(1_000));
        held.end(done);
        await stopping;
        await within(3_500, backend.close());
        // What the others see: the job is still there, to be delivered again when its lock has run out.
        const other = await world.connect();
        expect(await other.queue.probe([one])).toEqual(['active']);
        await other.close();
        await proxy.cut();
      });
    }
  });
}

describe.runIf(queueBackends().includes('redis'))('a lazy connection to Redis', () => {
  it('lets a client begin while Redis is away, and fetches once it is there', async () => {
    const world = await openWorld('redis');
    const proxy = await cuttable(world.url, 6379);
    await proxy.cut();
    const backend = await connectQueue({
      kind: 'redis',
      url: proxy.url,
      prefixId: 'test',
      queues,
      log: memoryLog(),
      lazy: true,
    });
    const one = step();
    await expect(backend.queue.add([one])).rejects.toEqual(unreachable);
    const inbox = new Inbox();
    const consumer = backend.consumer({ queues: ['llm'], concurrency: 1, handler: inbox.handler });
    const started = consumer.start();
    await proxy.restore();
    await until(() =>
      backend.queue.add([one]).then(
        () => true,
        () => false,
      ),
    );
    (await inbox.next()).end(done);
    await started;
    await consumer.stop(5_000);
    await backend.close();
    await proxy.close();
    await world.close();
  });

  it('hands over what a client adds before the connection is made', async () => {
    const world = await openWorld('redis');
    const backend = await world.connect({ lazy: true });
    const one = step();
    await backend.queue.add([one]);
    expect(await backend.queue.probe([one])).toEqual(['ready']);
    await backend.close();
    await world.close();
  });

  it('stops also when Redis never came', async () => {
    const world = await openWorld('redis');
    const proxy = await cuttable(world.url, 6379);
    await proxy.cut();
    const options = { kind: 'redis', url: proxy.url, prefixId: 'test', queues, log: memoryLog(), lazy: true } as const;
    const backend = await connectQueue(options);
    const consumer = backend.consumer({ queues, concurrency: 1, handler: async () => done });
    const started = consumer.start();
    const before = performance.now();
    await consumer.stop(300);
    await backend.close();
    expect(performance.now() - before).toBeLessThan(3_000);
    await started;
    await world.close();
  });

  it('keeps two deployments on one Redis apart', async () => {
    const world = await openWorld('redis');
    const common = { kind: 'redis', url: world.url, queues, log: memoryLog() } as const;
    const [mine, other] = [
      await connectQueue({ ...common, prefixId: 'mine' }),
      await connectQueue({ ...common, prefixId: 'other' }),
    ];
    const one = step();
    await mine.queue.add([one]);
    await mine.queue.writeEpoch('1');
    expect(await other.queue.probe([one])).toEqual(['absent']);
    expect(await other.queue.readEpoch()).toBe(null);
    await mine.close();
    await other.close();
    await world.close();
  });
});

describe('the Postgres backend', () => {
  it('can be started by many at once on an empty database', async () => {
    const world = await openWorld('postgres');
    const peers = await Promise.all(Array.from({ length: 6 }, () => world.connect()));
    const one = step();
    await peers[0]?.queue.add([one]);
    for (const peer of peers) expect(await peer.queue.probe([one])).toEqual(['ready']);
    for (const peer of peers) await peer.close();
    await world.close();
  });

  it('makes its tables anew when the whole schema was dropped, and its workers go on', async () => {
    const world = await openWorld('postgres');
    const { queue, consumer: open, close } = await world.connect();
    const inbox = new Inbox();
    const consumer = open({ queues: ['llm'], concurrency: 1, handler: inbox.handler });
    await consumer.start();
    await queue.writeEpoch('1');
    const pool = openPool(world.url);
    await pool.query('DROP SCHEMA bullmq CASCADE');
    expect(await queue.readEpoch()).toBe(null);
    const one = step();
    await queue.add([one]);
    (await inbox.next()).end(done);
    await until(async () => (await queue.probe([one]))[0] === 'absent');
    await consumer.stop(5_000);
    await close();
    await pool.end();
    await world.close();
  });

  it('loses its epoch with its jobs alone', async () => {
    const world = await openWorld('postgres');
    const { queue, close } = await world.connect();
    await queue.writeEpoch('1');
    const pool = openPool(world.url);
    await pool.query('TRUNCATE bullmq.job CASCADE');
    expect(await queue.readEpoch()).toBe(null);
    await close();
    await pool.end();
    await world.close();
  });
});
