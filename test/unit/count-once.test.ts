/** The head of every request of a run is counted once. */
import { expect, it } from 'vitest';
import { countOnce } from '../../src/engine/count-once.js';
import type { Llm } from '../../src/ports.js';

function counting() {
  const asked: string[][] = [];
  let fails = false;
  const llm: Pick<Llm, 'countTokens'> = {
    async countTokens(model, texts) {
      asked.push([model, ...texts]);
      if (fails) throw new Error('no tables');
      return texts.map((text) => text.length);
    },
  };
  return { llm: llm as Llm, asked, failFrom: (now: boolean) => (fails = now) };
}

const textsOf = ({ words }: { words: string[] }) => words;

it('counts the texts of an object together, and once for each model', async () => {
  const { llm, asked } = counting();
  const agent = { words: ['four', 'fives'] };
  expect([await countOnce(llm, agent, 'a', textsOf), await countOnce(llm, agent, 'a', textsOf)]).toEqual([9, 9]);
  await countOnce(llm, agent, 'b', textsOf);
  await countOnce(llm, { words: ['x'] }, 'a', textsOf);
  expect(asked).toEqual([
    ['a', 'four', 'fives'],
    ['b', 'four', 'fives'],
    ['a', 'x'],
  ]);
});

it('counts again what could not be counted', async () => {
  const { llm, failFrom } = counting();
  const agent = { words: ['four'] };
  failFrom(true);
  await expect(countOnce(llm, agent, 'a', textsOf)).rejects.toThrow('no tables');
  failFrom(false);
  expect(await countOnce(llm, agent, 'a', textsOf)).toBe(4);
});
