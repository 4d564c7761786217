/** `pawl doctor`: a line for each thing, and an exit status by the worst of them. */
import { expect, it } from 'vitest';
import type { Check } from '../../../src/core/checkup.js';
import { pawl } from './fake-world.js';

const fine: Check = { name: 'node', state: 'ok', says: 'v20.20.2', fix: null };
const odd: Check = { name: 'workers', state: 'note', says: 'none alive', fix: 'start one: pawl worker' };
const wrong: Check = { name: 'queue', state: 'bad', says: 'no\x1b[31m answer', fix: 'check REDIS_URL' };
const found = (...checks: Check[]) => ({ services: { examine: async () => checks } });

it('says what is ok and what to do about the rest, and ends with 1 where something is bad', async () => {
  const { exit, out, err } = await pawl(['doctor'], found(fine, odd, wrong));
  expect(exit).toBe(1);
  expect(out.split('\n')).toEqual([
    '✓ node          v20.20.2',
    '! workers       none alive',
    '                → start one: pawl worker',
    '✗ queue         no answer',
    '                → check REDIS_URL',
    '',
  ]);
  expect(err).toBe('1 thing to mend\n');
});

it('ends with 0 where nothing is bad', async () => {
  expect(await pawl(['doctor'], found(fine, odd))).toMatchObject({ exit: 0, err: 'nothing is wrong\n' });
});

it('prints the same as JSON', async () => {
  const { exit, out, err } = await pawl(['doctor', '-o', 'json'], found(fine, wrong));
  expect(exit).toBe(1);
  expect(JSON.parse(out)).toMatchObject({ data: [fine, { name: 'queue', state: 'bad' }], page: { next: null } });
  expect(err).toBe('');
});

it('calls models only when asked to', async () => {
  const asked: boolean[] = [];
  const examine = async ({ llm }: { llm: boolean }) => {
    asked.push(llm);
    return [fine];
  };
  await pawl(['doctor'], { services: { examine } });
  await pawl(['doctor', '--llm'], { services: { examine } });
  expect(asked).toEqual([false, true]);
});
