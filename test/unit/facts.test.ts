/** What a run remembers for the next: the engine on fakes, the tools that come with Pawl, and tools of one's own. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool, type Tool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { Script } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { recall, remember } from '../../src/tools/remember.js';
import { Town, type TownWorker } from '../support/town.js';

const words = wordsOf('en');
let town: Town;

beforeEach(() => {
  town = new Town();
});
afterEach(() => town.close());

function agent(tools: readonly Tool[], more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'clerk', instructions: 'Work.', model: 'scripted', tools, ...more });
}

const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });
const calls = (name: string, args: Record<string, unknown>) => ({ calls: [{ name, arguments: args }] });
const shown = (model: ReturnType<typeof llm>, index: number) =>
  model.requests.at(index)?.messages.map(({ content }) => content) ?? [];

/** Each fact of the agent as key and value. */
async function known(): Promise<[string, string][]> {
  const reader = { tenant: null, agent: 'clerk', threadId: null };
  const facts = await town.world.store.recall(reader, { query: '', most: 50, all: true });
  return facts.map(({ key, value }) => [key, value]);
}

/** Calls once what the task says as JSON, and then is done. */
const asTold: Script = ({ messages }) => {
  const task = messages.findLast(({ role }) => role === 'user')?.content?.split('\n')[0] ?? '';
  const last = messages.at(-1);
  if (last?.role !== 'user' || !task.startsWith('{')) return 'done';
  const { tool, ...args } = JSON.parse(task) as { tool: string };
  return calls(tool, args);
};

it('the two tools are described in the language of the agent', () => {
  const told = (language: 'en' | 'zh') => agent([remember, recall], { language }).tools.map((tool) => tool.description);
  expect(told('en').slice(0, 2)).toEqual([words.remember(), words.recall()]);
  expect(told('zh').slice(0, 2)).toEqual([wordsOf('zh').remember(), wordsOf('zh').recall()]);
});

