/** The plans of a campaign are known beforehand, and a history that is not the plan's leads to another output. */
import { describe, expect, it } from 'vitest';
import type { Agent } from '../../../src/core/agent.js';
import { judgeSummary, planCompaction } from '../../../src/core/compact.js';
import { assemblePrompt, chooseWindow, isSummary } from '../../../src/core/context.js';
import type { StoredMessage } from '../../../src/core/message.js';
import { toStorableText } from '../../../src/core/storable.js';
import { wordsOf } from '../../../src/core/words.js';
import { crewOf } from '../../chaos/campaign/crew.js';
import { readHistory } from '../../chaos/campaign/model.js';
import {
  draft,
  findCall,
  markOf,
  planNamed,
  planOf,
  threadOf,
  tokenIn,
  turnOf,
  withToken,
} from '../../chaos/campaign/plan.js';
import { hitIn, resultOf } from '../../chaos/campaign/result.js';
import { asksForSummary, summaryIn, writeSummary } from '../../chaos/campaign/summary.js';
import { tools } from '../../chaos/campaign/trade.js';

const seed = 42;
const plans = Array.from({ length: 300 }, (_, n) => planOf(seed, n));

/** The output of a run whose n-th result bears another mark than the plan gives it; null: none does. */
function play(n: number, wrong: { at: number; mark: string } | null): string | null {
  const marks: string[] = [];
  for (let turn = 0; turn < 100; turn++) {
    const { calls, text, fails } = turnOf(seed, n, turn, marks);
    if (fails !== null) return null;
    for (const call of calls) marks.push(marks.length === wrong?.at ? wrong.mark : markOf(call));
    if (text === null || ((text === 'all is well' || text.startsWith(draft)) && turn < 99)) continue;
    return text;
  }
  return null;
}

/** How often a run is summed up, as its turns go when nothing is lost: what it leaves out is an error. */
function summariesOf(agent: Agent, seed: number, n: number): number {
  const { task } = planOf(seed, n);
  const rough = (text: string) => Math.ceil(text.length / 4);
  const budgetTokens = Math.floor((agent.context.windowTokens ?? 0) * 0.9);
  const fixedTokens =
    rough(agent.instructions) +
    agent.tools.reduce(
      (sum, { name, description, parameters }) => sum + rough(JSON.stringify({ name, description, parameters })),
      0,
    );
  const { context, words } = agent;
  const rule = { ...context, budgetTokens, fixedTokens, words };
  const history: StoredMessage[] = [{ seq: 0, pos: 0, tokens: rough(task), message: { role: 'user', content: task } }];
  let state = { windowFrom: 0, digestBefore: 0 };
  const marks: string[] = [];
  let count = 0;
  for (let turn = 0, seq = 1; ; turn++) {
    if (chooseWindow(history, state, rule).windowFrom > state.windowFrom) {
      const compaction = planCompaction(history, state, rule);
      if (compaction === null) throw new Error(`plan ${n} leaves turns out without a summary`);
      const whole = history.filter(({ seq: of }) => of === 0 || of >= state.windowFrom);
      expect(compaction.shown.messages).toEqual(expect.arrayContaining(whole.filter((one) => !isSummary(one))));
      count += 1;
      const summary = judgeSummary(writeSummary({ turns: turn, marks, count }), compaction, rule);
      if (!summary.ok) throw new Error(`plan ${n}: ${summary.why}`);
      const { calls, after } = compaction;
      const said = { role: 'user', content: summary.content, summary: { before: after.windowFrom, calls } } as const;
      history.push({ seq, pos: 0, tokens: summary.tokens, message: said });
      state = after;
      seq += 1;
    }
    const messages = assemblePrompt(chooseWindow(history, state, rule), words);
    expect(readHistory(seed, { messages })).toEqual({ plan: n, turn, marks, summaries: count, breach: null });
    const { calls } = turnOf(seed, n, turn, marks);
    if (calls.length === 0) return count;
    const toolCalls = calls.map(({ tool: name, ref }, place) => ({
      id: `call_${seq + place + 1}`,
      name,
      // As the engine keeps those of a call that it cannot carry out.
      arguments: JSON.stringify(name === 'nonsense' ? { invalid_arguments: JSON.stringify({ ref }) } : { ref }),
    }));
    const tokens = rough(toolCalls.map((call) => call.name + call.arguments).join(''));
    history.push({ seq, pos: 0, tokens, message: { role: 'assistant', content: null, toolCalls } });
    for (const [place, { tool: name, token }] of calls.entries()) {
      const whole = name === 'nonsense' ? 'there is no such tool' : resultOf(name, { token, n: 1 });
      const content = toStorableText(whole, (name === 'nonsense' ? null : tools[name].shownChars) ?? 4_000).text;
      history.push({
        seq,
        pos: place + 1,
        tokens: rough(content),
        message: { role: 'tool', callId: toolCalls[place]?.id ?? '', name, content },
      });
    }
    marks.push(...calls.map(markOf));
    seq += 1 + calls.length;
  }
}

