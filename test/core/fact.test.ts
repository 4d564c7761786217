/** What is taken for a fact, the words it is found by, and how many of them a prompt gets. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { factLines, type KnownFact, readFacts, wordsIn } from '../../src/core/fact.js';

const run = { tenant: null, agent: 'clerk', threadId: 'chat' };

it('belongs to whoever its scope says', () => {
  const scopes = [undefined, 'agent', 'tenant', 'thread'] as const;
  const given = scopes.map((scope) => ({ key: ' k ', value: 'Une Valeur', ...(scope === undefined ? {} : { scope }) }));
  const of = { key: 'k', value: 'Une Valeur', words: 'k une valeur' };
  expect(readFacts(given, run)).toEqual([
    { ...of, scope: 'agent', owner: 'clerk' },
    { ...of, scope: 'agent', owner: 'clerk' },
    { ...of, scope: 'tenant', owner: '' },
    { ...of, scope: 'thread', owner: 'chat' },
  ]);
  expect(readFacts(undefined, run)).toEqual([]);
});

it.each([
  [[{ key: 'k' }], /fact 0 of extractFacts: value must be 1 to 2000 characters of text, not nothing/],
  [[{ key: 'k'.repeat(101), value: 'v' }], /key must be 1 to 100 characters/],
  [[{ key: 'k', value: 'v', scope: 'world' }], /scope must be one of 'agent', 'tenant', 'thread'/],
  [[{ key: 'k', value: 'v', at: 1 }], /there is no option at/],
  [['k'], /fact 0 of extractFacts takes an object/],
  [{ key: 'k', value: 'v' }, /must return a list of facts/],
])('is refused by name as %j', (given, why) => {
  expect(() => readFacts(given, run)).toThrow(why);
});

it('is found by words of any language, with nothing in them that a query is made of', () => {
  expect(wordsIn('客户希望每月付款 in EUR, in EUR')).toEqual(expect.arrayContaining(['客户', '付款', 'in', 'eur']));
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const words = wordsIn(text);
      expect(words.join('')).not.toMatch(/['\\:\s]/);
      expect(new Set(words).size).toBe(words.length);
    }),
  );
});

it('takes a line, and all of them no more than their share of a prompt', () => {
  const fact = (n: number): KnownFact => ({ key: `k${n}`, value: 'a\nb'.repeat(300), scope: 'agent', at: new Date(0) });
  const lines = factLines(Array.from({ length: 100 }, (_, n) => fact(n)));
  expect(lines.join('').length).toBeLessThanOrEqual(4_000);
  expect(lines[0]).toMatch(/^k0: a ba b.*…$/);
  expect(lines.length).toBe(9);
});
