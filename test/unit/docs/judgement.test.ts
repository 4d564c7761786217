/** The figures of docs/judgement.md are those of the file that the bench wrote. */
import { describe, expect, it } from 'vitest';
import { withResults } from '../../../bench/judgement/page.js';
import { goalsOf, type Summary } from '../../../bench/judgement/summary.js';
import { page } from './pages.js';

describe('docs/judgement.md', () => {
  const text = page('docs/judgement.md');
  const summary = JSON.parse(page('docs/judgement.json')) as Summary;

  it('holds what the bench said last', () => expect(withResults(text, summary)).toBe(text));

  it('says of each goal whether it is met, by the figure beside it', () => {
    expect(summary.goals).toEqual(goalsOf(summary.ratios));
    for (const { ratio, met } of summary.goals) {
      expect(text).toMatch(new RegExp(`^\\| ${ratio} .*\\| ${met ? 'met' : 'NOT met'} \\|$`, 'm'));
    }
  });

  it('refuses a page that has lost its marks', () => {
    expect(() => withResults('# nothing', summary)).toThrow('has lost its marks');
  });
});
