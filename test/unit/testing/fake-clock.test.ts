import { expect, it } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.js';

it('wakes sleepers in their order, each at its own time, also those that sleep again', async () => {
  const clock = new FakeClock();
  const woken: string[] = [];
  const nap = async (name: string, ms: number) => {
    await clock.sleep(ms);
    woken.push(`${name} ${clock.monotonicMs()}`);
  };
  void nap('late', 300);
  void nap('early', 100).then(() => nap('again', 150));
  void nap('never', 5_000);
  await clock.advance(300);
  expect(woken).toEqual(['early 100', 'again 250', 'late 300']);
  expect(clock.monotonicMs()).toBe(300);
});

it('tells the time of day from its start', async () => {
  const clock = new FakeClock(new Date('2026-03-01T00:00:00.000Z'));
  await clock.advance(90_000);
  expect(clock.now().toISOString()).toBe('2026-03-01T00:01:30.000Z');
});

it('ends a sleep that is aborted, without an error, also one that begins so', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const sleeping = clock.sleep(1_000, stop.signal);
  stop.abort();
  await sleeping;
  await clock.sleep(1_000, stop.signal);
  expect(clock.monotonicMs()).toBe(0);
});

it('wakes at the end of a jump all who should have been woken meanwhile, once', async () => {
  const clock = new FakeClock();
  let beats = 0;
  void (async () => {
    for (;;) {
      await clock.sleep(100);
      beats += 1;
    }
  })();
  await clock.jump(10_000);
  expect(beats).toBe(1);
  await clock.advance(100);
  expect(beats).toBe(2);
});
