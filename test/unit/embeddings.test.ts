/** An embedding model at work: the engine on fakes, with vectors by the words of a text or by what a test says they mean. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { cancelRun } from '../../src/core/commands.js';
import type { Vector } from '../../src/core/likeness.js';
import { defineTool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { Embedder } from '../../src/ports.js';
import { inTurn, type Script, type ScriptedReply } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { vectorOfWords } from '../../src/testing/word-vectors.js';
import { recall, remember } from '../../src/tools/remember.js';
import { Town, type TownWorker } from '../support/town.js';

const words = wordsOf('en');
let town: Town;
let embedded: (readonly string[])[];
let embed: (texts: readonly string[], signal: AbortSignal) => Promise<Vector[]>;
/** Tokens of a request, as the provider has them. */
let reported: number | null;

beforeEach(() => {
  town = new Town();
  embedded = [];
  reported = 7;
  embed = async (texts) => texts.map((text) => Float32Array.from(vectorOfWords(text)));
});
afterEach(() => town.close());

const embedder: Embedder = {
  model: 'vectors-1',
  price: { input: 2, cachedInput: 2, output: 0 },
  embed: async (texts, signal) => {
    embedded.push(texts);
    return { vectors: await embed(texts, signal), inputTokens: reported };
  },
};
const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });
const call = (name: string, args: Record<string, unknown>): ScriptedReply => ({ calls: [{ name, arguments: args }] });

describe('facts', () => {
  const clerk = defineAgent({
    name: 'clerk',
    instructions: 'Work.',
    model: 'scripted',
    tools: [remember, recall],
    context: { facts: 2 },
  });

  /** Keeps a fact, then is done; any other task is answered with what was shown of it. */
  const clerical: Script = ({ messages }) => {
    const [task, fact] = messages[0]?.content?.split('=') ?? [];
    if (fact === undefined || messages.length > 1) return messages.at(-1)?.content ?? '';
    return call('remember', { key: task, value: fact });
  };

  async function play(input: string): Promise<string> {
    const id = await town.start({ agent: 'clerk', input });
    const run = await town.settled(id);
    expect(run.status).toBe('completed');
    town.check(id);
    return run.output ?? '';
  }

  /** Texts that name a vehicle or an animal are near to one another, whatever the words. */
  const byMeaning: typeof embed = async (texts) =>
    texts.map((text) => Float32Array.from([/car|drive/.test(text) ? 1 : 0, /cat|pet/.test(text) ? 1 : 0, 0.1]));

  async function remembering(): Promise<TownWorker> {
    const worker = await town.startWorker({ agents: [clerk], llm: llm(clerical), embedder });
    for (const [key, value] of [
      ['garage', 'the car is red'],
      ['home', 'the cat is grey'],
      ['office', 'it is in Lyon'],
    ]) {
      await play(`${key}=${value}`);
    }
    return worker;
  }

  it('that share no word with the task are found by what they mean, and each is embedded once', async () => {
    embed = byMeaning;
    await remembering();
    embedded = [];
    const shown = await play('which colour do I drive?');
    expect(shown.split('\n').filter((line) => line.startsWith('- '))[0]).toBe('- garage: the car is red');
    await play('and my pet?');
    const texts = embedded.flat();
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.filter((text) => text.startsWith('office: '))).toHaveLength(1);
  });

  it('are kept with their vectors: another process asks only for its query', async () => {
    const first = await remembering();
    await play('lyon?');
    first.kill();
    embedded = [];
    await town.startWorker({ agents: [clerk], llm: llm(clerical), embedder });
    await play('where is it?');
    expect(embedded).toEqual([['where is it?']]);
  });

  it('cost no call where there is none, or nothing to look for', async () => {
    await town.startWorker({ agents: [clerk], llm: llm(clerical), embedder });
    expect(await play('hello')).toBe('hello');
    expect(embedded).toEqual([]);
  });

  it('are found by their words where the model fails, which is left alone for a while', async () => {
    embed = () => Promise.reject(new Error('503'));
    await remembering();
    embedded = [];
    expect(await play('where is the office?')).toContain('office: it is in Lyon');
    expect(await play('and the garage?')).toContain('garage: the car is red');
    expect(embedded, 'it failed a moment ago').toEqual([]);
    embed = byMeaning;
    await town.clock.advance(30_000);
    expect(await play('which colour do I drive?')).toContain('<facts>\n- garage: the car is red');
    expect(embedded).toHaveLength(1);
  });

  it('of more texts than fit a request are asked for in several, and what was given is kept', async () => {
    embed = () => Promise.reject(new Error('503'));
    await town.startWorker({ agents: [clerk], llm: llm(clerical), embedder });
    for (let n = 0; n < 15; n++) await play(`key ${n}=value ${n}`);
    const reader = { tenant: null, agent: 'clerk', threadId: null };
    const kept = async () => {
      const all = await town.world.store.factsToRank(reader, { query: 'x', model: 'vectors-1', most: 99 });
      return all.filter(({ vector }) => vector !== null).length;
    };
    expect(await kept()).toBe(0);
    await town.clock.advance(30_000);
    embedded = [];
    embed = async (texts) => {
      if (embedded.length > 1) throw new Error('rate limited');
      return texts.map((text) => Float32Array.from(vectorOfWords(text)));
    };
    await play('value 3');
    expect(embedded.map(({ length }) => length)).toEqual([10, 6]);
    expect(await kept(), 'those beside the query').toBe(9);
  });
});

