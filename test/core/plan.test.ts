/** The plan of a run: what it does to its run, how it is read, and that no window and no compaction ever loses it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cancelRun } from '../../src/core/commands.js';
import { judgeSummary, planCompaction } from '../../src/core/compact.js';
import { assemblePrompt, chooseWindow, isShown, type WindowRule } from '../../src/core/context.js';
import { callIdOf, carriedPos, type StoredMessage } from '../../src/core/message.js';
import { planRoom, readPlan } from '../../src/core/plan.js';
import { continueThread } from '../../src/core/thread.js';
import { wordsOf } from '../../src/core/words.js';
import { faultOfHistory } from '../../src/openai/write-request.js';
import { asks, call, llmFails, plans, Scenario, says, text, value } from '../support/scenario.js';

const words = wordsOf('en');

describe('a plan', () => {
  it('is a step and no turn, paid for, and the first turn comes after it', () => {
    const scenario = new Scenario();
    expect(scenario.perform(1, plans('1. look'))).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.step(1)).toMatchObject({ name: 'plan', kind: 'llm', output: '1. look', error: null });
    expect(scenario.run).toMatchObject({ turnsUsed: 0, stepsUsed: 2, status: 'running' });
    expect(scenario.run.usage.inputTokens).toBe(100);
    expect(scenario.rows.messages.at(-1)).toMatchObject({ seq: 1, pos: 0, message: { role: 'user', plan: true } });
    expect(scenario.eventTypes).toContain('run.planned');
    scenario.perform(2, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'done' });
  });

  it('that came to none is the same as none, which its step says', () => {
    const scenario = new Scenario();
    scenario.perform(1, plans(null));
    expect(scenario.step(1)).toMatchObject({ status: 'completed', name: 'plan', error: { code: 'no_plan' } });
    expect(scenario.history).toEqual(['user: the task']);
    expect(scenario.statuses).toEqual(['completed', 'pending']);
  });

  it('is tried again like any call, and its record is repeated without harm', () => {
    const scenario = new Scenario();
    scenario.perform(1, llmFails());
    const token = scenario.claim(1);
    scenario.record(1, token, plans('1. look'));
    expect(scenario.record(1, token, plans('1. look'))).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.steps).toHaveLength(2);
    expect(scenario.rows.messages).toHaveLength(2);
  });

  it('is replaced by the result of a call, and kept with it in a run that is ending', () => {
    const scenario = new Scenario();
    scenario.perform(1, plans('1. look'));
    scenario.perform(2, asks(call('update_plan')));
    const token = scenario.claim(3);
    scenario.change(cancelRun);
    scenario.record(3, token, { kind: 'tool_value', value: text('replaced'), plan: '1. ask' });
    expect(scenario.rows.messages.at(-1)?.message).toMatchObject({ role: 'tool', plan: '1. ask' });
  });

  it('is said again by the step that leaves its turn out, and by no other', () => {
    const scenario = new Scenario();
    scenario.perform(1, plans('1. look'));
    scenario.perform(2, asks(call('look')));
    scenario.perform(3, value('seen'));
    const plan = { content: '1. look', tokens: 9 };
    scenario.perform(4, { ...asks(call('look')), window: { windowFrom: 2, digestBefore: 2, plan } });
    expect(scenario.rows.messages.filter(({ message }) => 'plan' in message).map(({ seq, pos }) => [seq, pos])).toEqual(
      [
        [1, 0],
        [4, carriedPos],
      ],
    );
  });
});

describe('the text of a plan', () => {
  const room = planRoom(128_000, 'en');
  it('is its lines, as many as there is room for', () => {
    expect(readPlan('\n1. look\n\n  a. there \n2. answer\n', room)).toBe('1. look\n  a. there\n2. answer');
    const long = Array.from({ length: 500 }, (_, n) => `${n}. look at it`).join('\n');
    const read = readPlan(long, room) ?? '';
    expect(long.startsWith(`${read}\n`)).toBe(true);
    expect(read.length).toBeGreaterThan(room.chars);
  });
  it.each([null, '', ' \n ', 'x'.repeat(9_000)])('is none in %j', (said) => expect(readPlan(said, room)).toBe(null));
  it('takes a fifth of the smallest window at most', () => {
    for (const language of ['en', 'zh'] as const) expect(planRoom(450, language).tokens).toBeLessThanOrEqual(90);
  });
});

/** A turn of a run that grows: what it asks for, how long its results are, whether it puts another plan in place. */
const turn = fc.record({
  calls: fc.integer({ min: 1, max: 3 }),
  tokens: fc.integer({ min: 1, max: 400 }),
  chars: fc.constantFrom(1, 3_000),
  replaces: fc.boolean(),
  sumsUp: fc.boolean(),
});
const rule: fc.Arbitrary<WindowRule> = fc.record({
  budgetTokens: fc.integer({ min: -100, max: 4_000 }),
  fixedTokens: fc.integer({ min: 0, max: 500 }),
  compactAt: fc.double({ min: 0.6, max: 1, noNaN: true }),
  compactTo: fc.double({ min: 0.1, max: 0.59, noNaN: true }),
  keepTurns: fc.integer({ min: 1, max: 6 }),
  words: fc.constant(words),
});

