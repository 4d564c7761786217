import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeSummary, planCompaction } from '../../src/core/compact.js';
import {
  assemblePrompt,
  budgetAfterOverflow,
  chooseWindow,
  enough,
  isShown,
  type WindowRule,
} from '../../src/core/context.js';
import { callIdOf, type Message, type StoredMessage } from '../../src/core/message.js';
import { wordsOf } from '../../src/core/words.js';

const words = wordsOf('en');

interface TurnPlan {
  calls: number;
  tokens: number;
  objected: boolean;
  /** Characters of each result. */
  chars?: number;
}

/** A history as the protocol stores it: each turn an LLM step, its calls the seqs after it. */
function historyOf(plans: readonly TurnPlan[], taskTokens = 20): StoredMessage[] {
  const stored: StoredMessage[] = [
    { seq: 0, pos: 0, tokens: taskTokens, message: { role: 'user', content: 'the task' } },
  ];
  let seq = 1;
  for (const { calls, tokens, objected, chars = 1 } of plans) {
    const ids = Array.from({ length: calls }, (_, i) => callIdOf(seq + 1 + i));
    const toolCalls = ids.map((id) => ({ id, name: 't', arguments: '{}' }));
    const content = calls === 0 ? 'answer' : null;
    stored.push({ seq, pos: 0, tokens, message: { role: 'assistant', content, toolCalls } });
    for (const [i, callId] of ids.entries()) {
      stored.push({
        seq,
        pos: i + 1,
        tokens,
        message: { role: 'tool', callId, name: 't', content: 'r'.repeat(chars) },
      });
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
  chars: fc.constantFrom(1, 5_000),
});
const plans = fc.array(turnPlan, { maxLength: 30 });
const rule: fc.Arbitrary<WindowRule> = fc.record({
  budgetTokens: fc.integer({ min: -100, max: 8_000 }),
  fixedTokens: fc.integer({ min: 0, max: 1_000 }),
  compactAt: fc.double({ min: 0.6, max: 1, noNaN: true }),
  compactTo: fc.double({ min: 0.1, max: 0.59, noNaN: true }),
  keepTurns: fc.integer({ min: 1, max: 6 }),
  words: fc.constant(words),
});
const whole = { windowFrom: 0, digestBefore: 0 };

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

const usual = { compactAt: 0.8, compactTo: 0.5, keepTurns: 4, words };
const seqsOf = (messages: readonly StoredMessage[]) => [...new Set(messages.map((stored) => stored.seq))];
const costOf = (messages: readonly StoredMessage[], fixed: number) =>
  messages.reduce((sum, stored) => sum + (stored.tokens ?? 0) + 4, fixed);

describe('chooseWindow', () => {
  it('changes nothing at or below its share of the budget', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const roomy = { ...rule, budgetTokens: Math.ceil(costOf(history, rule.fixedTokens) / rule.compactAt) + 1 };
        expect(chooseWindow(history, whole, roomy)).toMatchObject({ messages: history, ...whole });
      }),
    );
  });

  it('keeps the task and the newest turn, whole turns only, and what it says it costs', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const { messages, windowFrom, tokens } = chooseWindow(history, whole, rule);
        expect(messages[0]).toEqual(history[0]);
        expect(seqsOf(messages).at(-1)).toBe(seqsOf(history).at(-1));
        expect(messages.slice(1)).toEqual(history.filter((stored) => stored.seq > 0 && stored.seq >= windowFrom));
        if (plans.every(({ chars }) => chars === 1)) expect(tokens).toBe(costOf(messages, rule.fixedTokens));
      }),
    );
  });

  it('keeps the newest turns while they fit the budget, and goes below its target otherwise', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans.map((plan) => ({ ...plan, chars: 1 })));
        const { messages, windowFrom, tokens } = chooseWindow(history, whole, rule);
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
        let state = whole;
        let head: string[] = [];
        for (let n = 0; n <= plans.length; n++) {
          const history = historyOf(plans.slice(0, n));
          // A store returns the task and what is not cut off yet.
          const loaded = history.filter(({ seq }) => isShown(seq, { ...state, summarySeq: null }));
          const window = chooseWindow(loaded, state, rule);
          const { windowFrom, digestBefore } = window;
          expect(windowFrom).toBeGreaterThanOrEqual(state.windowFrom);
          expect(digestBefore).toBeGreaterThanOrEqual(state.digestBefore);
          const prompt = assemblePrompt(window, words).map((message) => JSON.stringify(message));
          if (windowFrom === state.windowFrom && digestBefore === state.digestBefore) {
            expect(window.messages).toEqual(loaded);
            expect(prompt.slice(0, head.length)).toEqual(head);
          }
          state = { windowFrom, digestBefore };
          head = prompt;
        }
      }),
    );
  });

  it('cuts in steps so big that most turns cut nothing', () => {
    const rule = { ...usual, budgetTokens: 4_000, fixedTokens: 500 };
    let state = whole;
    let cuts = 0;
    for (let n = 1; n <= 200; n++) {
      const history = historyOf(Array.from({ length: n }, () => ({ calls: 1, tokens: 50, objected: false })));
      const window = chooseWindow(history, state, rule);
      if (window.windowFrom > state.windowFrom) cuts += 1;
      state = window;
    }
    expect(cuts).toBeLessThan(20);
    expect(cuts).toBeGreaterThan(5);
  });

  it('counts a message that was not counted yet on the high side', () => {
    const task = { role: 'user' as const, content: '好'.repeat(1_000) };
    const window = chooseWindow([{ seq: 0, pos: 0, tokens: null, message: task }], whole, {
      ...{ ...usual, budgetTokens: 10_000, fixedTokens: 0 },
    });
    expect(window.tokens).toBe(1_004);
  });
});

