/** Plans and judgements of answers: the engine on fakes, a scripted model, and the requests it got. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { Gap } from '../../src/engine/gaps.js';
import type { LlmRequest } from '../../src/ports.js';
import type { Script, ScriptedReply } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { Town } from '../support/town.js';

const words = wordsOf('en');
const never = new AbortController().signal;
let town: Town;

beforeEach(() => {
  town = new Town();
});
afterEach(() => town.close());

const read = defineTool({
  name: 'read',
  description: 'reads a page',
  effect: 'none',
  input: z.object({ page: z.number() }),
  execute: ({ page }) => `page ${page}: ${'x'.repeat(1_500)}`,
});

function agent(more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'reader', instructions: 'Read.', model: 'scripted', tools: [read], ...more });
}

const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });
type Seen = Pick<LlmRequest, 'messages'>;
const lastWordOf = (request: Seen | undefined) => request?.messages.at(-1)?.content ?? '';
const wantsPlan = (request: Seen) => lastWordOf(request).includes('write the plan for this task');
const wantsJudgement = (request: Seen) => lastWordOf(request).includes('Judge it first');
const wantsSummary = (request: Seen) => lastWordOf(request).includes('Write a summary now');
const steps = (id: string) => [...town.rows(id).steps.values()];
const events = (id: string, type: string) => town.rows(id).events.filter((event) => event.type === type);

/** Kills the worker in a gap of the first step that `is` true of, and starts another. */
async function killOnce(
  agents: ReturnType<typeof agent>[],
  model: ReturnType<typeof llm>,
  { gap, seq }: { gap: Gap; seq: number },
) {
  let victim: Awaited<ReturnType<Town['startWorker']>> | null = null;
  let isDead = false;
  victim = await town.startWorker({
    agents,
    llm: model,
    onGap: async (reached, delivery) => {
      if (isDead || reached !== gap || delivery.seq !== seq) return;
      isDead = true;
      victim?.kill();
      await new Promise(() => {});
    },
  });
  const id = await town.start({ agent: 'reader' });
  await town.until(() => isDead);
  await town.startWorker({ agents, llm: model });
  return id;
}

