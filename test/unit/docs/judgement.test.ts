/** The figures of docs/judgement.md are those of the file that the bench wrote. */
import { describe, expect, it } from 'vitest';
import { withResults } from '../../../bench/judgement/page.js';
import { goalsOf, type Summary } from '../../../bench/judgement/summary.js';
import { goalRows, undercutLine } from '../../../bench/judgement/table.js';
import { page } from './pages.js';

describe('docs/judgement.md', () => {
  const text = page('docs/judgement.md');
  const summary = JSON.parse(page('docs/judgement.json')) as Summary;

  it('holds what the bench said last', () => expect(withResults(text, summary)).toBe(text));

  it('says of each goal whether it is met, by the figure beside it', () => {
    expect(summary.goals).toEqual(goalsOf(summary));
    for (const { ratio, met } of summary.goals) {
      expect(text).toMatch(
        new RegExp(`^\\| ${ratio} .*\\| ${met ? 'met' : 'NOT met(, (within|beyond) the bound)?'} \\|$`, 'm'),
      );
    }
  });

  it('says of a goal that is not met whether the bound meets it', () => {
    const told = { ratios: { rounds: 2.7, steps: 6.6, deadLoops: 1 }, boundsWithoutMistakes: {} };
    const rows = goalRows({ ...summary, goals: goalsOf({ ...told, bounds: { rounds: 2.2, steps: 5.9 } }) });
    const verdictOf = (ratio: string) => rows.find(([name]) => name === ratio)?.at(-1);
    expect(['rounds', 'steps', 'deadLoops'].map(verdictOf)).toEqual([
      'NOT met, within the bound',
      'NOT met, beyond the bound',
      'NOT met',
    ]);
  });

  it('says of the bound whether it held', () => {
    expect(undercutLine({ ...summary, right: 9, undercuts: [] })).toMatch(/^None of 9 right answers/);
    expect(undercutLine({ ...summary, right: 9, undercuts: ['one'] })).toMatch(/^NOT A BOUND: 1 of 9/);
  });

  it('refuses a page that has lost its marks', () => {
    expect(() => withResults('# nothing', summary)).toThrow('has lost its marks');
  });
});