describe('what vectors cost', () => {
  const clerk = defineAgent({
    name: 'clerk',
    instructions: 'Work.',
    model: 'scripted',
    tools: [remember, recall],
    context: { facts: 0 },
  });
  const asks = inTurn(
    call('remember', { key: 'k', value: 'v' }),
    call('recall', { query: 'what is k?' }),
    call('recall', { query: 'what is v?' }),
    'done',
  );

  async function asked(limits = {}) {
    await town.startWorker({ agents: [clerk], llm: llm(asks), embedder });
    const id = await town.start({ agent: 'clerk', limits });
    const run = await town.settled(id);
    town.check(id);
    return { run, steps: [...town.rows(id).steps.values()] };
  }

  it('is counted with the step that asked, and in the run', async () => {
    const { run, steps } = await asked();
    expect(run).toMatchObject({ status: 'completed', usage: { estimated: false } });
    const usages = steps.flatMap(({ kind, usage }) => (kind === 'tool' ? [usage] : []));
    expect(usages).toMatchObject([null, { inputTokens: 7, outputTokens: 0, costUsd: 14e-6 }, { inputTokens: 7 }]);
    expect(run.usage.inputTokens).toBe(steps.reduce((sum, { usage }) => sum + (usage?.inputTokens ?? 0), 0));
    expect(run.usage.costUsd).toBeCloseTo(28e-6, 9);
  });

  it('is an estimate where the provider does not say how much it was', async () => {
    reported = null;
    const { run, steps } = await asked();
    expect(steps[3]?.usage).toMatchObject({ inputTokens: expect.any(Number), estimated: true });
    expect(steps[3]?.usage?.inputTokens).toBeGreaterThan(3);
    expect(run.usage.estimated).toBe(true);
  });

  it('is seen by budgets', async () => {
    reported = 50_000;
    const { run, steps } = await asked({ maxTokens: 40_000 });
    expect(run).toMatchObject({ status: 'failed', reason: 'max_tokens' });
    expect(steps.filter(({ name }) => name === 'recall')).toHaveLength(1);
  });
});