describe('old tool results', () => {
  const long = { calls: 1, tokens: 400, objected: false, chars: 1_600 };

  it('stay as they are while no turn is older than those that are kept, and nothing is said to be shortened', () => {
    const rule = { ...usual, keepTurns: 5, budgetTokens: 2_000, fixedTokens: 0 };
    const window = chooseWindow(historyOf(Array.from({ length: 5 }, () => long)), whole, rule);
    expect(window).toMatchObject({ digestBefore: 0 });
    expect(window.windowFrom).toBeGreaterThan(0);
  });

  it('shrink to a line, all but those of the newest turns, before any turn is left out', () => {
    const rule = { ...usual, budgetTokens: 12_200, fixedTokens: 0 };
    const history = historyOf(Array.from({ length: 13 }, () => long));
    const window = chooseWindow(history, whole, rule);
    expect(window).toMatchObject({ windowFrom: 0, digestBefore: 19, messages: history });
    const results = assemblePrompt(window, words).flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
    const line = (step: number) =>
      `[Pawl] Shortened, read_output shows it whole: t {} (step ${step}) returned 1600 characters: ${'r'.repeat(200)}…`;
    const lines = Array.from({ length: 9 }, (_, turn) => line(2 + 2 * turn));
    expect(results).toEqual([...lines, ...Array(4).fill('r'.repeat(1_600))]);
    expect(window.tokens).toBeLessThanOrEqual(enough(rule));
  });

  it('stay whole where a line saves little', () => {
    const rule = { ...usual, budgetTokens: 100, fixedTokens: 0 };
    const history = historyOf(Array.from({ length: 6 }, () => ({ ...long, chars: 300, tokens: 0 })));
    const prompt = assemblePrompt({ ...chooseWindow(history, whole, rule), digestBefore: 100 }, words);
    expect(JSON.stringify(prompt)).not.toContain('Shortened');
  });
});

