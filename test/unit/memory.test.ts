/** What the model is shown of a run that grows: the engine on fakes, a scripted model, and the requests it got. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { LlmRequest } from '../../src/ports.js';
import type { Script } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { Town } from '../support/town.js';

const words = wordsOf('en');
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
  execute: ({ page }) => `page ${page}`,
});

function agent(more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'reader', instructions: 'Read.', model: 'scripted', tools: [read], ...more });
}

/** Reads pages 1 to `pages`, and then answers. */
const reads =
  (pages: number): Script =>
  (_, { callIndex }) =>
    callIndex < pages ? { calls: [{ name: 'read', arguments: { page: callIndex + 1 } }] } : 'read';

const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });

const lastWordOf = (request: LlmRequest | undefined) => request?.messages.at(-1)?.content ?? '';

describe('the last turns before a limit', () => {
  it('are counted down at the end of the request, and its head stays as it was', async () => {
    const model = llm(reads(4));
    await town.startWorker({ agents: [agent()], llm: model });
    const id = await town.start({ agent: 'reader', limits: { maxTurns: 4 } });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: 'max_turns' });
    const told = [2, 1].map((left) => words.turnsLeft(left, 'finish'));
    expect(model.requests.map(lastWordOf)).toEqual(['go', 'page 1', ...told, words.lastTurn('max_turns')]);
    for (const [index, request] of model.requests.slice(1).entries()) {
      const before = model.requests[index]?.messages ?? [];
      const unsaid = before.filter(({ content }) => !content?.startsWith('[Pawl]'));
      expect(JSON.stringify(request.messages.slice(0, unsaid.length))).toBe(JSON.stringify(unsaid));
      expect(request.system).toBe(model.requests[0]?.system);
    }
    town.check(id);
  });

  it('are none of the concern of an agent without tools', async () => {
    const model = llm(() => 'done');
    await town.startWorker({ agents: [agent({ tools: [] })], llm: model });
    await town.settled(await town.start({ agent: 'reader', limits: { maxTurns: 1 } }));
    expect(lastWordOf(model.requests[0])).toBe('go');
  });
});

const long = defineTool({
  name: 'read',
  description: 'reads a page',
  effect: 'none',
  input: z.object({ page: z.number() }),
  execute: ({ page }) => `page ${page}: ${'x'.repeat(1_500)}`,
});

/** What the model is asked for in the place of a turn. */
const wantsSummary = (request: Pick<LlmRequest, 'messages'>) =>
  (request.messages.at(-1)?.content ?? '').includes(words.summarise(0).slice(0, 40));

/** Reads 12 pages, and sums up with what `sums` says. */
const sumsUpWith =
  (sums: Script): Script =>
  (request, context) => {
    if (wantsSummary(request)) return sums(request, context);
    const page =
      1 + Math.max(0, ...[...JSON.stringify(request.messages).matchAll(/page (\d+)/g)].map(([, n]) => Number(n)));
    return page > 12 ? 'read' : { calls: [{ name: 'read', arguments: { page } }] };
  };

const small = { windowTokens: 3_500 };