describe('a plan', () => {
  it('has 3 to 31 steps without a gap, of every kind somewhere', () => {
    for (const { expected } of plans) {
      const seqs = [...expected.llmSeqs, ...expected.asides, ...expected.calls.map((call) => call.seq)].sort(
        (a, b) => a - b,
      );
      expect(seqs).toEqual(seqs.map((_, index) => index + 1));
      if (expected.status === 'completed') expect(seqs.length).toBeGreaterThanOrEqual(3);
      // An objection adds one, and so does what is no turn.
      expect(seqs.length).toBeLessThanOrEqual(31 + expected.asides.length);
    }
    const calls = plans.flatMap(({ expected }) => expected.calls);
    const seen = new Set(calls.map(({ tool }) => tool));
    expect([...seen].sort()).toEqual([...Object.keys(tools), 'nonsense'].sort());
    expect(plans.some(({ expected }) => expected.status === 'failed')).toBe(true);
    expect(plans.some(({ cancelAfterMs }) => cancelAfterMs !== null)).toBe(true);
    expect(plans.some(({ duplicates }) => duplicates.length > 0)).toBe(true);
    for (const agent of ['auditor', 'assessor']) {
      const objected = plans.filter(({ expected }) => expected.agent === agent && expected.objections === 1);
      expect(objected.length).toBeGreaterThan(0);
    }
    expect(plans.some(({ expected }) => expected.objections > 1)).toBe(false);
    for (const [agent, times] of [
      ['planner', 1],
      ['editor', 1],
      ['editor', 2],
    ] as const)
      expect(plans.some(({ expected }) => expected.agent === agent && expected.asides.length === times)).toBe(true);
    expect(plans.some(({ expected }) => expected.fallsBackAt !== null)).toBe(true);
  });

  it('shares its thread with others of its agent that stand near it, where it has one', () => {
    const threads = new Map<string, number>();
    for (const { n, agent, expected } of plans) {
      expect(threadOf(seed, n)).toBe(expected.thread);
      expect(expected.thread !== null).toBe(agent === 'caller' || agent === 'soloist');
      if (expected.thread !== null) threads.set(expected.thread, (threads.get(expected.thread) ?? 0) + 1);
    }
    expect(threads.size).toBeGreaterThan(20);
    expect([...threads.values()].filter((runs) => runs > 1).length).toBeGreaterThan(10);
    expect(planNamed(seed, plans[7]?.task ?? '')).toBe(7);
    expect(planNamed(seed + 1, plans[7]?.task ?? '')).toBeNull();
    expect(planNamed(seed, 'a draft is no answer')).toBeNull();
    expect(planNamed(seed, 'a draft\n\nseed 42 plan 8\n\nKnown from earlier runs:\nseed 42 plan 9')).toBe(8);
  });

  it('outgrows its window where it is meant to, and is summed up then with all that was shown', () => {
    const [archivist] = crewOf('').filter(({ name }) => name === 'archivist');
    const long = plans.filter(({ agent, expected }) => agent === 'archivist' && expected.status === 'completed');
    expect(long.length).toBeGreaterThan(5);
    for (const { n } of long) expect(summariesOf(archivist as Agent, seed, n)).toBeGreaterThan(0);
    // Of this one the first turn that is shown begins with a call that cannot be carried out.
    expect(summariesOf(archivist as Agent, 4_000, 328)).toBeGreaterThan(0);
  });

  it('asks for what others ask for as well, and is told the same, where results are kept', () => {
    const asked = plans.flatMap(({ agent, expected }) =>
      expected.calls.flatMap(({ tool, token }) => (tool === 'quote' ? [`${agent} ${token}`] : [])),
    );
    expect(new Set(asked).size).toBeLessThan(asked.length / 2);
  });

  it('is the same whenever it is asked for, and ends with the output it names', () => {
    for (const { n, expected } of plans) {
      expect(planOf(seed, n).expected).toEqual(expected);
      expect(play(n, null)).toBe(expected.output);
    }
  });

  it('ends otherwise when any result is lost or another', () => {
    for (const { n, expected } of plans) {
      if (expected.status !== 'completed') continue;
      const at = expected.calls.length - 1;
      expect(play(n, { at, mark: '?' })).not.toBe(expected.output);
    }
  });

  it('knows each of its calls by name', () => {
    const { calls } = turnOf(seed, 3, 0, []);
    for (const call of calls) expect(findCall(seed, call.ref)).toEqual(call);
    expect(findCall(seed, 'nothing')).toBeNull();
    expect(findCall(seed, '3.0.9')).toBeNull();
  });
});

it('a result names its hit where it may be given again', () => {
  expect(hitIn(resultOf('quote', { token: '0123456789', n: 17 }))).toBe(17);
  expect(hitIn(resultOf('put', { token: '0123456789', n: 17 }))).toBeNull();
});

it('what a summary says is read back from the message that it stands in', () => {
  const summary = { turns: 3, marks: ['0123456789', '-'], count: 2 };
  const shown = wordsOf('en').summary(writeSummary(summary), ['dig {} returned 530 characters: done']);
  expect(summaryIn(`seed 42 plan 8\n\n${shown}`)).toEqual(summary);
  expect(summaryIn('seed 42 plan 8')).toBeNull();
  expect(asksForSummary(wordsOf('en').summarise(300))).toBe(true);
  expect(asksForSummary('seed 42 plan 8')).toBe(false);
});

it('a token is found in the text it was put into', () => {
  expect(tokenIn(withToken('done: put', '0123456789'))).toBe('0123456789');
  expect(tokenIn('done: put')).toBeNull();
});