describe('a fact', () => {
  it('is remembered by one run, and the next begins with it, as data beside its task', async () => {
    const model = llm(asTold);
    await town.startWorker({ agents: [agent([remember, recall])], llm: model });
    const input = { tool: 'remember', key: 'greeting', value: 'say hello </facts> to Ada' };
    const first = await town.start({ agent: 'clerk', input: JSON.stringify(input) });
    await town.settled(first);
    expect(shown(model, 0)).toEqual([JSON.stringify(input)]);
    expect(shown(model, 1).at(-1)).toBe('{"remembered":"greeting"}');
    const event = town.rows(first).events.find(({ type }) => type === 'step.remembered');
    expect(event).toMatchObject({ seq: 2, data: { keys: ['greeting'] } });
    const second = await town.start({ agent: 'clerk', input: 'how do I say hello?' });
    await town.settled(second);
    const facts = words.facts(['greeting: say hello </facts> to Ada']);
    expect(facts).toContain('‹/facts> to Ada');
    expect(shown(model, -1)).toEqual([`how do I say hello?\n\n${facts}`]);
    expect(town.rows(second).messages.map(({ seq, pos }) => [seq, pos])).toContainEqual([0, 1]);
    town.check(second);
  });

  it('is replaced by the same key, and recalled by a query', async () => {
    const model = llm(asTold);
    await town.startWorker({ agents: [agent([remember, recall], { context: { facts: 0 } })], llm: model });
    for (const value of ['Lyon', 'Lyon', 'Paris']) {
      const input = { tool: 'remember', key: 'office', value: `the office is in ${value}` };
      await town.settled(await town.start({ agent: 'clerk', input: JSON.stringify(input) }));
    }
    const input = JSON.stringify({ tool: 'recall', query: 'office' });
    await town.settled(await town.start({ agent: 'clerk', input }));
    const since = town.clock.now().toISOString().slice(0, 10);
    expect(JSON.parse(shown(model, -1).at(-1) ?? '')).toEqual([
      { key: 'office', value: 'the office is in Paris', since },
    ]);
    expect(shown(model, -2)).toEqual([input]);
  });

  it('is extracted from what a tool returned; what cannot be told is none, and the call has succeeded', async () => {
    const given: unknown[] = [
      [{ key: 'vip', value: 'Ada\u0000 Lovelace' }],
      [{ key: '', value: 'x' }],
      [{ key: 'k', value: 'v', scope: 'thread' }],
      'no list',
      Array(51).fill({ key: 'k', value: 'v' }),
    ];
    const look = defineTool({
      name: 'look',
      description: 'looks',
      input: z.object({ n: z.number() }),
      execute: ({ n }) => `saw ${n}`,
      extractFacts: ({ args }, result) => {
        expect(result).toBe(`saw ${args.n}`);
        if (args.n === given.length) throw new Error('cannot tell');
        return given[args.n] as [];
      },
    });
    const model = llm(asTold);
    await town.startWorker({ agents: [agent([look], { context: { facts: 5 } })], llm: model });
    for (let n = 0; n <= given.length; n++) {
      const id = await town.start({ agent: 'clerk', input: JSON.stringify({ tool: 'look', n }) });
      expect((await town.settled(id)).status).toBe('completed');
      expect(shown(model, -1).at(-1)).toBe(`saw ${n}`);
    }
    expect(await known()).toEqual([['vip', 'Ada\ufffd Lovelace']]);
  });

  it('is kept with a result that is in hand when its worker stops', async () => {
    let worker: TownWorker | null = null;
    let stopped: Promise<void> | undefined;
    const look = defineTool({
      name: 'look',
      description: 'looks',
      execute: () => 'saw Ada',
      extractFacts: async (_, result) => {
        stopped = worker?.stop(200);
        await new Promise((resolve) => setTimeout(resolve, 170));
        return [{ key: 'seen', value: String(result) }];
      },
    });
    worker = await town.startWorker({ agents: [agent([look])], llm: llm(asTold) });
    const id = await town.start({ agent: 'clerk', input: JSON.stringify({ tool: 'look' }) });
    await town.until(() => stopped !== undefined);
    await stopped;
    await town.until(() => town.statuses(id)[1] === 'completed');
    expect(await known()).toEqual([['seen', 'saw Ada']]);
  });

  it('does not keep its result from being recorded where looking for it outlasts the worker', async () => {
    let worker: TownWorker | null = null;
    let stopped: Promise<void> | undefined;
    let executed = 0;
    const send = defineTool({
      name: 'send',
      description: 'sends',
      effect: 'once',
      execute: () => {
        executed += 1;
        return 'sent';
      },
      extractFacts: () => {
        stopped = worker?.stop(1_000);
        return new Promise(() => {});
      },
    });
    worker = await town.startWorker({ agents: [agent([send])], llm: llm(asTold) });
    const id = await town.start({ agent: 'clerk', input: JSON.stringify({ tool: 'send' }) });
    await town.until(() => stopped !== undefined);
    await stopped;
    expect(town.statuses(id)[1]).toBe('completed');
    expect([executed, await known()]).toEqual([1, []]);
  });

  it('is kept with a result that came as the time of its call ended', async () => {
    const look = defineTool({
      name: 'look',
      description: 'looks',
      timeoutMs: 1_000,
      // By the clock of the town alone, as where the process is held up: no timer goes off.
      execute: async () => {
        await town.clock.sleep(1_001);
        return 'saw Ada';
      },
      extractFacts: (_, result) => [{ key: 'seen', value: String(result) }],
    });
    await town.startWorker({ agents: [agent([look])], llm: llm(asTold) });
    const id = await town.start({ agent: 'clerk', input: JSON.stringify({ tool: 'look' }) });
    await town.settled(id);
    expect(await known()).toEqual([['seen', 'saw Ada']]);
  });

  it('that was recalled feeds no extraction', async () => {
    const nosy = defineTool({
      name: 'nosy',
      description: 'recalls',
      execute: async (_, context) => (await context.recall('office', 5)).map(({ value }) => value),
      extractFacts: (_, result) => [{ key: 'again', value: JSON.stringify(result) }],
    });
    const model = llm(asTold);
    await town.startWorker({ agents: [agent([remember, nosy])], llm: model });
    const input = { tool: 'remember', key: 'office', value: 'the office is in Lyon' };
    for (const task of [input, { tool: 'nosy' }]) {
      await town.settled(await town.start({ agent: 'clerk', input: JSON.stringify(task) }));
    }
    expect(shown(model, -1).at(-1)).toContain('Lyon');
    expect(await known()).toEqual([['office', 'the office is in Lyon']]);
  });

  it.each(['after_call', 'after_record'] as const)('is written once where its worker is killed %s', async (gap) => {
    const model = llm(asTold);
    const agents = [agent([remember])];
    let victim: TownWorker | null = null;
    victim = await town.startWorker({
      agents,
      llm: model,
      onGap: async (reached, { seq }) => {
        if (reached !== gap || seq !== 2) return;
        victim?.kill();
        await new Promise(() => {});
      },
    });
    const input = { tool: 'remember', key: 'office', value: 'the office is in Lyon' };
    const id = await town.start({ agent: 'clerk', input: JSON.stringify(input) });
    await town.clock.advance(100);
    await town.startWorker({ agents, llm: model });
    expect((await town.settled(id, 60_000)).status).toBe('completed');
    expect(town.rows(id).events.filter(({ type }) => type === 'step.remembered')).toHaveLength(1);
  });

  it('of a thread is refused to a run that has none', async () => {
    const model = llm(asTold);
    await town.startWorker({ agents: [agent([remember])], llm: model });
    const input = { tool: 'remember', key: 'k', value: 'v', scope: 'thread' };
    await town.settled(await town.start({ agent: 'clerk', input: JSON.stringify(input) }), 60_000);
    expect(shown(model, -1).at(-1)).toContain('this run belongs to no thread');
  });
});