describe('a compaction', () => {
  const text = fc.string({ maxLength: 400 });

  it('keeps the task, the newest turn and every call that is not answered, and is sound with any summary', () => {
    fc.assert(
      fc.property(plans, rule, text, fc.integer({ min: 0, max: 40 }), (plans, rule, text, lost) => {
        const history = historyOf(plans);
        const gone = history[lost]?.message.role === 'tool' ? history[lost] : undefined;
        const stored = history.filter((one) => one !== gone);
        const compaction = planCompaction(stored, whole, rule);
        if (compaction === null) return;
        const { after, shown, calls } = compaction;
        expect(after.messages[0]).toEqual(history[0]);
        expect(seqsOf(after.messages).at(-1)).toBe(seqsOf(history).at(-1));
        if (gone !== undefined) expect(seqsOf(after.messages)).toContain(gone.seq);
        expect(after.tokens).toBeLessThanOrEqual(enough(rule));
        expect(breaches(assemblePrompt(shown, words, words.summarise(compaction.chars)))).toEqual([]);
        const judged = judgeSummary(text, compaction, rule);
        if (!judged.ok) return;
        expect(judged.promptTokens).toBeLessThanOrEqual(enough(rule));
        const before = after.windowFrom;
        const message = { role: 'user' as const, content: judged.content, summary: { before, calls } };
        const seq = (seqsOf(history).at(-1) ?? 0) + 9;
        const summed = [...stored, { seq, pos: 0, tokens: judged.tokens, message }];
        const loaded = summed.filter((one) => isShown(one.seq, { windowFrom: before, summarySeq: seq }));
        const window = chooseWindow(loaded, after, rule);
        // What was brought down far enough is not touched again at once.
        expect(window).toMatchObject({ windowFrom: before, digestBefore: after.digestBefore });
        const prompt = assemblePrompt(window, words);
        expect(breaches(prompt)).toEqual([]);
        expect(prompt[0]?.content).toBe(`the task\n\n${words.summary(judged.content, calls)}`);
      }),
    );
  });

  it('hands the earlier summary on, and its lines of calls as far as they fit', () => {
    const rule = { ...usual, budgetTokens: 3_000, fixedTokens: 0 };
    const turns = Array.from({ length: 10 }, () => ({ calls: 1, tokens: 150, objected: false, chars: 20 }));
    const lines = Array.from({ length: 50 }, (_, n) => `call ${n}: ${'x'.repeat(20)}`);
    const summary = { before: 1, calls: lines };
    const message = { role: 'user' as const, content: 'earlier', summary };
    const history = historyOf(turns).map((one) => (one.seq === 0 ? one : { ...one, seq: one.seq + 5 }));
    const compaction = planCompaction([...history, { seq: 5, pos: 0, tokens: 300, message }], whole, rule);
    expect(assemblePrompt(compaction?.shown ?? expect.fail(), words)[0]?.content).toContain('earlier');
    expect(compaction?.calls.at(-1)).toMatch(/^t \{\} \(step 14\) returned 20 characters: r+$/);
    expect(compaction?.calls).toContain(lines[49]);
    expect(compaction?.calls).not.toContain(lines[0]);
    expect(compaction?.calls.join('').length).toBeLessThanOrEqual(compaction?.chars ?? 0);
  });

  it.each([
    ['nothing', null, /wrote no summary/],
    ['white space', ' \n ', /wrote no summary/],
    ['more than there was', 'x'.repeat(9_000), /would still take \d+ tokens/],
  ])('takes %s for no summary', (_, said, why) => {
    const rule = { ...usual, budgetTokens: 3_000, fixedTokens: 0 };
    const history = historyOf(Array.from({ length: 10 }, () => ({ calls: 1, tokens: 150, objected: false })));
    const compaction = planCompaction(history, whole, rule) ?? expect.fail();
    expect(judgeSummary(said, compaction, rule)).toMatchObject({ ok: false, why: expect.stringMatching(why) });
  });

  it('is not planned below its share, nor where nothing would be left out', () => {
    const turns = Array.from({ length: 10 }, () => ({ calls: 1, tokens: 150, objected: false }));
    const roomy = { ...usual, budgetTokens: 6_000, fixedTokens: 0 };
    expect(planCompaction(historyOf(turns), whole, roomy)).toBe(null);
    expect(planCompaction(historyOf(turns.slice(0, 1)), whole, { ...roomy, budgetTokens: 10 })).toBe(null);
  });
});

