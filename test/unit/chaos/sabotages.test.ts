/** The sabotages still apply: each finds the words that it breaks, once, in the sources as they are. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { edited, sources } from '../../chaos/campaign/sabotage/apply.js';
import { sabotages } from '../../chaos/campaign/sabotage/sabotages.js';

describe('the sabotages', () => {
  it('have names of their own', () => {
    expect(new Set(sabotages.map(({ name }) => name)).size).toBe(sabotages.length);
    expect(sabotages.length).toBeGreaterThanOrEqual(8);
  });

  it.each(sabotages)('$name: applies to the sources as they are', async ({ edits }) => {
    const texts = new Map<string, string>();
    for (const edit of edits) {
      const before = texts.get(edit.file) ?? (await readFile(join(sources, edit.file), 'utf8'));
      const after = edited(before, edit);
      expect(after).not.toBe(before);
      texts.set(edit.file, after);
    }
  });

  it('refuses what stands nowhere, or twice', () => {
    expect(() => edited('one', { file: 'a.ts', find: 'two', put: '' })).toThrow('0 times');
    expect(() => edited('one one', { file: 'a.ts', find: 'one', put: '' })).toThrow('2 times');
  });
});
