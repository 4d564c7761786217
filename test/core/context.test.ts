import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { assemblePrompt, chooseWindow, shrinkWindow, type WindowRule } from '../../src/core/context.js';
import { callIdOf, type Message, type StoredMessage } from '../../src/core/message.js';
import { wordsOf } from '../../src/core/words.js';

const words = wordsOf('en');

interface TurnPlan {
  calls: number;
  tokens: number;
  objected: boolean;
}

/** A history as the protocol stores it: each turn an LLM step, its calls the seqs after it. */
function historyOf(plans: readonly TurnPlan[], taskTokens = 20): StoredMessage[] {
  const stored: StoredMessage[] = [
    { seq: 0, pos: 0, tokens: taskTokens, message: { role: 'user', content: 'the task' } },
  ];
  let seq = 1;
  for (const { calls, tokens, objected } of plans) {
    const ids = Array.from({ length: calls }, (_, i) => callIdOf(seq + 1 + i));
    const toolCalls = ids.map((id) => ({ id, name: 't', arguments: '{}' }));
    const content = calls === 0 ? 'answer' : null;
    stored.push({ seq, pos: 0, tokens, message: { role: 'assistant', content, toolCalls } });
    for (const [i, callId] of ids.entries()) {
      stored.push({ seq, pos: i + 1, tokens, message: { role: 'tool', callId, name: 't', content: 'r' } });
    }
    if (calls === 0 && objected) stored.push({ seq, pos: 1, tokens, message: { role: 'user', content: 'objection' } });
    seq += 1 + calls;
  }
  return stored;
}

const turnPlan = fc.record({
  calls: fc.integer({ min: 0, max: 4 }),
  tokens: fc.integer({ min: 0, max: 500 }),
  objected: fc.boolean(),
});
const plans = fc.array(turnPlan, { maxLength: 30 });
const rule: fc.Arbitrary<WindowRule> = fc.record({
  budgetTokens: fc.integer({ min: -100, max: 8_000 }),
  fixedTokens: fc.integer({ min: 0, max: 1_000 }),
  compactAt: fc.double({ min: 0.6, max: 1, noNaN: true }),
  compactTo: fc.double({ min: 0.1, max: 0.59, noNaN: true }),
  keepTurns: fc.integer({ min: 1, max: 6 }),
});

/** What a provider checks of a request (I7). */
function breaches(messages: readonly Message[]): string[] {
  const found: string[] = [];
  let waiting: string[] = [];
  if (messages[0]?.role !== 'user') found.push('the task is not first');
  for (const [i, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (message.callId !== waiting.shift()) found.push(`message ${i} answers no call of its turn`);
      if (message.content === '') found.push(`message ${i} is empty`);
      continue;
    }
    if (waiting.length > 0) found.push(`message ${i} comes before ${waiting.length} answers`);
    waiting = message.role === 'assistant' ? message.toolCalls.map((call) => call.id) : [];
    if (message.role === 'user' && messages[i - 1]?.role === 'user') found.push(`message ${i} is a second user's`);
    if (message.role === 'assistant' && message.content === null && waiting.length === 0)
      found.push(`message ${i} is empty`);
  }
  if (waiting.length > 0) found.push('the last calls are not answered');
  return found;
}

const seqsOf = (messages: readonly StoredMessage[]) => [...new Set(messages.map((stored) => stored.seq))];
const costOf = (messages: readonly StoredMessage[], fixed: number) =>
  messages.reduce((sum, stored) => sum + (stored.tokens ?? 0) + 4, fixed);

