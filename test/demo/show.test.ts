/** The demo's lines: aligned, plain without a terminal, and plain about what survived the crash. */
import { describe, expect, it } from 'vitest';
import type { RunView, StepView } from '../../src/core/view.js';
import { bannerLine, endingLines, headLine, stepLine, verdictLines } from '../../src/demo/show.js';

const plain = { colour: false };
const usage = { inputTokens: 1_200, cachedInputTokens: 0, outputTokens: 34, costUsd: 0.000_2, estimated: false };
const step = (more: Partial<StepView> = {}): StepView => ({
  ...{
    seq: 1,
    kind: 'llm',
    name: 'gpt-4o-mini',
    status: 'completed',
    attempt: 1,
    crashes: 0,
    effect: null,
    waitingFor: null,
  },
  ...{ input: null, output: null, error: null, usage, queuedAt: '', worker: 'w' },
  ...{ startedAt: '2026-06-28T10:00:00.000Z', finishedAt: '2026-06-28T10:00:01.250Z' },
  ...more,
});

describe('a step', () => {
  it('is one aligned line', () => {
    const lines = [
      headLine(plain),
      stepLine(step(), false, plain),
      stepLine(step({ seq: 2, kind: 'tool', name: 'sql_query', usage: null }), true, plain),
      stepLine(step({ seq: 3, attempt: 2, usage: { ...usage, estimated: true, costUsd: null } }), false, plain),
      stepLine(step({ seq: 10, status: 'running', finishedAt: null, usage: null }), false, plain),
      stepLine(step({ seq: 11, status: 'dead', usage: null, error: { code: 'x', message: 'no more' } }), false, plain),
    ];
    expect(`\n${lines.join('\n')}\n`).toBe(`
  #  kind  name                  time   tokens       cost  
  1  llm   gpt-4o-mini          1.3 s    1,234  $0.000200
  2  tool  sql_query            1.3 s                      recorded before the crash, not repeated
  3  llm   gpt-4o-mini          1.3 s   ~1,234             attempt 2
 10  llm   gpt-4o-mini                                     running
 11  llm   gpt-4o-mini          1.3 s                      dead: no more
`);
  });

  it('has colour on a terminal only', () => {
    for (const look of [plain, { colour: true }]) {
      const text = [stepLine(step(), true, look), bannerLine('killed', look), ...verdictLines([], look)].join('');
      expect(text.includes('\u001b')).toBe(look.colour);
    }
  });
});

describe('the end', () => {
  const run = {
    id: 'run_1',
    status: 'completed',
    reason: null,
    usage,
    createdAt: '2026-06-28T10:00:00Z',
    finishedAt: '2026-06-28T10:00:09Z',
  };
  const ending = { run: run as RunView, steps: [step()], survived: new Set([1]), model: 'scripted', scripted: true };

  it('says what it cost, where the files lie, how to look further, and that the model is scripted', () => {
    const text = endingLines({ ...ending, reports: ['/w/report.md'], mails: ['/m/new/1'] }, plain).join('\n');
    for (const part of [
      'run_1, completed',
      'scripted, rules instead of a language model',
      '1,200 in, 34 out',
      '9.0 s',
    ]) {
      expect(text).toContain(part);
    }
    for (const part of ['/w/report.md', '/m/new/1', 'npx pawl runs show run_1', '$0.000200'])
      expect(text).toContain(part);
  });

  it('names each failure', () => {
    expect(verdictLines([{ check: 'mail', problem: '2 mails' }], plain)).toEqual(['failed: mail: 2 mails']);
    expect(verdictLines([], plain)).toHaveLength(1);
  });
});
