/** What is near: facts in the order of their relevance, and calls that say the same in other words. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KnownFact } from '../../src/core/fact.js';
import { askedTurns, type Candidate, cosine, rankFacts, wordingsOf } from '../../src/core/likeness.js';
import type { StoredMessage } from '../../src/core/message.js';

const vector = (...numbers: number[]) => Float32Array.from(numbers);
const fact = (key: string): KnownFact => ({ key, value: key, scope: 'agent', at: new Date(0) });

describe('facts', () => {
  const candidate = (key: string, relevance: number, at: Candidate['vector']): Candidate => {
    return { id: 1, fact: fact(key), relevance, vector: at };
  };
  const keys = (found: readonly Candidate[], more: Partial<Parameters<typeof rankFacts>[2]> = {}) =>
    rankFacts(found, vector(1, 0), { most: 9, all: false, ...more }).map(({ key }) => key);

  it('come by their meaning first, then by their words; what has no vector by its words alone', () => {
    const found = [
      candidate('both', 0.5, vector(0.9, 0.3)),
      candidate('words, no vector', 0.4, null),
      candidate('words alone', 0.1, vector(0, 1)),
      candidate('meaning', 0, vector(2, 0)),
      candidate('neither', 0, vector(0, -1)),
      candidate('not to be compared', 0, vector(1, 0, 0)),
    ];
    const relevant = ['both', 'meaning', 'words, no vector', 'words alone'];
    expect(keys(found)).toEqual(relevant);
    expect(keys(found, { all: true })).toEqual([...relevant, 'neither', 'not to be compared']);
    expect(keys(found, { most: 2 })).toEqual(relevant.slice(0, 2));
  });

  it('are compared by direction, and what has none is near to nothing', () => {
    expect(cosine(vector(1, 1), vector(3, 3))).toBeCloseTo(1);
    expect(cosine(vector(1, 0), vector(0, 5))).toBe(0);
    expect(cosine(vector(0, 0), vector(1, 1))).toBe(0);
  });
});

describe('calls', () => {
  const calls = (...given: [string, unknown][]) =>
    given.map(([name, args]) => ({ name, arguments: JSON.stringify(args), result: 'none', withheld: false }));
  const between = (one: unknown, other: unknown) => wordingsOf(calls(['find', one]), calls(['find', other]));
  const said = { query: 'cheap trains to Lyon', page: 1 };

  it.each([
    ['the words of a text', { query: 'trains to Lyon, cheap ones', page: 1 }, 1],
    ['nothing', { page: 1, query: said.query }, 0],
    ['a number', { ...said, page: 2 }, null],
    ['a number within its words', { ...said, query: 'cheap trains to Lyon 2' }, null],
    ['a field', { ...said, limit: 1 }, null],
    ['the place of a text', { query: [said.query], page: 1 }, null],
    ['a name', { query: 'Lyon', page: 1 }, null],
    ['code', { query: "select * from trains where place = 'Lyon'", page: 1 }, null],
  ])('that differ by %s may say the same, or not', (_, other, texts) => {
    expect(between(said, other)?.length ?? null).toBe(texts);
    expect(between(other, said)?.length ?? null).toBe(texts);
  });

  it('have to be of the same tools, in the same order, with the same results', () => {
    const turn = calls(['find', said], ['look', {}]);
    expect(wordingsOf(turn, turn, turn)).toEqual([]);
    expect(wordingsOf(turn, [...turn].reverse())).toBeNull();
    expect(wordingsOf(turn, turn.slice(1))).toBeNull();
    const other = turn.map((call) => ({ ...call, result: 'some' }));
    expect(wordingsOf(turn, other, turn)).toBeNull();
    expect(wordingsOf(turn, other)).toEqual([]);
    const withheld = other.map((call) => ({ ...call, withheld: true }));
    expect(wordingsOf(turn, withheld, turn), 'what Pawl said in the place of a result is none').toEqual([]);
  });

  it('that differ by more than their words never say the same, whatever those are', () => {
    const value = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null));
    fc.assert(
      fc.property(fc.lorem(), fc.lorem(), value, value, (a, b, one, other) => {
        fc.pre(one !== other);
        expect(between({ q: a, n: one }, { q: b, n: other })).toBeNull();
        expect(between({ q: `${a} 1` }, { q: `${b} 2` })).toBeNull();
      }),
      { numRuns: 200 },
    );
  });

  it('are read from the newest turn back, as far as they are answered and the run’s own', () => {
    const asks = (seq: number): StoredMessage[] => [
      {
        ...{ seq, pos: 0, tokens: 1 },
        message: { role: 'assistant', content: null, toolCalls: [{ id: `c${seq}`, name: 'find', arguments: '{}' }] },
      },
    ];
    const gets = (seq: number): StoredMessage => ({
      ...{ seq, pos: 1, tokens: 1 },
      message: { role: 'tool', callId: `c${seq}`, name: 'find', content: `result ${seq}`, error: 'withheld' },
    });
    const results = (messages: StoredMessage[], most = 9) =>
      askedTurns(messages, most).map((turn) => turn.map(({ result }) => result).join());
    const task: StoredMessage = { seq: 0, pos: 0, tokens: 1, message: { role: 'user', content: 'go' } };
    const history = [...asks(-1), gets(-1), task, ...asks(1), gets(1), ...asks(3), gets(3)];
    expect(results(history)).toEqual(['result 3', 'result 1']);
    expect(results(history, 1)).toEqual(['result 3']);
    expect(results([...history, ...asks(5)])).toEqual([]);
  });
});
