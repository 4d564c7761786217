/** When the demo kills its worker, and how it finds out that a step was repeated all the same. */
import { describe, expect, it } from 'vitest';
import type { StepView } from '../../src/core/view.js';
import { judgeCrash, mayKill } from '../../src/demo/crash.js';

const step = (seq: number, more: Partial<StepView> = {}): StepView => ({
  ...{ seq, kind: 'tool', name: 'sql_query', status: 'completed', attempt: 1, crashes: 0, effect: 'none' },
  ...{ waitingFor: null, input: null, output: '1', error: null, note: null, usage: null, queuedAt: '', worker: 'w1' },
  ...{ startedAt: 't1', finishedAt: 't2' },
  ...more,
});
const three = [step(1, { kind: 'llm' }), step(2), step(3)];

describe('the kill', () => {
  it('comes while a model call is in flight, after three steps', () => {
    const thinking = step(4, { kind: 'llm', status: 'running' });
    expect(mayKill([...three, thinking])).toBe(true);
    expect(mayKill([...three.slice(1), thinking])).toBe(false);
    expect(mayKill([...three, step(4, { kind: 'llm', status: 'pending' })])).toBe(false);
    expect(mayKill(three)).toBe(false);
  });

  it('never comes while a tool is in flight, which might be one that must not be repeated', () => {
    expect(mayKill([...three, step(4, { name: 'send_email', effect: 'once', status: 'running' })])).toBe(false);
    expect(mayKill([...three, step(4, { status: 'running' }), step(5, { kind: 'llm', status: 'running' })])).toBe(
      false,
    );
  });
});

describe('what survived', () => {
  it('is as it was', () => {
    expect(judgeCrash(three, [...three, step(4)])).toEqual([]);
  });

  it('is named when it was repeated, changed or lost, or when nothing was killed', () => {
    const again = { attempt: 2, worker: 'w2', finishedAt: 't9' };
    const problems = judgeCrash(three, [three[0] ?? step(1), step(2, again)]);
    expect(problems).toEqual([
      'step 2 (tool sql_query) was recorded before the crash, and is not as it was then',
      'step 3 (tool sql_query) was recorded before the crash, and is not as it was then',
    ]);
    expect(judgeCrash(null, three)).toEqual(['the run ended before its worker could be killed']);
  });
});
