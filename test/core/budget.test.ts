/** Budgets of tokens and of cost: reserved before they are spent, and exceeded by one call at the most. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resumeRun } from '../../src/core/commands.js';
import { growReserve, guardLlmStep } from '../../src/core/limits.js';
import { isFinal, type Limits, type OnLimit, onLimits, type Reserve } from '../../src/core/run.js';
import {
  afterAsking,
  asks,
  call,
  lastWords,
  llmFails,
  refusalOf,
  Scenario,
  says,
  text,
  usage,
  value,
} from '../support/scenario.js';

const guardOf = (scenario: Scenario) => guardLlmStep(scenario.run, scenario.now);
const spending = (inputTokens: number, outputTokens: number, costUsd: number | null = null) => {
  return { usage: { ...usage, inputTokens, outputTokens, costUsd } };
};
const reserveOf = (inputTokens: number, outputTokens: number, costUsd: number | null = null) => {
  return { reserve: { inputTokens, outputTokens, costUsd } };
};
const limitedTo = (maxTokens: number, onLimit: OnLimit = 'fail') => ({ limits: { maxTokens, onLimit } });

describe('a budget of tokens', () => {
  it('counts the first call before anything is known of it: what is always sent, the task and an answer', () => {
    const { run } = new Scenario();
    const asked = Buffer.byteLength(JSON.stringify({ role: 'user', content: 'the task' }));
    expect(run.reserve).toEqual({ inputTokens: 50 + Math.floor(asked / 3), outputTokens: 20, costUsd: null });
    expect(guardOf(new Scenario(limitedTo(60)))).toEqual({ go: false, reason: 'max_tokens' });
    expect(guardOf(new Scenario(limitedTo(90)))).toEqual({ go: true, lastBecause: null });
  });

  it('reserves what was sent last, and what was said since', () => {
    const scenario = afterAsking([call('look')]);
    expect(scenario.run.reserve.inputTokens).toBe(100 + 5 + 4);
    scenario.perform(2, value('found'));
    expect(scenario.run.reserve).toEqual({ inputTokens: 100 + 5 + 4 + 3 + 4, outputTokens: 20, costUsd: null });
  });

  it('under fail ends the run in place of a call that might go beyond it', () => {
    const scenario = new Scenario(limitedTo(245));
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 10) });
    scenario.perform(2, value('found'));
    expect(guardOf(scenario)).toEqual({ go: false, reason: 'max_tokens' });
    scenario.perform(3, { kind: 'limit', reason: 'max_tokens' });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_tokens', error: { code: 'max_tokens' } });
  });

  it('under finish keeps back one call beside the next, and makes it the last', () => {
    const scenario = new Scenario(limitedTo(110 + 2 * 136 - 1, 'finish'));
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 10) });
    scenario.perform(2, value('found'));
    expect(guardOf(scenario)).toEqual({ go: true, lastBecause: 'max_tokens' });
    scenario.perform(3, lastWords('as far as I got', 'max_tokens'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_tokens', output: 'as far as I got' });
  });

  it('that is spent already allows no last call either', () => {
    const scenario = new Scenario(limitedTo(500, 'finish'));
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 400) });
    scenario.perform(2, value('found'));
    expect(guardOf(scenario)).toEqual({ go: false, reason: 'max_tokens' });
    scenario.perform(3, { kind: 'limit', reason: 'max_tokens' });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_tokens' });
  });

  it('counts calls that failed', () => {
    const scenario = new Scenario(limitedTo(300));
    scenario.perform(1, llmFails(spending(100, 0), reserveOf(100, 20)));
    expect(guardOf(scenario)).toEqual({ go: true, lastBecause: null });
    scenario.perform(1, llmFails(spending(100, 0), reserveOf(100, 20)));
    expect(guardOf(scenario)).toEqual({ go: false, reason: 'max_tokens' });
  });

  it.each(['crash', 'dropped', 'overdue'] as const)('charges a call lost by %s as reserved, and says so', (death) => {
    const scenario = new Scenario();
    const { inputTokens, outputTokens } = scenario.run.reserve;
    scenario.lose(1, death);
    expect(scenario.run.usage).toMatchObject({ inputTokens, outputTokens, estimated: true });
    scenario.lose(1, death);
    expect(scenario.run.usage.inputTokens).toBe(2 * inputTokens);
  });

  it('under suspend waits until it is raised enough', () => {
    const scenario = new Scenario(limitedTo(245, 'suspend'));
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 10) });
    scenario.perform(2, value('found'));
    scenario.perform(3, { kind: 'limit', reason: 'max_tokens' });
    expect(scenario.statuses.at(-1)).toBe('suspended:limit');
    const resume = (raised: Partial<Limits>) => scenario.change((draft) => resumeRun(draft, raised));
    for (const raised of [{}, { maxTokens: 245 }, { maxTokens: 240 }, { maxSteps: 99 }]) {
      expect(refusalOf(() => resume(raised))).toBe('conflict');
    }
    resume({ maxTokens: 300 });
    expect(scenario.statuses.at(-1)).toBe('pending');
    scenario.perform(3, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', limits: { maxTokens: 300 } });
  });
});

describe('a budget of cost', () => {
  it('is kept by the price of what is reserved', () => {
    const scenario = new Scenario({ limits: { maxCostUsd: 0.05, onLimit: 'fail' } });
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 10, 0.02), ...reserveOf(100, 20, 0.02) });
    expect(scenario.run.reserve.costUsd).toBeCloseTo(0.02 * (129 / 120), 10);
    scenario.perform(2, value('found'));
    expect(guardOf(scenario)).toEqual({ go: true, lastBecause: null });
    scenario.perform(3, { ...asks(call('look')), ...spending(100, 10, 0.02), ...reserveOf(100, 20, 0.02) });
    scenario.perform(4, value('found'));
    expect(guardOf(scenario)).toEqual({ go: false, reason: 'max_cost' });
  });

  it('is no longer kept once the run has fallen back to a model without a price, and the run says so', () => {
    const scenario = new Scenario({ limits: { maxCostUsd: 0.05 } });
    scenario.perform(1, { ...asks(call('look')), ...spending(100, 10, 0.01), ...reserveOf(100, 20, 0.01) });
    scenario.perform(2, value('found'));
    const models = { failed: 'scripted', next: 'other', first: 'scripted' };
    scenario.perform(3, llmFails({ class: 'terminal' }, { models, ...reserveOf(100, 20, 0.01) }));
    expect(scenario.eventTypes).not.toContain('run.price_unknown');
    scenario.perform(3, { ...asks(call('look')), ...spending(100, 10, null), ...reserveOf(100, 20, null) });
    const told = scenario.rows.events.filter(({ type }) => type === 'run.price_unknown');
    expect(told.map(({ data }) => data)).toEqual([{ model: 'other' }]);
  });

  it('is not kept where no price is known, and the run says so once', () => {
    const scenario = new Scenario({ limits: { maxCostUsd: 0.01, onLimit: 'fail' } });
    scenario.perform(1, asks(call('look')));
    scenario.perform(2, value('found'));
    scenario.perform(3, asks(call('look')));
    expect(scenario.eventTypes.filter((type) => type === 'run.price_unknown')).toHaveLength(1);
    scenario.perform(4, value('found'));
    expect(guardOf(scenario)).toEqual({ go: true, lastBecause: null });
  });
});

it('a reserve grows by the tokens of a message, at the price of those before', () => {
  const reserve: Reserve = { inputTokens: 60, outputTokens: 40, costUsd: 1 };
  expect(growReserve(reserve, 50)).toEqual({ inputTokens: 110, outputTokens: 40, costUsd: 1.5 });
  expect(growReserve({ ...reserve, costUsd: null }, 50).costUsd).toBeNull();
  expect(growReserve({ inputTokens: 0, outputTokens: 0, costUsd: 0 }, 50).costUsd).toBe(0);
});

/** One LLM call of a random run: what it really takes, whether it is lost, whether it asks for a tool. */
const llmCall = fc.record({
  input: fc.integer({ min: 1, max: 500 }),
  output: fc.integer({ min: 0, max: 2_000 }),
  fate: fc.constantFrom('asks', 'asks', 'asks', 'fails', 'crash', 'dropped', 'answers'),
});