describe('a run that outgrows its window', () => {
  it('shortens results first, then sums up its turns by a step of its own, and goes on', async () => {
    const model = llm(sumsUpWith(() => 'Twelve pages are wanted; pages 1 to 8 hold x.'));
    await town.startWorker({ agents: [agent({ tools: [long], context: small })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read', turnsUsed: 13 });
    const events = town.rows(id).events.map(({ type }) => type);
    expect(events.indexOf('run.digested')).toBeGreaterThan(0);
    expect(events.indexOf('run.compacted')).toBeGreaterThan(events.indexOf('run.digested'));
    const steps = [...town.rows(id).steps.values()];
    const summary = steps.find(({ name }) => name === 'summary');
    expect(summary).toMatchObject({ kind: 'llm', status: 'completed', output: expect.stringMatching(/^Twelve/) });
    expect(summary?.usage?.inputTokens).toBeGreaterThan(0);
    // It is asked for at the end of the prompt that was sent anyway.
    const asked = model.requests.findIndex(wantsSummary);
    const [before, during, after] = model.requests.slice(asked - 1, asked + 2);
    expect(during?.tools).toEqual(before?.tools);
    expect(JSON.stringify(during?.messages)).toContain(JSON.stringify(before?.messages).slice(1, -1));
    expect(after?.messages[0]?.content).toContain('go\n\n[Pawl] Earlier turns');
    expect(after?.messages[0]?.content).toContain('Twelve pages are wanted');
    expect(after?.messages[0]?.content).toContain('- read {"page":1} (step 2) returned 1508 characters: page 1: xxx');
    expect(after?.messages.filter(({ role }) => role === 'tool').length).toBeGreaterThan(0);
    town.check(id);
  });

  it('is asked for its summary without the schema of its answer, which a provider would hold it to', async () => {
    const model = llm((request, context) => {
      const reply = sumsUpWith(() => 'Pages hold x.')(request, context);
      return reply === 'read' ? '{"read":12}' : reply;
    });
    const output = z.object({ read: z.number() });
    await town.startWorker({ agents: [agent({ tools: [long], context: small, output })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: '{"read":12}' });
    const [summing, others] = [model.requests.filter(wantsSummary), model.requests.filter((one) => !wantsSummary(one))];
    expect(summing.map(({ outputSchema }) => outputSchema)).toEqual(summing.map(() => null));
    expect(summing.length).toBeGreaterThan(0);
    expect(others.every(({ outputSchema }) => outputSchema !== null)).toBe(true);
  });

  it.each([
    ['is empty', () => ({ text: '   ' })],
    ['is a call', () => ({ calls: [{ name: 'read', arguments: { page: 1 } }] })],
    ['is cut off', () => ({ fault: 'truncated' as const, text: 'Twelve' })],
    ['is refused', () => ({ text: null, refusal: 'no' })],
    ['is no shorter', () => 'x'.repeat(20_000)],
    ['fails at every try', () => ({ fault: 'status' as const, status: 500 })],
    ['does not fit', () => ({ fault: 'status' as const, status: 400, code: 'context_length_exceeded' })],
  ])('leaves the turns out where the summary %s, and goes on', async (_, sums) => {
    const model = llm(sumsUpWith(sums));
    await town.startWorker({ agents: [agent({ tools: [long], context: small })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id, 600_000)).toMatchObject({ status: 'completed', output: 'read', summarySeq: null });
    const steps = [...town.rows(id).steps.values()];
    expect(steps.find(({ name }) => name === 'summary')).toMatchObject({ status: 'completed', output: null });
    expect(model.requests.at(-1)?.messages[0]?.content).toContain(words.turnsLeftOut());
    expect(town.rows(id).messages.filter(({ message }) => message.role === 'tool')).toHaveLength(12);
    town.check(id);
  });

  it('is tried again where the summary fails in passing, and sums up once', async () => {
    let failed = 0;
    const model = llm(sumsUpWith(() => (failed++ === 0 ? { fault: 'status', status: 503 } : 'Pages hold x.')));
    await town.startWorker({ agents: [agent({ tools: [long], context: small })], llm: model });
    const id = await town.start({ agent: 'reader' });
    await town.settled(id, 60_000);
    const summary = [...town.rows(id).steps.values()].find(({ name }) => name === 'summary');
    expect(summary).toMatchObject({ attempt: 2, output: 'Pages hold x.' });
    town.check(id);
  });

  it.each(['after_claim', 'after_call', 'after_record'] as const)(
    'sums up once where its worker is killed %s of the summary',
    async (gap) => {
      const model = llm(sumsUpWith(() => 'Pages hold x.'));
      const agents = [agent({ tools: [long], context: small })];
      let victim: Awaited<ReturnType<Town['startWorker']>> | null = null;
      let isDead = false;
      victim = await town.startWorker({
        agents,
        llm: model,
        onGap: async (reached, _, claim) => {
          const isSummary = model.requests.some(wantsSummary) || (claim?.messages.length ?? 0) > 16;
          if (isDead || reached !== gap || claim?.step.kind !== 'llm' || !isSummary) return;
          isDead = true;
          victim?.kill();
          await new Promise(() => {});
        },
      });
      const id = await town.start({ agent: 'reader' });
      await town.clock.advance(200);
      await town.startWorker({ agents, llm: model });
      expect(await town.settled(id, 60_000)).toMatchObject({ status: 'completed', output: 'read' });
      expect(isDead).toBe(true);
      const summaries = [...town.rows(id).steps.values()].filter(({ name }) => name === 'summary');
      const events = town.rows(id).events.filter(({ type }) => type === 'run.compacted');
      expect(events).toHaveLength(summaries.length);
      town.check(id);
    },
  );

  it('has its turns left out without a summary where the agent wants none', async () => {
    const model = llm(sumsUpWith(() => expect.fail()));
    const context = { ...small, summary: false };
    await town.startWorker({ agents: [agent({ tools: [long], context })], llm: model });
    const id = await town.start({ agent: 'reader' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
    expect(town.rows(id).events.map(({ type }) => type)).toContain('run.trimmed');
  });
});

describe('a prompt that the provider finds too long', () => {
  it('is summed up at once, without a pause, and the run keeps to what the provider holds', async () => {
    const holds = 7_000;
    const model = llm((request, context) => {
      const isTooLong = JSON.stringify(request.messages).length > holds;
      return isTooLong
        ? { fault: 'status', status: 400, code: 'context_length_exceeded' }
        : sumsUpWith(() => 'Pages hold x.')(request, context);
    });
    await town.startWorker({ agents: [agent({ tools: [long] })], llm: model });
    const id = await town.start({ agent: 'reader' });
    const from = town.clock.now().getTime();
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'read' });
    expect(town.clock.now().getTime() - from).toBeLessThan(5_000);
    const { attempts, steps } = town.rows(id);
    const overflowed = attempts.filter(({ error }) => error?.code === 'context_overflow');
    expect(overflowed).toHaveLength(1);
    expect(steps.get(overflowed[0]?.seq ?? 0)).toMatchObject({ name: 'summary', attempt: 2 });
    town.check(id);
  });
});