describe('every request of a run with a plan', () => {
  it('is valid and holds the newest plan, whatever was left out and summed up on the way', () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 25 }), rule, fc.boolean(), (turns, rule, hasFirst) => {
        const stored: StoredMessage[] = [
          { seq: 0, pos: 0, tokens: 20, message: { role: 'user', content: 'the task' } },
        ];
        let newest = hasFirst ? 'plan 0' : null;
        if (newest !== null)
          stored.push({ seq: 1, pos: 0, tokens: 9, message: { role: 'user', content: newest, plan: true } });
        const run = { windowFrom: 0, digestBefore: 0, summarySeq: null as number | null };
        const move = (seq: number, { windowFrom, digestBefore, plan }: ReturnType<typeof chooseWindow>) => {
          Object.assign(run, { windowFrom, digestBefore });
          if (plan === undefined) return;
          const { content, tokens } = plan;
          stored.push({ seq, pos: carriedPos, tokens, message: { role: 'user', content, plan: true } });
        };
        let seq = 2;
        let head = '';
        for (const { calls, tokens, chars, replaces, sumsUp } of turns) {
          const loaded = stored.filter((one) => isShown(one.seq, run)).sort((a, b) => a.seq - b.seq || a.pos - b.pos);
          const compaction = sumsUp ? planCompaction(loaded, run, rule) : null;
          const judged = compaction === null ? null : judgeSummary('so far', compaction, rule);
          const before = run.windowFrom;
          if (compaction !== null && judged?.ok === true) {
            const summary = { before: compaction.after.windowFrom, calls: compaction.calls };
            stored.push({ seq, pos: 0, tokens: judged.tokens, message: { role: 'user', content: 'so far', summary } });
            move(seq, compaction.after);
            run.summarySeq = seq;
            seq += 1;
          }
          const now = stored.filter((one) => isShown(one.seq, run)).sort((a, b) => a.seq - b.seq || a.pos - b.pos);
          const window = chooseWindow(now, run, rule);
          const prompt = assemblePrompt(window, words);
          expect(faultOfHistory(prompt)).toBe(null);
          if (newest !== null) expect(JSON.stringify(prompt)).toContain(newest);
          const kept = window.messages.filter(({ message }) => message.role === 'assistant').length;
          if (window.windowFrom > run.windowFrom && kept > rule.keepTurns)
            expect(window.tokens).toBeLessThanOrEqual(rule.budgetTokens * rule.compactTo);
          // A plan is said once, but for the call that put it in place.
          expect(prompt.filter(({ content }) => content?.includes('<plan>') === true).length).toBeLessThanOrEqual(1);
          const isSame =
            before === run.windowFrom &&
            window.windowFrom === run.windowFrom &&
            window.digestBefore === run.digestBefore;
          if (isSame && head !== '') expect(prompt[0]?.content).toBe(head);
          move(seq, window);
          head = prompt[0]?.content ?? '';
          if (replaces) newest = `plan ${seq}`;
          const ids = Array.from({ length: calls }, (_, at) => callIdOf(seq + 1 + at));
          const given = (at: number) => (replaces && at === calls - 1 ? JSON.stringify({ plan: newest }) : '{}');
          const toolCalls = ids.map((id, at) => ({ id, name: 't', arguments: given(at) }));
          stored.push({ seq, pos: 0, tokens, message: { role: 'assistant', content: null, toolCalls } });
          for (const [at, callId] of ids.entries()) {
            const plan = replaces && at === calls - 1 && newest !== null ? { plan: newest } : {};
            const message = { role: 'tool' as const, callId, name: 't', content: 'r'.repeat(chars), ...plan };
            stored.push({ seq, pos: at + 1, tokens, message });
          }
          seq += 1 + calls;
        }
      }),
      { numRuns: 300 },
    );
  });
});

it('counts in the window that it is said in once its turn is left out', () => {
  const plan = '1. look at all of it\n'.repeat(45).trim();
  const turns = Array.from({ length: 10 }, (_, n): StoredMessage[] => {
    const [seq, callId] = [1 + 2 * n, callIdOf(2 + 2 * n)];
    const message = { role: 'tool' as const, callId, name: 't', content: 'r', ...(n === 1 ? { plan } : {}) };
    const toolCalls = [{ id: callId, name: 't', arguments: '{}' }];
    return [
      { seq, pos: 0, tokens: 96, message: { role: 'assistant', content: null, toolCalls } },
      { seq, pos: 1, tokens: 96, message },
    ];
  });
  const stored: StoredMessage[] = [
    { seq: 0, pos: 0, tokens: 96, message: { role: 'user', content: 'go' } },
    ...turns.flat(),
  ];
  const shares = { compactAt: 0.8, compactTo: 0.5, keepTurns: 1, fixedTokens: 0, words };
  const window = chooseWindow(stored, { windowFrom: 0, digestBefore: 0 }, { ...shares, budgetTokens: 2_000 });
  expect(window.plan?.content).toBe(plan);
  expect(window.tokens).toBeLessThanOrEqual(1_000);
});

it('of an earlier run of the thread is not shown to the next', () => {
  const messages: StoredMessage[] = [
    { seq: 0, pos: 0, tokens: 2, message: { role: 'user', content: 'the task' } },
    { seq: 1, pos: 0, tokens: 9, message: { role: 'user', content: '1. look', plan: true } },
    { seq: 2, pos: 0, tokens: 2, message: { role: 'assistant', content: 'done', toolCalls: [] } },
  ];
  const taken = continueThread({ run: { windowFrom: 0, digestBefore: 0, summarySeq: null }, messages }, 1_000, words);
  expect(taken.map(({ message }) => message.content)).toEqual(['the task', 'done']);
});