it('no budget is exceeded by more than one call, whatever calls take and however they end', { timeout: 60_000 }, () => {
  fc.assert(
    fc.property(
      fc.record({
        maxTokens: fc.option(fc.integer({ min: 1, max: 6_000 })),
        maxCostUsd: fc.option(fc.integer({ min: 1, max: 6_000 })),
        onLimit: fc.constantFrom(...onLimits),
      }),
      fc.array(llmCall, { minLength: 1, maxLength: 20 }),
      (limits, calls) => {
        const scenario = new Scenario({ limits: { ...limits, maxTurns: 100 }, llmAttempts: 50 });
        for (const { input, output, fate } of calls) {
          const step = scenario.steps.find(({ status }) => status === 'pending');
          if (isFinal(scenario.run.status) || step === undefined) break;
          const before = scenario.run.usage;
          const guard = guardOf(scenario);
          const token = scenario.claim(step.seq);
          const took = { ...spending(input, output, input + output), ...reserveOf(input, 100, input + 100) };
          const lastBecause = guard.go ? guard.lastBecause : null;
          if (!guard.go) scenario.record(step.seq, token, { kind: 'limit', reason: guard.reason });
          else if (fate === 'crash' || fate === 'dropped') scenario.release(step.seq, fate);
          else if (fate === 'fails') scenario.record(step.seq, token, llmFails(took, { ...took, lastBecause }));
          else if (fate === 'answers' || lastBecause !== null) {
            scenario.record(step.seq, token, lastWords('so far', lastBecause ?? 'max_steps', { ...took, lastBecause }));
          } else scenario.record(step.seq, token, { ...asks(call('look')), ...took });
          const spent = before.inputTokens + before.outputTokens;
          const { usage: now } = scenario.run;
          if (now.inputTokens + now.outputTokens > spent) {
            expect(spent, 'a call is made only below the limit').toBeLessThan(
              limits.maxTokens ?? Number.POSITIVE_INFINITY,
            );
            expect(before.costUsd ?? 0).toBeLessThan(limits.maxCostUsd ?? Number.POSITIVE_INFINITY);
          }
          const tool = scenario.steps.find(({ status, kind }) => status === 'pending' && kind === 'tool');
          if (tool !== undefined) scenario.perform(tool.seq, { kind: 'tool_value', value: text('found') });
        }
      },
    ),
    { numRuns: 500 },
  );
});