describe('an agent that plans', () => {
  const pages = (of: Seen) =>
    Math.max(0, ...[...JSON.stringify(of.messages).matchAll(/page (\d+)/g)].map(([, n]) => Number(n)));
  /** Plans, reads `most` pages, puts another plan in place after the third, and answers. */
  const reader =
    (most: number, plan: ScriptedReply = '1. read all\n2. answer'): Script =>
    (request) => {
      if (wantsPlan(request)) return plan;
      if (wantsSummary(request)) return `page ${pages(request)} was the last`;
      const next = pages(request) + 1;
      const isReplaced = JSON.stringify(request.messages).includes('read on to the end');
      if (next === 4 && !isReplaced)
        return { calls: [{ name: 'update_plan', arguments: { plan: '1. read on to the end\n2. answer' } }] };
      return next > most ? 'read' : { calls: [{ name: 'read', arguments: { page: next } }] };
    };

  it('is asked for its plan first, without tools and without the schema of the answer, and shown it from then on', async () => {
    const model = llm((request) => (wantsPlan(request) ? '1. read\n2. answer' : '{"n":1}'));
    const output = z.object({ n: z.number() });
    await town.startWorker({ agents: [agent({ mode: 'plan', output })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({
      status: 'completed',
      output: '{"n":1}',
      stepsUsed: 2,
      turnsUsed: 1,
    });
    const [first, second] = model.requests;
    expect(first).toMatchObject({ tools: [], outputSchema: null });
    expect(lastWordOf(first)).toContain('- read: reads a page');
    expect(lastWordOf(first)).not.toContain('update_plan');
    expect(second?.tools.map(({ name }) => name)).toEqual(['read', 'read_output', 'update_plan']);
    expect(second?.outputSchema).not.toBe(null);
    expect(second?.messages.map(({ content }) => content)).toEqual([`go\n\n${words.plan('1. read\n2. answer')}`]);
    town.check(id);
  });

  it('holds to the plan it put in place of the first, through results shortened, turns summed up and left out', async () => {
    const model = llm(reader(14));
    await town.startWorker({ agents: [agent({ mode: 'plan', context: { windowTokens: 3_500 } })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
    const compacted = events(id, 'run.compacted');
    expect(compacted.length).toBeGreaterThan(1);
    expect(events(id, 'run.planned').map(({ seq }) => seq)).toEqual([1, expect.any(Number)]);
    const replaced = model.requests.findIndex((one) => JSON.stringify(one.messages).includes('read on to the end'));
    for (const request of model.requests.slice(replaced)) {
      expect(JSON.stringify(request.messages)).toContain('read on to the end');
    }
    expect(model.requests.at(-1)?.messages[0]?.content).toContain(words.plan('1. read on to the end\n2. answer'));
    expect(JSON.stringify(model.requests.at(-1)?.messages)).not.toContain('1. read all');
    town.check(id);
  });

  it('holds to its plan where turns are left out without a summary', async () => {
    const model = llm(reader(14));
    const context = { windowTokens: 3_500, summary: false };
    await town.startWorker({ agents: [agent({ mode: 'plan', context })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
    expect(events(id, 'run.trimmed').length).toBeGreaterThan(1);
    expect(model.requests.at(-1)?.messages[0]?.content).toContain(words.plan('1. read on to the end\n2. answer'));
    town.check(id);
  });

  it.each<[string, ScriptedReply]>([
    ['is empty', { text: '  \n ' }],
    ['is a call', { calls: [{ name: 'read', arguments: { page: 1 } }] }],
    ['is cut off', { fault: 'truncated', text: '1. re' }],
    ['is refused', { text: null, refusal: 'no' }],
  ])('goes on without a plan where what it says %s', async (_, plan) => {
    const model = llm(reader(2, plan));
    await town.startWorker({ agents: [agent({ mode: 'plan' })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
    expect(steps(id)[0]).toMatchObject({ name: 'plan', status: 'completed', output: null, error: { code: 'no_plan' } });
    expect(model.requests[1]?.messages.map(({ content }) => content)).toEqual(['go']);
    expect(model.requests.filter(wantsPlan)).toHaveLength(1);
    town.check(id);
  });

  it('tries again where the call for its plan fails in passing, and falls back where it fails for good', async () => {
    let failed = 0;
    const model = llm((request, context) => {
      if (request.model === 'large') return { fault: 'status', status: 503 };
      if (wantsPlan(request) && failed++ === 0) return { fault: 'status', status: 503 };
      return reader(2)(request, context);
    });
    const agents = [agent({ mode: 'plan', model: ['large', 'small'], retry: { attempts: 2 } })];
    await town.startWorker({ agents, llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', llmName: 'small' });
    expect(steps(id)[0]).toMatchObject({ name: 'plan', attempt: 4, output: '1. read all\n2. answer' });
    town.check(id);
  });

  it('makes none where the run has no room for it beside a turn', async () => {
    const model = llm(reader(1));
    await town.startWorker({ agents: [agent({ mode: 'plan' })], llm: model });
    const id = await town.start({ agent: 'reader', limits: { maxSteps: 3 } });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', stepsUsed: 3 });
    expect(model.requests.filter(wantsPlan)).toEqual([]);
  });

  it('is told where the plan it gives is none, or too long, and keeps the one there is', async () => {
    const given = ['', 'x'.repeat(9_000), Array.from({ length: 900 }, (_, n) => `${n}. read`).join('\n')];
    const model = llm((request, { callIndex }) => {
      if (wantsPlan(request)) return '1. read';
      const plan = given[callIndex - 1];
      return plan === undefined ? 'done' : { calls: [{ name: 'update_plan', arguments: { plan } }] };
    });
    await town.startWorker({ agents: [agent({ mode: 'plan' })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'done' });
    expect(lastWordOf(model.requests.at(-1))).toBe(words.planUnusable(1_500));
    expect(model.requests.at(-1)?.messages[0]?.content).toContain(words.plan('1. read'));
    town.check(id);
  });

  it('plans in words where the model calls no functions', async () => {
    const model = llm((request) => {
      if (wantsPlan(request)) return '1. read';
      const call = '{"call_tools":[{"name":"update_plan","arguments":{"plan":"1. ask"}}]}';
      return JSON.stringify(request.messages).includes('is replaced') ? 'done' : call;
    });
    await town.startWorker({ agents: [agent({ mode: 'plan', toolCalling: 'json' })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'done' });
    expect(events(id, 'run.planned')).toHaveLength(2);
    town.check(id);
  });

  it('plans for each run of a thread by itself, after what was said before', async () => {
    const model = llm((request) => {
      const runs = request.messages.filter(({ role }) => role === 'user').length;
      return wantsPlan(request) ? `1. do task ${runs}` : `task ${runs} is done`;
    });
    await town.startWorker({ agents: [agent({ mode: 'plan' })], llm: model });
    for (const input of ['task 1', 'task 2']) {
      const id = await town.start({ agent: 'reader', input, threadId: 'desk' });
      await town.settled(id);
      town.check(id);
    }
    expect(model.requests.at(-1)?.messages.map(({ content }) => content)).toEqual([
      ...['task 1', 'task 1 is done'],
      `task 2\n\n${words.plan('1. do task 2')}`,
    ]);
    expect(model.requests).toHaveLength(4);
  });

  it.each<Gap>(['after_claim', 'after_call', 'after_record'])(
    'plans once where its worker is killed %s of the plan',
    async (gap) => {
      const model = llm(reader(2));
      const id = await killOnce([agent({ mode: 'plan' })], model, { gap, seq: 1 });
      expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
      expect(events(id, 'run.planned').map(({ seq }) => seq)).toEqual([1]);
      expect(town.rows(id).messages.filter(({ message }) => 'plan' in message)).toHaveLength(1);
      expect(model.requests.filter(wantsPlan)).toHaveLength(gap === 'after_call' ? 2 : 1);
      town.check(id);
    },
  );
});

describe('an agent that reflects', () => {
  const mode = (rounds = 1) => ({ reflect: { rounds, criteria: 'It names a number.' } });
  const refuses = '{"accepted": false, "objections": "it names no number"}';
  /** Answers the n-th draft, and each judgement with what `judge` says of it. */
  const writer =
    (judge: (n: number) => ScriptedReply): Script =>
    (request) => {
      const drafts = request.messages.filter(({ role }) => role === 'assistant').length;
      return wantsJudgement(request) ? judge(drafts) : `draft ${drafts + 1}`;
    };

  it('has its answer judged by the criteria, without tools, and gives out what is accepted', async () => {
    const model = llm(writer((n) => (n < 2 ? refuses : '{"accepted": true}')));
    await town.startWorker({ agents: [agent({ mode: mode(3) })], llm: model });
    const id = await town.start({ agent: 'reader' });
    const run = await town.settled(id);
    expect(run).toMatchObject({ status: 'completed', output: 'draft 2', reason: null, stepsUsed: 4, turnsUsed: 2 });
    expect(steps(id).map(({ name }) => name)).toEqual(['scripted', 'reflection', 'scripted', 'reflection']);
    const [, judged, answered] = model.requests;
    expect(judged).toMatchObject({ tools: [], outputSchema: null });
    expect(lastWordOf(judged)).toBe(words.reflect('It names a number.'));
    expect(judged?.messages.at(-2)).toMatchObject({ role: 'assistant', content: 'draft 1' });
    expect(lastWordOf(answered)).toBe(words.answerRefused('it names no number'));
    expect(run.usage.inputTokens).toBe(steps(id).reduce((sum, { usage }) => sum + (usage?.inputTokens ?? 0), 0));
    town.check(id);
  });

  it('judges no more often than its rounds, and says that the answer stands', async () => {
    const model = llm(writer(() => refuses));
    await town.startWorker({ agents: [agent({ mode: mode(2) })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'draft 3', reason: null });
    expect(model.requests.filter(wantsJudgement)).toHaveLength(2);
    expect(events(id, 'run.answer_unjudged')).toMatchObject([{ seq: 5, data: { because: 'rounds' } }]);
    town.check(id);
  });

  it('has only answers judged that satisfy its schema and its verify', async () => {
    const answers = ['none', '{"n":0}', '{"n":1}'];
    const model = llm((request) => {
      const drafts = request.messages.filter(({ role }) => role === 'assistant').length;
      return wantsJudgement(request) ? '{"accepted": true}' : (answers[drafts] ?? 'never');
    });
    const verify = (answer: unknown) => ((answer as { n: number }).n === 0 ? 'n is 0' : undefined);
    const agents = [agent({ mode: mode(), output: z.object({ n: z.number() }), verify })];
    await town.startWorker({ agents, llm: model });
    const id = await town.start({ agent: 'reader' });
    const run = await town.settled(id);
    expect(run).toMatchObject({ status: 'completed', output: '{"n":1}', outputIsJson: true, objections: 2 });
    expect(model.requests.filter(wantsJudgement)).toHaveLength(1);
    town.check(id);
  });

  it.each<[string, ScriptedReply]>([
    ['cannot be read', 'It is fine.'],
    ['is cut off', { fault: 'truncated', text: '{"accep' }],
    ['is a call', { calls: [{ name: 'read', arguments: { page: 1 } }] }],
    ['is refused', { text: null, refusal: 'no' }],
    ['fails at every try', { fault: 'status', status: 500 }],
    ['does not fit', { fault: 'status', status: 400, code: 'context_length_exceeded' }],
    ['may not be asked for', { fault: 'status', status: 401 }],
  ])('lets the answer stand where the judgement %s', async (_, judgement) => {
    const model = llm(writer(() => judgement));
    await town.startWorker({ agents: [agent({ mode: mode(5) })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id, 600_000)).toMatchObject({ status: 'completed', output: 'draft 1', reason: null });
    expect(steps(id)[1]).toMatchObject({ name: 'reflection', error: { code: 'no_judgement' } });
    expect(events(id, 'run.reflected')).toMatchObject([{ data: { round: 1, rounds: 5, verdict: 'none' } }]);
    town.check(id);
  });

  it.each([{ maxSteps: 2, onLimit: 'fail' as const }, { maxTurns: 1 }, { maxTokens: 2_200 }])(
    'gives its answer out where %j leaves no room for another',
    async (limits) => {
      const model = llm(writer(() => refuses));
      await town.startWorker({ agents: [agent({ mode: mode(), tools: [] })], llm: model });
      const id = await town.start({ agent: 'reader', limits });
      expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'draft 1', reason: null });
      expect(model.requests).toHaveLength(1);
      expect(events(id, 'run.answer_unjudged')).toMatchObject([{ data: { because: 'limit' } }]);
      town.check(id);
    },
  );

  it('judges nothing where the deadline comes between the answer and its judgement', async () => {
    const model = llm(writer(() => refuses));
    // What is kept back of a deadline is a fifth of it.
    await town.startWorker({
      agents: [agent({ mode: mode() })],
      llm: model,
      onGap: (gap, { seq }) => (gap === 'before_claim' && seq === 2 ? town.clock.sleep(4_500, never) : undefined),
    });
    const id = await town.start({ agent: 'reader', limits: { deadlineMs: 5_000 } });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'draft 1' });
    expect(model.requests.filter(wantsJudgement)).toEqual([]);
    expect(events(id, 'run.reflected')).toMatchObject([{ data: { verdict: 'none' } }]);
    town.check(id);
  });

  it.each<Gap>(['after_claim', 'after_call', 'after_record'])(
    'records one judgement where its worker is killed %s of it',
    async (gap) => {
      const model = llm(writer((n) => (n < 2 ? refuses : '{"accepted": true}')));
      const id = await killOnce([agent({ mode: mode(2) })], model, { gap, seq: 2 });
      expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'draft 2' });
      expect(events(id, 'run.reflected').map(({ data }) => data.verdict)).toEqual(['objected', 'accepted']);
      expect(model.requests.filter(wantsJudgement)).toHaveLength(gap === 'after_call' ? 3 : 2);
      town.check(id);
    },
  );
});
