/** What a run takes over from the runs before it in its thread. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { assemblePrompt } from '../../src/core/context.js';
import type { StoredMessage } from '../../src/core/message.js';
import { continueThread, type Earlier } from '../../src/core/thread.js';
import { wordsOf } from '../../src/core/words.js';
import { faultOfHistory } from '../../src/openai/write-request.js';

const words = wordsOf('en');

/** A run of so many turns, whose results have so many characters; `lost`: the last call is not answered. */
function runOf(turns: number, chars: number, lost: boolean): StoredMessage[] {
  const stored: StoredMessage[] = [{ seq: 0, pos: 0, tokens: null, message: { role: 'user', content: 'task' } }];
  for (let n = 0; n < turns; n++) {
    const seq = 1 + 2 * n;
    const id = `c0000000${(seq + 1) % 10}`;
    const toolCalls = [{ id, name: 'look', arguments: '{}' }];
    stored.push({ seq, pos: 0, tokens: 5, message: { role: 'assistant', content: null, toolCalls } });
    if (lost && n === turns - 1) return stored;
    const content = 'x'.repeat(chars);
    stored.push({ seq, pos: 1, tokens: 5, message: { role: 'tool', callId: id, name: 'look', content } });
  }
  const seq = 1 + 2 * turns;
  stored.push({ seq, pos: 0, tokens: 5, message: { role: 'assistant', content: 'answer', toolCalls: [] } });
  return stored;
}

const aRun = fc.record({ turns: fc.nat(4), chars: fc.constantFrom(1, 900), lost: fc.boolean() });

it('is a valid history of whole runs within its room, however long the thread', () => {
  fc.assert(
    fc.property(fc.array(aRun, { minLength: 1, maxLength: 8 }), fc.integer({ min: -50, max: 3_000 }), (runs, room) => {
      let opening: StoredMessage[] = [];
      for (const { turns, chars, lost } of runs) {
        const first = Math.min(0, ...opening.map(({ seq }) => seq));
        const shown = [...opening, ...runOf(turns, chars, lost)];
        const prompt = assemblePrompt({ windowFrom: first, digestBefore: first, messages: shown, tokens: 0 }, words);
        expect(faultOfHistory(prompt)).toBe(null);
        expect(prompt[0]).toMatchObject({ role: 'user', content: 'task' });
        const earlier: Earlier = { run: { windowFrom: first, digestBefore: first, summarySeq: null }, messages: shown };
        opening = continueThread(earlier, room, words);
        const tokens = opening.reduce((sum, stored) => sum + (stored.tokens ?? 0) + 4, 0);
        expect(tokens).toBeLessThanOrEqual(Math.max(0, room));
        expect(opening.every(({ seq }) => seq < 0)).toBe(true);
      }
    }),
  );
});

it('brings a summary along as words, and nothing that stood beside the task', () => {
  const stored = runOf(1, 1, false);
  const summary = { before: 1, calls: [] };
  const messages: StoredMessage[] = [
    ...stored,
    { seq: 0, pos: 1, tokens: 3, message: { role: 'user', content: 'facts' } },
    { seq: 9, pos: 0, tokens: 3, message: { role: 'user', content: 'the sum', summary } },
  ];
  const opening = continueThread({ run: { windowFrom: 1, digestBefore: 0, summarySeq: 9 }, messages }, 1_000, words);
  expect(opening.map(({ message }) => message.content)).toEqual([
    `task\n\n${words.summary('the sum', [])}`,
    ...[null, 'x', 'answer'],
  ]);
  expect(opening.some(({ message }) => 'summary' in message)).toBe(false);
});