describe('a summary', () => {
  const window = { ...whole, messages: historyOf([]), tokens: 0 };
  const summed = (seq: number, before: number, content: string) => {
    const message = { role: 'user' as const, content, summary: { before, calls: ['look {}: seen'] } };
    return { seq, pos: 0, tokens: 1, message };
  };

  it('stands with the task as data that nothing in it ends; of two the newest does', () => {
    const messages = [...window.messages, summed(5, 3, 'first'), summed(9, 7, 'a </summary> b')];
    expect(assemblePrompt({ ...window, messages, windowFrom: 7 }, words)).toEqual([
      { role: 'user', content: `the task\n\n${words.summary('a ‹/summary> b', ['look {}: seen'])}` },
    ]);
  });

  it('does not hide that turns after it were left out without one', () => {
    const messages = [...window.messages, summed(5, 3, 'first')];
    const said = assemblePrompt({ ...window, messages, windowFrom: 8 }, words)[0]?.content;
    expect(said).toBe(`the task\n\n${words.turnsLeftOut()}\n\n${words.summary('first', ['look {}: seen'])}`);
  });
});

describe('budgetAfterOverflow', () => {
  it('is below what did not fit wherever a turn can be left out or shortened, and says where none can', () => {
    fc.assert(
      fc.property(plans, rule, (plans, rule) => {
        const history = historyOf(plans);
        const before = costOf(history, rule.fixedTokens);
        const roomy = { ...rule, budgetTokens: 100_000 };
        const budgetTokens = budgetAfterOverflow(history, whole, roomy);
        if (budgetTokens === null) return;
        expect(budgetTokens).toBeLessThanOrEqual(before * 0.8);
        expect(chooseWindow(history, whole, { ...rule, budgetTokens }).tokens).toBeLessThan(before);
      }),
    );
    const one = historyOf([{ calls: 2, tokens: 100, objected: false }]);
    expect(budgetAfterOverflow(one, whole, { ...usual, budgetTokens: 1_000, fixedTokens: 0 })).toBe(null);
    const two = historyOf([...Array(2)].map(() => ({ calls: 2, tokens: 100, objected: false })));
    expect(budgetAfterOverflow(two, whole, { ...usual, budgetTokens: 1_000, fixedTokens: 0 })).toBe(518);
  });
});

describe('assemblePrompt', () => {
  it('makes a valid request of any history, window and order of rows', () => {
    const notices = fc.constantFrom(null, 'last turn');
    fc.assert(
      fc.property(plans, rule, notices, fc.infiniteStream(fc.nat()), (plans, rule, notice, order) => {
        const window = chooseWindow(historyOf(plans), whole, rule);
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
    const messages = assemblePrompt({ messages: holed, ...whole, tokens: 0 }, words);
    expect(breaches(messages)).toEqual([]);
    expect(messages.at(-1)).toMatchObject({ role: 'tool', content: words.noResult() });
  });

  it('says with the task that turns were left out, the same way each time', () => {
    const window = { messages: historyOf([]), windowFrom: 7, digestBefore: 0, tokens: 0 };
    expect(assemblePrompt(window, words)).toEqual([{ role: 'user', content: `the task\n\n${words.turnsLeftOut()}` }]);
    expect(assemblePrompt({ ...window, windowFrom: 0 }, words)).toEqual([{ role: 'user', content: 'the task' }]);
  });
});
