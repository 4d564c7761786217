/** A gate holds back whoever comes when it is full, and lets them through in their order. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Gate } from '../../chaos/gate.js';

it('lets two through at a time, and the others in their order as places become free', async () => {
  const gate = new Gate(2);
  const inside: number[] = [];
  const leave: (() => void)[] = [];
  const passing = [0, 1, 2, 3].map((n) =>
    gate.pass(async () => {
      inside.push(n);
      await new Promise<void>((left) => {
        leave[n] = left;
      });
      if (n === 1) throw new Error('fell');
      return n;
    }),
  );
  passing[1]?.catch(() => {});
  await turn();
  expect(inside).toEqual([0, 1]);
  leave[1]?.();
  await turn();
  expect(inside).toEqual([0, 1, 2]);
  leave[0]?.();
  leave[2]?.();
  await turn();
  leave[3]?.();
  expect(await Promise.allSettled(passing)).toMatchObject([
    { value: 0 },
    { reason: expect.objectContaining({ message: 'fell' }) },
    { value: 2 },
    { value: 3 },
  ]);
  expect(await gate.pass(async () => 'free again')).toBe('free again');
});