describe('chooseWindow', () => {
  it('changes nothing at or below its share of the budget', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const roomy = { ...rule, budgetTokens: Math.ceil(costOf(history, rule.fixedTokens) / rule.compactAt) + 1 };
        expect(chooseWindow(history, 0, roomy)).toMatchObject({ messages: history, windowFrom: 0 });
      }),
    );
  });

  it('keeps the task and the newest turn, whole turns only, and what it says it costs', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const { messages, windowFrom, tokens } = chooseWindow(history, 0, rule);
        expect(messages[0]).toEqual(history[0]);
        expect(seqsOf(messages).at(-1)).toBe(seqsOf(history).at(-1));
        expect(messages.slice(1)).toEqual(history.filter((stored) => stored.seq > 0 && stored.seq >= windowFrom));
        expect(tokens).toBe(costOf(messages, rule.fixedTokens));
      }),
    );
  });

  it('keeps the newest turns while they fit the budget, and goes below its target otherwise', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const { messages, windowFrom, tokens } = chooseWindow(history, 0, rule);
        const turns = seqsOf(messages).length - 1;
        if (windowFrom === 0) return;
        if (turns > rule.keepTurns) expect(tokens).toBeLessThanOrEqual(rule.budgetTokens * rule.compactTo);
        else if (turns > 1) expect(tokens).toBeLessThanOrEqual(rule.budgetTokens);
        const oneMore = history.filter((stored) => stored.seq > 0 && stored.seq < windowFrom).at(-1)?.seq ?? 0;
        const wider =
          costOf(messages, rule.fixedTokens) +
          costOf(
            history.filter((s) => s.seq === oneMore),
            0,
          );
        const goal = turns + 1 > rule.keepTurns ? rule.budgetTokens * rule.compactTo : rule.budgetTokens;
        expect(wider).toBeGreaterThan(goal);
      }),
    );
  });

  it('never moves back as a run grows, and keeps its head between two cuts', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        let from = 0;
        for (let n = 0; n <= plans.length; n++) {
          const history = historyOf(plans.slice(0, n));
          // A store returns the task and what is not cut off yet.
          const loaded = history.filter((stored) => stored.seq === 0 || stored.seq >= from);
          const window = chooseWindow(loaded, from, rule);
          expect(window.windowFrom).toBeGreaterThanOrEqual(from);
          if (window.windowFrom === from) expect(window.messages).toEqual(loaded);
          from = window.windowFrom;
        }
      }),
    );
  });

  it('cuts in steps so big that most turns cut nothing', () => {
    const rule = { budgetTokens: 4_000, fixedTokens: 500, compactAt: 0.8, compactTo: 0.5, keepTurns: 4 };
    let from = 0;
    let cuts = 0;
    for (let n = 1; n <= 200; n++) {
      const history = historyOf(Array.from({ length: n }, () => ({ calls: 1, tokens: 50, objected: false })));
      const window = chooseWindow(history, from, rule);
      if (window.windowFrom > from) cuts += 1;
      from = window.windowFrom;
    }
    expect(cuts).toBeLessThan(20);
    expect(cuts).toBeGreaterThan(5);
  });

  it('counts a message that was not counted yet on the high side', () => {
    const task = { role: 'user' as const, content: '好'.repeat(1_000) };
    const window = chooseWindow([{ seq: 0, pos: 0, tokens: null, message: task }], 0, {
      ...{ budgetTokens: 10_000, fixedTokens: 0, compactAt: 0.8, compactTo: 0.5, keepTurns: 4 },
    });
    expect(window.tokens).toBe(1_004);
  });
});

describe('shrinkWindow', () => {
  it('always cuts at least one turn, and says when it cannot', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const shrunk = shrinkWindow(history, 0, rule);
        expect(shrunk === null).toBe(plans.length < 2);
        if (shrunk === null) return;
        expect(shrunk.windowFrom).toBeGreaterThan(1);
        expect(seqsOf(shrunk.messages).at(-1)).toBe(seqsOf(history).at(-1));
      }),
    );
  });
});

describe('assemblePrompt', () => {
  it('makes a valid request of any history, window and order of rows', () => {
    const notices = fc.constantFrom(null, 'last turn');
    fc.assert(
      fc.property(plans, rule, notices, fc.infiniteStream(fc.nat()), (plans, rule, notice, order) => {
        const window = chooseWindow(historyOf(plans), 0, rule);
        const shuffled = window.messages.map((stored) => ({ stored, at: order.next().value ?? 0 }));
        const messages = shuffled.sort((a, b) => a.at - b.at).map(({ stored }) => stored);
        expect(breaches(assemblePrompt({ ...window, messages }, words, notice))).toEqual([]);
      }),
    );
  });

  it('answers a call whose result was lost, and leaves out a result whose call was', () => {
    const history = historyOf([{ calls: 2, tokens: 1, objected: false }]);
    const holed = history.filter((stored) => stored.pos !== 2);
    holed.push({ seq: 9, pos: 1, tokens: 1, message: { role: 'tool', callId: 'cgone0000', name: 't', content: 'x' } });
    const messages = assemblePrompt({ messages: holed, windowFrom: 0, tokens: 0 }, words);
    expect(breaches(messages)).toEqual([]);
    expect(messages.at(-1)).toMatchObject({ role: 'tool', content: words.noResult() });
  });

  it('says with the task that turns were left out, the same way each time', () => {
    const window = { messages: historyOf([]), windowFrom: 7, tokens: 0 };
    expect(assemblePrompt(window, words)).toEqual([{ role: 'user', content: `the task\n\n${words.turnsLeftOut()}` }]);
    expect(assemblePrompt({ ...window, windowFrom: 0 }, words)).toEqual([{ role: 'user', content: 'the task' }]);
  });
});
