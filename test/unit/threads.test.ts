/** Runs of one thread: what the next is shown of the ones before it, and who has its turn. The engine on fakes. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import { cancelRun, pauseRun, redriveRun, resumeRun } from '../../src/core/commands.js';
import { defineTool } from '../../src/core/tool.js';
import type { Script } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { Town } from '../support/town.js';

let town: Town;

beforeEach(() => {
  town = new Town();
});
afterEach(() => town.close());

const look = defineTool({ name: 'look', description: 'looks', effect: 'none', execute: () => 'it rains' });

function agent(more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'talker', instructions: 'Talk.', model: 'scripted', tools: [look], ...more });
}

/** Looks once a run, then answers by the task, which is the last word of a user. */
const looksAndSays: Script = ({ messages }) => {
  const task = messages.findLast(({ role }) => role === 'user')?.content;
  if (messages.at(-1)?.role === 'user') return { calls: [{ name: 'look', arguments: {} }] };
  return `to ${task}: it rains`;
};

const llm = (script: Script) => scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });
const talk = (input: string, more: object = {}) => town.start({ agent: 'talker', input, threadId: 'chat', ...more });

describe('a run of a thread', () => {
  it('is shown the runs before it whole, the oldest first, with calls of its own name', async () => {
    const model = llm(looksAndSays);
    await town.startWorker({ agents: [agent()], llm: model });
    for (const input of ['one', 'two', 'three']) await town.settled(await talk(input));
    const said = (request: (typeof model.requests)[number] | undefined) =>
      request?.messages.map((message) =>
        message.role === 'assistant' && message.toolCalls.length > 0
          ? `asks ${message.toolCalls[0]?.id}`
          : message.content,
      );
    const last = model.requests.at(-1);
    expect(said(last)).toEqual([
      ...['one', 'asks t00000002', 'it rains', 'to one: it rains'],
      ...['two', 'asks t00000001', 'it rains', 'to two: it rains'],
      ...['three', 'asks c00000002', 'it rains'],
    ]);
    // The second request of the run begins as the first did.
    const first = model.requests.at(-2);
    expect(JSON.stringify(last?.messages.slice(0, first?.messages.length))).toBe(JSON.stringify(first?.messages));
    for (const id of ['run_2', 'run_3', 'run_4'].filter((one) => town.world.rows(one) !== undefined)) town.check(id);
  });

  it('is shown nothing of other threads, and of tenants nothing but their own', async () => {
    const model = llm(looksAndSays);
    await town.startWorker({ agents: [agent()], llm: model });
    await town.settled(await talk('one'));
    await town.settled(await talk('two', { threadId: 'other' }));
    await town.settled(await talk('three', { tenant: 'acme' }));
    await town.settled(await town.start({ agent: 'talker', input: 'four' }));
    for (const request of model.requests) expect(JSON.stringify(request.messages).match(/"user"/g)).toHaveLength(1);
  });

  it('waits for the one before it, and is woken within a second of its end', async () => {
    const model = llm((request, context) =>
      context.callIndex === 0 ? { text: 'slowly', delayMs: 60_000 } : looksAndSays(request, context),
    );
    await town.startWorker({ agents: [agent()], llm: model });
    const first = await talk('one');
    const second = await talk('two');
    await town.clock.advance(30_000);
    expect(town.rows(second).steps.get(1)).toMatchObject({ status: 'suspended', waitingFor: 'slot' });
    await town.until(() => town.run(first).status === 'completed', 60_000);
    expect(await town.until(() => town.run(second).status === 'completed', 10_000)).toBeLessThan(1_500);
    expect(model.requests.at(-1)?.messages.map(({ content }) => content)).toContain('slowly');
    town.check(second);
  });

  it('is woken where the one before it was cancelled, or died with its worker', async () => {
    const slow = agent({ retry: { attempts: 1 } });
    const model = llm((_, { callIndex }) => (callIndex === 0 ? { fault: 'hang' } : 'done'));
    const worker = await town.startWorker({ agents: [slow], llm: model });
    const [first, second, third] = [await talk('one'), await talk('two'), await talk('three')];
    await town.clock.advance(100);
    worker.kill();
    await town.command(first, cancelRun);
    await town.startWorker({ agents: [slow], llm: model });
    await town.until(() => town.run(third).status === 'completed', 60_000);
    expect([first, second].map((id) => town.run(id).status)).toEqual(['cancelled', 'completed']);
  });

  it('takes over what its window holds, the newest first, of a run too long its ends', async () => {
    const pages = defineTool({ name: 'look', description: 'reads', effect: 'none', execute: () => 'x'.repeat(3_900) });
    const model = llm(looksAndSays);
    await town.startWorker({ agents: [agent({ tools: [pages], context: { windowTokens: 2_400 } })], llm: model });
    for (const input of ['one', 'two', 'three']) await town.settled(await talk(input));
    const first = model.requests.at(-2)?.messages.map(({ content }) => content);
    expect(first).toEqual(['two', 'to two: it rains', 'three']);
  });

  it('that is paused while it waits is so until it is resumed, and waits again then', async () => {
    const model = llm(() => ({ text: 'done', delayMs: 20_000 }));
    await town.startWorker({ agents: [agent()], llm: model });
    const [first, second, third] = [await talk('one'), await talk('two'), await talk('three')];
    await town.command(second, pauseRun);
    await town.command(third, pauseRun);
    await town.command(third, (draft) => resumeRun(draft, {}));
    const waits = (id: string) => town.rows(id).steps.get(1)?.waitingFor;
    expect([waits(second), waits(third)]).toEqual(['operator', 'slot']);
    await town.until(() => town.run(third).status === 'completed', 60_000);
    expect([first, second].map((id) => town.run(id).status)).toEqual(['completed', 'suspended']);
    await town.command(second, (draft) => resumeRun(draft, {}));
    await town.until(() => town.run(second).status === 'completed', 30_000);
    town.check(second);
  });

  it('that failed waits, redriven, for the one that has its turn', async () => {
    const model = llm((_, { callIndex }) =>
      callIndex === 0 ? { fault: 'status', status: 401 } : { text: 'done', delayMs: 5_000 },
    );
    await town.startWorker({ agents: [agent()], llm: model });
    const first = await talk('one');
    expect((await town.settled(first)).status).toBe('failed');
    const second = await talk('two');
    await town.clock.advance(1_000);
    await town.command(first, (draft) => redriveRun(draft, 'command'), 'revivable');
    expect(town.rows(first).steps.get(1)).toMatchObject({ status: 'suspended', waitingFor: 'slot' });
    await town.until(() => town.run(second).status === 'completed', 10_000);
    await town.until(() => town.run(first).status === 'completed', 10_000);
    town.check(first);
  });
});

describe('a thread whose agent does not let runs wait', () => {
  it('refuses a run while another is not at its end, and takes one after it', async () => {
    const model = llm(() => ({ text: 'done', delayMs: 5_000 }));
    await town.startWorker({ agents: [agent({ busyThread: 'refuse' })], llm: model });
    const first = await talk('one');
    const refused = { id: 'run_x', agent: 'talker', input: 'two', key: null, tenant: null, threadId: 'chat' };
    const rest = { tags: {}, model: null, delayMs: 0, limits: {} };
    const [answer] = await town.world.store.createRuns([{ ...refused, ...rest }]);
    expect(answer).toMatchObject({ refused: { code: 'conflict', message: expect.stringContaining('"chat"') } });
    await town.settled(first);
    expect((await town.settled(await talk('three'))).status).toBe('completed');
  });
});
