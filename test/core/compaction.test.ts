/** What a step does to its run that sums up the turns in the place of a turn. */
import { describe, expect, it } from 'vitest';
import { cancelRun } from '../../src/core/commands.js';
import { guardLlmStep, roomForSummary } from '../../src/core/limits.js';
import { asks, call, llmFails, Scenario, says, sumsUp, value } from '../support/scenario.js';

/** A run of two turns, whose fifth step is next. */
function grown(limits: ConstructorParameters<typeof Scenario>[0] = {}): Scenario {
  const scenario = new Scenario(limits);
  for (const seq of [1, 3]) {
    scenario.perform(seq, asks(call('look')));
    scenario.perform(seq + 1, value('seen'));
  }
  return scenario;
}

describe('a summary', () => {
  it('is a step and no turn, paid for, and its turn comes next', () => {
    const scenario = grown();
    expect(scenario.perform(5, sumsUp(3))).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.step(5)).toMatchObject({ name: 'summary', output: 'the summary', error: null, kind: 'llm' });
    expect(scenario.run).toMatchObject({ windowFrom: 3, digestBefore: 3, summarySeq: 5, turnsUsed: 2, stepsUsed: 6 });
    expect(scenario.run.usage.inputTokens).toBe(300);
    expect(scenario.statuses.slice(4)).toEqual(['completed', 'pending']);
    expect(scenario.step(6).name).toBe('scripted');
    expect(scenario.rows.messages.at(-1)).toMatchObject({
      seq: 5,
      message: { role: 'user', content: 'the summary', summary: { before: 3, calls: ['look {}: seen'] } },
    });
    const event = scenario.rows.events.find(({ type }) => type === 'run.compacted');
    expect(event).toMatchObject({ seq: 5, data: { before: 3, tokensBefore: 900, tokensAfter: 400 } });
    scenario.perform(6, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'done' });
  });

  it('that came to none leaves the turns out, and deletes nothing', () => {
    const scenario = grown();
    const before = scenario.history;
    scenario.perform(5, sumsUp(3, null));
    expect(scenario.step(5)).toMatchObject({ status: 'completed', name: 'summary', error: { code: 'no_summary' } });
    expect(scenario.run).toMatchObject({ windowFrom: 3, summarySeq: null, status: 'running' });
    expect(scenario.eventTypes).toContain('run.trimmed');
    expect(scenario.history).toEqual(before);
  });

  it('does not reset what the loop guard and the breaker count', () => {
    const scenario = grown();
    const { conduct } = scenario.run;
    scenario.perform(5, sumsUp(3));
    expect(scenario.run.conduct).toEqual(conduct);
  });

  it('is tried again like any call, and its record is repeated without harm', () => {
    const scenario = grown();
    scenario.perform(5, llmFails());
    const token = scenario.claim(5);
    scenario.record(5, token, sumsUp(3));
    expect(scenario.record(5, token, sumsUp(3))).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.steps).toHaveLength(6);
  });

  it('is kept in a run that is ending, which plans nothing more', () => {
    const scenario = grown();
    const token = scenario.claim(5);
    scenario.change(cancelRun);
    scenario.record(5, token, sumsUp(3));
    expect(scenario.step(5)).toMatchObject({ status: 'completed', output: 'the summary' });
    expect(scenario.run.status).toBe('cancelled');
  });
});

describe('the room for a summary', () => {
  it.each(['finish', 'fail', 'suspend'] as const)(
    'under %s is there where the turn after it finds its own',
    (onLimit) => {
      for (let maxSteps = 5; maxSteps <= 9; maxSteps++) {
        const scenario = grown({ limits: { maxSteps, onLimit } });
        if (!roomForSummary(scenario.run)) continue;
        scenario.perform(5, sumsUp(3));
        expect([maxSteps, guardLlmStep(scenario.run, scenario.now)]).toEqual([
          maxSteps,
          { go: true, lastBecause: null },
        ]);
      }
      expect(roomForSummary(grown({ limits: { maxSteps: onLimit === 'finish' ? 7 : 5, onLimit } }).run)).toBe(false);
      expect(roomForSummary(grown({ limits: { maxSteps: 9, onLimit } }).run)).toBe(true);
    },
  );

  it('is not there where a budget holds no more than the turn', () => {
    // Each call reserves 120 tokens and 14 for what was said since; 220 are spent.
    expect(roomForSummary(grown({ limits: { maxTokens: 600 } }).run)).toBe(false);
    expect(roomForSummary(grown({ limits: { maxTokens: 700 } }).run)).toBe(true);
  });
});
