/** The demo's lines: aligned, plain without a terminal, and plain about what survived the crash. */
import { describe, expect, it } from 'vitest';
import type { Paint } from '../../src/cli/terminal.js';
import type { RunView, StepView } from '../../src/core/view.js';
import { bannerLine, endingLines, headLine, openingLines, survivorLine, verdictLines } from '../../src/demo/show.js';
import type { DemoModel } from '../../src/demo/stage.js';

const plain: Paint = (_, text) => text;
const usage = { inputTokens: 1_200, cachedInputTokens: 0, outputTokens: 34, costUsd: 0.000_2, estimated: false };
const step = (more: Partial<StepView> = {}): StepView => ({
  ...{ seq: 1, kind: 'llm', name: 'gpt-4o-mini', status: 'completed', attempt: 1, crashes: 0, effect: null },
  ...{ waitingFor: null, input: null, output: null, error: null, note: null, usage, queuedAt: '', worker: 'w' },
  ...{ startedAt: '2026-06-28T10:00:00.000Z', finishedAt: '2026-06-28T10:00:01.250Z' },
  ...more,
});

describe('a step that survived', () => {
  it('is one line under the head, marked, whether it used tokens or not', () => {
    const lines = [
      headLine(plain),
      survivorLine(step(), plain),
      survivorLine(step({ seq: 2, kind: 'tool', name: 'sql_query', usage: null }), plain),
    ];
    expect(`\n${lines.join('\n')}\n`).toBe(`
     #  kind  name                         time                tokens  cost
✓    1  llm   gpt-4o-mini                 1.3 s      1,200 in, 34 out  $0.0002  recorded before the crash, not repeated
✓    2  tool  sql_query                   1.3 s                               recorded before the crash, not repeated
`);
  });

  it('has colour where it is asked for', () => {
    const paint: Paint = (colour, text) => `<${colour}>${text}</${colour}>`;
    expect(survivorLine(step(), paint)).toMatch(/<green>recorded before the crash, not repeated<\/green>$/);
    expect(bannerLine('killed', paint)).toBe('<bold>-- killed --</bold>');
  });
});

describe('the opening', () => {
  const llm = { baseUrl: 'http://127.0.0.1:1/v1', apiKey: null, proxy: null, models: {} };
  const model: DemoModel = { name: 'scripted', scripted: true, llm, breaches: () => [] };
  const table = {
    ...{ schema: 'shop', table: 'orders', rows: 5_175, date: 'd', sales: 's' },
    ...{ firstDay: '2026-03-30', lastDay: '2026-06-28', sinceDay: '2026-06-22' },
  };
  const opening = {
    ...{ database: 'in .pawl', table, csv: 'data/orders.csv', mail: 'into the folder m', worker: 42 },
    queueKind: 'postgres' as const,
  };

  it('says plainly whether the model is scripted', () => {
    const scripted = openingLines({ ...opening, model }, plain).join('\n');
    expect(scripted).toContain('scripted: rules instead of a language model, since neither OPENAI_API_KEY nor');
    expect(scripted).toContain('5,175 rows of data/orders.csv, 2026-03-30 to 2026-06-28, as table shop.orders');
    const real = openingLines({ ...opening, model: { ...model, name: 'gpt-5', scripted: false } }, plain).join('\n');
    expect(real).toContain('gpt-5 at http://127.0.0.1:1/v1');
    expect(real).not.toContain('scripted');
  });
});

describe('the end', () => {
  const run = {
    ...{ id: 'run_1', status: 'completed', reason: null, usage },
    ...{ createdAt: '2026-06-28T10:00:00Z', finishedAt: '2026-06-28T10:00:09Z' },
  } as RunView;
  const ending = {
    ...{ run, steps: [step()], survived: 1, model: 'scripted', scripted: true, command: 'npx pawl' },
    ...{ reports: ['w/report.md'], mails: ['m/new/1'], logs: 'l', now: new Date('2026-06-28T10:01:00Z') },
  };

  it('says what it cost, where the files lie, how to look further, and that the model is scripted', () => {
    const text = endingLines(ending, plain).join('\n');
    const parts = ['run_1, completed', 'scripted: rules instead of a language model', '1,200 in, 34 out', '9.0 s'];
    for (const part of [...parts, 'w/report.md', 'm/new/1', 'npx pawl runs show run_1', '$0.0002', '1 recorded before'])
      expect(text).toContain(part);
  });

  it('says so when the run is not over', () => {
    const lines = endingLines({ ...ending, run: { ...run, status: 'suspended', finishedAt: null } }, plain);
    expect(lines).toContain('time      1m00s so far');
  });

  it('names each failure', () => {
    expect(verdictLines([{ check: 'mail', problem: '2 mails' }], plain)).toEqual(['failed: mail: 2 mails']);
    expect(verdictLines([], plain)).toHaveLength(1);
  });
});
