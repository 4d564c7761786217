/** A race of a call against its deadline and its abort; one call may be raced more than once. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Call, raceCall } from '../../src/engine/calls.js';

const open = () => new Call('token', 0, null, () => 0);

it('tells what became of the work', async () => {
  const thrown = new Error('no');
  expect(await raceCall(open(), 1_000, () => 'value')).toEqual({ ended: 'returned', value: 'value' });
  expect(await raceCall(open(), 1_000, async () => Promise.reject(thrown))).toEqual({ ended: 'threw', thrown });
  const throwsAtOnce = () => {
    throw thrown;
  };
  expect(await raceCall(open(), 1_000, throwsAtOnce)).toEqual({ ended: 'threw', thrown });
  expect(await raceCall(open(), 0, () => 'value')).toEqual({ ended: 'not_started' });
});

it('is aborted, though the work heeds the signal and would have an answer', async () => {
  const call = open();
  const racing = raceCall(call, 1_000, async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'late';
  });
  call.abort('lost');
  expect(await racing).toEqual({ ended: 'aborted' });
  expect(await raceCall(call, 1_000, () => 'value')).toEqual({ ended: 'not_started' });
});

it('that timed out neither stops the next one of its call nor hides it from an abort', async () => {
  const call = open();
  let late = () => {};
  const first = await raceCall(call, 5, () => new Promise<void>((resolve) => (late = resolve)));
  expect(first).toEqual({ ended: 'timeout' });
  let signal: AbortSignal | null = null;
  const second = raceCall(call, 1_000, ({ signal: given }) => {
    signal = given;
    return delay(500, 'value', { signal: given });
  });
  late();
  await delay(0);
  expect(signal).toMatchObject({ aborted: false });
  call.abort('lost');
  expect(await second).toEqual({ ended: 'aborted' });
});

it('within another is aborted with it, and leaves it to its abort when it has ended', async () => {
  const call = open();
  const signals: AbortSignal[] = [];
  const heeding = ({ signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  const outer = raceCall(call, 1_000, async (stop) => {
    expect(await raceCall(call, 1_000, () => 'inner')).toEqual({ ended: 'returned', value: 'inner' });
    void heeding(stop);
    return raceCall(call, 1_000, heeding);
  });
  await expect.poll(() => signals.length).toBe(2);
  call.abort('lost');
  expect(await outer).toEqual({ ended: 'aborted' });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
});
