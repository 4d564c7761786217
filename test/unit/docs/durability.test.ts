/** The tables of docs/durability.md are those of the files that campaigns and measures wrote. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Piece } from '../../chaos/campaign/night-totals.js';
import { boundOf, costOf, type Measured, tablesOf, withTables } from '../../chaos/durability.js';
import { page } from './pages.js';

const json = <T>(name: string) =>
  JSON.parse(readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8')) as T;

describe('docs/durability.md', () => {
  const text = page('docs/durability.md');
  const { pieces } = json<{ pieces: Piece[] }>('durability.json');
  const tables = tablesOf(pieces, json<Record<string, Measured>>('recovery.json'));

  it('holds the tables of the last campaigns and measures', () => {
    expect(pieces.length).toBeGreaterThan(0);
    expect(withTables(text, tables)).toBe(text);
  });

  it('shows every piece, whatever its verdict', () => {
    for (const { seed, backend, verdict } of pieces) {
      expect(tables.pieces).toMatch(new RegExp(`^\\| ${seed} \\| ${backend} .*\\| ${verdict} \\|`, 'm'));
    }
  });

  it('refuses a page without a place for a table', () => {
    expect(() => withTables('# nothing', tables)).toThrow('no place for night');
  });
});

it('zero in ten thousand bounds the share by the rule of three', () => {
  expect(boundOf(10_000)).toBe('0.03 %');
});

describe('what crashes cost in model calls', () => {
  it('follows from the calls that a kill takes with it and the calls that one kill comes in', () => {
    const counts = { runs: 1_000, 'model calls': 5_000, kills: 50, 'model calls that a crash cost': 100 };
    expect(costOf(counts)).toBe(
      'Model calls that crashes cost: 2.0 % of all: 2.0 for each kill, at 10 kills in 1,000 calls. ' +
        'One kill in ten runs, which are 50 calls, makes 4.0 %; 1 % is one kill in 200 calls, or in 40 runs.',
    );
  });

  it('says no more than it knows where nothing was killed or asked', () => {
    expect(costOf({ runs: 10, 'model calls': 50 })).toBe('Model calls that crashes cost: 0.0 % of all.');
    expect(costOf({})).toBe('The model was not asked.');
  });
});