describe('the loop guard', () => {
  const found = { results: 'nothing' };
  const search = defineTool({
    name: 'search',
    description: 'searches',
    effect: 'none',
    input: z.object({ query: z.string(), page: z.number().optional() }),
    execute: () => found.results,
  });
  const finder = (loop: object = {}) =>
    defineAgent({ name: 'finder', instructions: 'Find.', model: 'scripted', tools: [search], loop });
  /** The same five words, in other orders: as near as can be. */
  const queries = [0, 1, 2, 3, 4].map((n) => {
    const five = ['cheap', 'trains', 'to', 'Lyon', 'today'];
    return [...five.slice(n), ...five.slice(0, n)].join(' ');
  });

  async function play(model: ReturnType<typeof llm>, given: { loop?: object; with?: Embedder | null } = {}) {
    const worker = await town.startWorker({
      agents: [finder(given.loop)],
      llm: model,
      embedder: given.with === undefined ? embedder : given.with,
    });
    const id = await town.start({ agent: 'finder' });
    const run = await town.settled(id);
    town.check(id);
    worker.kill();
    const loops = town.rows(id).events.filter(({ type }) => type === 'run.loop');
    const codes = [...town.rows(id).steps.values()]
      .filter(({ kind }) => kind === 'tool')
      .map(({ error }) => error?.code);
    return { run, rungs: loops.map(({ data }) => [data.rung, data.reworded]), codes };
  }
  const asking = (queries: readonly string[], page?: (n: number) => number) =>
    llm((request, { callIndex: n }) =>
      request.tools.length === 0 || n >= queries.length
        ? 'the end'
        : call('search', { query: queries[n], ...(page === undefined ? {} : { page: page(n) }) }),
    );

  it('climbs its ladder for the same question in other words, with the same results', async () => {
    const model = asking(queries);
    const { run, rungs, codes } = await play(model);
    expect(rungs).toEqual([
      ['tell', true],
      ['withhold', true],
      ['answer', true],
    ]);
    expect(codes).toEqual([undefined, undefined, undefined, undefined, 'withheld']);
    expect(run).toMatchObject({ status: 'completed', reason: 'loop_detected', output: 'the end' });
    const told = model.requests[3]?.messages.at(-1)?.content;
    expect(told).toBe(words.repeats({ rung: 'tell', period: 1, turns: 3, sameResults: true, reworded: true }));
    expect(told).toContain('the same calls in other words');
  });

  it('looks no further without a model for it, and where the model does not answer', async () => {
    expect((await play(asking(queries), { with: null })).rungs).toEqual([]);
    embed = () => Promise.reject(new Error('503'));
    expect((await play(asking(queries))).rungs).toEqual([]);
  });

  it('leaves alone what turns pages, asks for something else, or gets on by it', async () => {
    expect((await play(asking(queries, (n) => n))).rungs).toEqual([]);
    expect(embedded, 'other pages are not compared').toEqual([]);
    const others = ['cheap trains to Lyon', 'hotels near the old port', 'who wrote this song', 'rain or sun tomorrow'];
    expect((await play(asking(others))).rungs).toEqual([]);
    expect(embedded.flat().length, 'as many as were compared').toBeGreaterThan(0);
    embedded = [];
    let n = 0;
    const model = asking(queries);
    const counting = defineTool({
      ...{ name: 'search', description: 'searches', effect: 'none' as const },
      input: z.object({ query: z.string() }),
      execute: () => `hit ${n++}`,
    });
    const agent = defineAgent({ name: 'counter', instructions: 'Find.', model: 'scripted', tools: [counting] });
    await town.startWorker({ agents: [agent], llm: model, embedder });
    const id = await town.start({ agent: 'counter' });
    await town.settled(id);
    expect(town.rows(id).events.filter(({ type }) => type === 'run.loop')).toEqual([]);
    expect(embedded, 'results that differ are not compared').toEqual([]);
  });

  it('takes nearness at the word of its rule', async () => {
    const [first = '', second = ''] = queries;
    const near = [first, `${second} please`, `${first} please`, second, first];
    expect((await play(asking(near), { loop: { likeness: 0.99 } })).rungs).toEqual([]);
    expect((await play(asking(near), { loop: { likeness: 0.8 } })).rungs[0]).toEqual(['tell', true]);
  });

  it('asks for no vector while calls are the same, letter for letter', async () => {
    const model = llm(inTurn(call('search', { query: queries[0] }), call('search', { query: queries[0] }), 'found'));
    await play(model);
    expect(embedded).toEqual([]);
  });
});

it('a model that hangs is given up with its call', async () => {
  let gaveUp = false;
  embed = (_, signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        gaveUp = true;
        reject(new Error('aborted'));
      });
    });
  const agent = defineAgent({ name: 'clerk', instructions: 'Work.', model: 'scripted', tools: [remember] });
  await town.startWorker({
    agents: [agent],
    llm: llm(inTurn(call('remember', { key: 'k', value: 'v' }), 'done')),
    embedder,
  });
  await town.settled(await town.start({ agent: 'clerk', input: 'first' }));
  const id = await town.start({ agent: 'clerk', input: 'second' });
  await town.until(() => embedded.length > 0);
  await town.command(id, cancelRun);
  await town.until(() => gaveUp);
  // It may be billed all the same.
  expect(await town.settled(id)).toMatchObject({ status: 'cancelled', usage: { estimated: true } });
  town.check(id);
});
