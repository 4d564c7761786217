/** The engine on fakes: what becomes of runs when workers die, services go away and operators step in, on a clock by hand. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineAgent, type StopLook } from '../../src/core/agent.js';
import { cancelRun, redriveRun, resolveStep } from '../../src/core/commands.js';
import { numbersFromTools } from '../../src/core/numbers-from-tools.js';
import { defineTool, permissionDenied } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { LlmRequest } from '../../src/ports.js';
import { inTurn, type Script } from '../../src/testing/script.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { remember } from '../../src/tools/remember.js';
import { text } from '../support/scenario.js';
import { Town, type TownWorker } from '../support/town.js';

let town: Town;
let executed: string[];
let keys: Set<string>;

beforeEach(() => {
  town = new Town();
  executed = [];
  keys = new Set();
});
afterEach(() => town.close());

/** A tool that notes each call and takes a while by the town's clock. */
function tool(name: string, options: { effect?: 'idempotent' | 'once'; takesMs?: number; attempts?: number } = {}) {
  const { effect = 'idempotent', takesMs = 0, attempts } = options;
  return defineTool({
    name,
    description: name,
    effect,
    input: z.object({ n: z.number().optional() }),
    ...(attempts === undefined ? {} : { attempts }),
    execute: async ({ n }, { idempotencyKey, signal }) => {
      executed.push(n === undefined ? name : `${name} ${n}`);
      keys.add(idempotencyKey);
      if (takesMs > 0) await town.clock.sleep(takesMs, signal);
      return `${name} done`;
    },
  });
}

const look = () => tool('look');
const asks = (...names: string[]) => ({ calls: names.map((name) => ({ name, arguments: {} })) });

function agent(tools: ReturnType<typeof tool>[], more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  return defineAgent({ name: 'helper', instructions: 'Help.', model: 'scripted', tools, ...more });
}

function llm(script: Script) {
  return scriptedLlm(script, { sleep: (ms, signal) => town.clock.sleep(ms, signal) });
}

describe('a run', () => {
  it('goes through its turns in no time at all', async () => {
    const model = llm(inTurn(asks('look', 'look'), 'seen'));
    await town.startWorker({ agents: [agent([look()])], llm: model });
    const id = await town.start({ agent: 'helper' });
    await town.until(() => town.run(id).status === 'completed', 100);
    expect(town.run(id)).toMatchObject({ output: 'seen', stepsUsed: 4, turnsUsed: 2 });
    expect(executed).toEqual(['look', 'look']);
    expect(keys.size).toBe(2);
    town.check(id);
  });

  it('is found by the sweep when the queue was told nothing', async () => {
    await town.startWorker({ agents: [agent([])], llm: llm(inTurn('done')) });
    town.queue.setReachable(false);
    const id = await town.start({ agent: 'helper' });
    await town.clock.advance(5_000);
    expect(town.run(id).status).toBe('pending');
    town.queue.setReachable(true);
    await town.until(() => town.run(id).status === 'completed', 10_000);
  });

  it('is handed over once a second at most to a queue that answers and takes nothing, and nothing is said of it', async () => {
    await town.startWorker({ agents: [agent([])], llm: llm(inTurn('done')) });
    const add = town.queue.add.bind(town.queue);
    let refused = 0;
    town.queue.add = async () => {
      refused += 1;
      throw new Error('no space left');
    };
    const id = await town.start({ agent: 'helper' });
    await town.clock.advance(22_000);
    expect(refused).toBeGreaterThan(10);
    expect(refused).toBeLessThan(25);
    town.queue.add = add;
    await town.until(() => town.run(id).status === 'completed', 10_000);
  });

  it('starts when its delay is over', async () => {
    await town.startWorker({ agents: [agent([])], llm: llm(inTurn('done')) });
    const id = await town.start({ agent: 'helper', delayMs: 60_000 });
    await town.clock.advance(59_000);
    expect(town.run(id).status).toBe('pending');
    await town.until(() => town.run(id).status === 'completed', 12_000);
  });

  it('waits for a worker that serves its agent', async () => {
    const first = await town.startWorker({ agents: [agent([])], llm: llm(inTurn('done')) });
    first.kill();
    const stranger = await town.startWorker({
      agents: [defineAgent({ ...other, name: 'other' })],
      llm: llm(inTurn('no')),
    });
    await town.clock.advance(20_000);
    const id = await town.start({ agent: 'helper' });
    expect((await town.settled(id)).status).toBe('suspended');
    expect(town.rows(id).steps.get(1)).toMatchObject({ waitingFor: 'worker' });
    stranger.kill();
    await town.startWorker({ agents: [agent([])], llm: llm(inTurn('done')) });
    await town.until(() => town.run(id).status === 'completed', 10_000);
  });
});

const other = { instructions: 'No.', model: 'scripted' };

describe('a worker that is killed', () => {
  it.each(['before_claim', 'after_claim', 'after_call', 'after_record', 'after_dispatch'] as const)(
    '%s leaves a run that another ends within twelve seconds of its loss, each step recorded once',
    async (gap) => {
      const agents = [agent([look()])];
      const script = inTurn(asks('look'), 'seen', 'seen');
      const model = llm(script);
      let victim: TownWorker | null = null;
      victim = await town.startWorker({
        agents,
        llm: model,
        onGap: async (reached, delivery) => {
          if (reached !== gap || delivery.seq !== 2) return;
          victim?.kill();
          await new Promise(() => {});
        },
      });
      const id = await town.start({ agent: 'helper' });
      await town.clock.advance(100);
      await town.startWorker({ agents, llm: model });
      const tookMs = await town.until(() => town.run(id).status === 'completed', 30_000);
      expect(tookMs).toBeLessThanOrEqual(12_000);
      expect(town.statuses(id)).toEqual(['completed', 'completed', 'completed']);
      expect(keys.size).toBe(1);
      expect(executed.length).toBe(gap === 'after_call' ? 2 : 1);
      town.check(id);
    },
  );

  it('or only declared dead, while it stops, does not come back under another name', async () => {
    const slow = tool('look', { takesMs: 4_000 });
    const worker = await town.startWorker({ agents: [agent([slow])], llm: llm(inTurn(asks('look'), 'seen')) });
    const id = await town.start({ agent: 'helper' });
    await town.until(() => executed.length === 1, 1_000);
    const stopping = worker.stop(8_000);
    const [row] = await town.world.watch.liveWorkers();
    expect(await town.world.watch.declareDead(row?.id ?? '', row?.beat ?? 0)).toBe(true);
    await town.clock.advance(10_000);
    await stopping;
    expect(worker.id()).toBe(row?.id);
    expect(await town.world.watch.liveWorkers()).toEqual([]);
    await town.startWorker({ agents: [agent([slow])], llm: llm(inTurn(asks('look'), 'seen')) });
    await town.until(() => town.run(id).status === 'completed', 60_000);
    town.check(id);
  });

  it('during a once call leaves a question, asked when the call must be over, and no second call', async () => {
    const pay = tool('pay', { effect: 'once', takesMs: 10_000 });
    const model = llm(inTurn(asks('pay'), 'paid'));
    const victim = await town.startWorker({ agents: [agent([pay])], llm: model });
    const id = await town.start({ agent: 'helper' });
    await town.until(() => executed.length === 1, 1_000);
    victim.kill();
    await town.startWorker({ agents: [agent([pay])], llm: model });
    await town.clock.advance(25_000);
    expect(town.rows(id).steps.get(2)).toMatchObject({ status: 'pending', unknown: true });
    expect((await town.settled(id, 20_000)).status).toBe('suspended');
    await town.command(id, (draft) => resolveStep(draft, 2, { as: 'done', observation: text('it went through') }));
    expect((await town.settled(id)).status).toBe('completed');
    expect(executed).toEqual(['pay']);
  });

  it('with many steps in hand leaves suspects that are worked off one after the other, without a pause between them', async () => {
    const slow = tool('look', { takesMs: 300 });
    const model = llm(inTurn(asks(...Array.from({ length: 20 }, () => 'look')), 'seen'));
    const victim = await town.startWorker({ agents: [agent([slow])], llm: model, concurrency: 20 });
    const id = await town.start({ agent: 'helper' });
    await town.until(() => executed.length === 20, 1_000);
    victim.kill();
    await town.startWorker({ agents: [agent([slow])], llm: model, concurrency: 20 });
    // The verdict and the sweep take twelve seconds, the calls six.
    const tookMs = await town.until(() => town.run(id).status === 'completed', 120_000);
    expect(tookMs).toBeLessThanOrEqual(20_000);
    expect(executed.length).toBe(40);
    expect(keys.size).toBe(20);
    town.check(id);
  });

  it('on a slow database has its claims taken back side by side, and a wiped queue is filled before that is done', async () => {
    const slow = tool('look', { takesMs: 60_000 });
    const agents = [agent([slow])];
    const victim = await town.startWorker({ agents, llm: llm(() => asks('look')), concurrency: 24 });
    await Promise.all(Array.from({ length: 24 }, () => town.start({ agent: 'helper' })));
    await town.until(() => executed.length === 24, 1_000);
    victim.kill();
    const waiting = await town.start({ agent: 'helper' });
    const { store, watch } = town.world;
    const change = store.change.bind(store);
    store.change = async (...given) => {
      await town.clock.sleep(1_000);
      return change(...given);
    };
    const taken = vi.spyOn(watch, 'claimsOfDeadWorkers');
    await town.until(() => taken.mock.settledResults.some(({ value }) => (value as unknown[]).length > 0), 10_000);
    town.queue.wipe();
    await town.clock.advance(4_000);
    const isThere = async () => (await town.queue.probe([{ queue: 'llm', runId: waiting, seq: 1, dispatch: 2 }]))[0];
    expect(await isThere()).toBe('ready');
    expect(await watch.claimsOfDeadWorkers(100)).not.toEqual([]);
    await town.clock.advance(4_000);
    expect(await watch.claimsOfDeadWorkers(100)).toEqual([]);
  });

  it('by a poison step takes no healthy run with it; the poison dies after its crashes', async () => {
    const poison = defineTool({
      name: 'poison',
      description: 'kills its process',
      execute: async () => {
        alive?.kill();
        await new Promise(() => {});
      },
    });
    const agents = [
      agent([look()]),
      defineAgent({ name: 'poisoner', instructions: 'x', model: 'scripted', tools: [poison] }),
    ];
    const model = llm((request) => (request.messages.length > 1 ? 'fine' : asks(request.tools[0]?.name ?? '')));
    let alive: TownWorker | null = null;
    const healthy: string[] = [];
    const poisoned = [];
    for (let life = 0; life < 6; life++) {
      alive = await town.startWorker({ agents, llm: model });
      if (life === 0) poisoned.push(await town.start({ agent: 'poisoner' }));
      for (let n = 0; n < 3; n++) healthy.push(await town.start({ agent: 'helper' }));
      await town.clock.advance(30_000);
    }
    expect(poisoned.map((id) => town.run(id).reason)).toEqual(['crash_loop']);
    expect(healthy.map((id) => town.run(id).status)).toEqual(healthy.map(() => 'completed'));
  });
});

describe('the queue', () => {
  it('wiped at any time loses no run', async () => {
    const model = llm((request) => (request.messages.length > 3 ? 'seen' : { ...asks('look'), delayMs: 3_000 }));
    await town.startWorker({ agents: [agent([tool('look', { takesMs: 3_000 })])], llm: model });
    const ids = await Promise.all(Array.from({ length: 8 }, () => town.start({ agent: 'helper' })));
    for (let wipe = 0; wipe < 6; wipe++) {
      await town.clock.advance(1_700);
      town.queue.wipe();
    }
    await town.until(() => ids.every((id) => town.run(id).status === 'completed'), 60_000);
    for (const id of ids) town.check(id);
  });
});

describe('the database', () => {
  it('away for a while costs no call and no attempt', async () => {
    const model = llm(inTurn({ ...asks('look'), delayMs: 1_000 }, 'seen'));
    await town.startWorker({ agents: [agent([look()])], llm: model });
    const id = await town.start({ agent: 'helper' });
    await town.clock.advance(500);
    town.world.setReachable(false);
    await town.clock.advance(20_000);
    expect(town.rows(id).steps.get(1)?.status).toBe('running');
    town.world.setReachable(true);
    expect((await town.settled(id)).status).toBe('completed');
    expect(model.requests).toHaveLength(2);
    expect(town.rows(id).attempts).toEqual([]);
  });
});

describe('a dead step', () => {
  it('stands in the failed set, and Retry there redrives its run', async () => {
    let isDown = true;
    const model = llm(() => (isDown ? { fault: 'status', status: 500 } : 'back again'));
    await town.startWorker({ agents: [agent([], { retry: { attempts: 2, baseMs: 1_000 } })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'attempts_exhausted' });
    const failed = () => town.queue.jobs().filter((job) => job.state === 'failed');
    expect(failed()).toMatchObject([{ runId: id, seq: 1, dispatch: 1 }]);
    isDown = false;
    town.queue.retryFailed({ queue: 'llm', runId: id, seq: 1, dispatch: 1 });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'back again' });
    expect(failed()).toEqual([]);
  });

  it('that died outside a worker is shown there too', async () => {
    const victimless = llm(inTurn('never'));
    const workers: TownWorker[] = [];
    const id = await (async () => {
      workers.push(await town.startWorker({ agents: [agent([])], llm: llm(() => new Promise(() => {})) }));
      return town.start({ agent: 'helper' });
    })();
    for (let life = 0; life < 4; life++) {
      await town.until(() => town.rows(id).steps.get(1)?.status === 'running', 30_000);
      workers.at(-1)?.kill();
      await town.until(() => town.rows(id).steps.get(1)?.status !== 'running', 30_000);
      const script = life === 3 ? victimless : llm(() => new Promise(() => {}));
      workers.push(await town.startWorker({ agents: [agent([])], llm: script }));
    }
    expect(town.run(id)).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    await town.until(() => town.queue.jobs().some((job) => job.runId === id && job.state === 'failed'), 10_000);
    await town.command(id, (draft) => redriveRun(draft, 'command'), 'revivable');
    expect((await town.settled(id)).status).toBe('completed');
  });
});

describe('a cancel', () => {
  it('aborts the calls in flight within three seconds, and starts nothing more', async () => {
    const slow = tool('slow', { takesMs: 600_000 });
    await town.startWorker({
      agents: [agent([slow])],
      llm: llm(inTurn(asks('slow', 'slow'), 'never')),
      concurrency: 1,
    });
    const id = await town.start({ agent: 'helper' });
    await town.until(() => executed.length === 1, 1_000);
    await town.command(id, cancelRun);
    expect(await town.until(() => town.run(id).status === 'cancelled', 10_000)).toBeLessThanOrEqual(3_000);
    expect(executed).toEqual(['slow']);
    town.check(id);
  });
});

describe('a limit', () => {
  it('of time, under finish, aborts what runs and lets the model say what it has', async () => {
    const slow = tool('slow', { takesMs: 600_000 });
    const model = llm((request) => (request.tools.length > 0 ? asks('slow', 'look') : 'as far as I got'));
    await town.startWorker({ agents: [agent([slow, look()])], llm: model });
    const id = await town.start({ agent: 'helper', limits: { deadlineMs: 60_000 } });
    await town.until(() => town.run(id).status === 'completed', 55_000);
    expect(town.run(id)).toMatchObject({ reason: 'deadline', output: 'as far as I got' });
    expect(town.rows(id).steps.get(2)).toMatchObject({ error: { code: 'aborted' } });
    town.check(id);
  });
});

describe('a budget of cost', () => {
  const price = { input: 1_000, cachedInput: 100, output: 2_000 };
  const spend = (given: { price?: typeof price }) => {
    const script: Script = (request, { callIndex }) =>
      request.tools.length > 0
        ? { calls: [{ name: 'look', arguments: { n: callIndex } }] }
        : 'what I found for the money';
    return scriptedLlm(script, { ...given, sleep: (ms, signal) => town.clock.sleep(ms, signal) });
  };

  it('ends in a last answer that it still pays for', async () => {
    const model = spend({ price });
    await town.startWorker({ agents: [agent([look()], { maxOutputTokens: 50 })], llm: model });
    const id = await town.start({ agent: 'helper', limits: { maxCostUsd: 2, maxTurns: 1_000, maxSteps: 1_000 } });
    const run = await town.settled(id);
    expect(run).toMatchObject({ status: 'completed', reason: 'max_cost', output: 'what I found for the money' });
    expect(model.requests.length).toBeGreaterThan(3);
    expect(run.usage.costUsd).toBeLessThanOrEqual(2);
    expect(run.usage.costUsd).toBeGreaterThan(1);
  });

  it('is registered with the price, so that even a first call that is lost is charged', async () => {
    const agents = [agent([look()])];
    const victim = await town.startWorker({
      agents,
      llm: scriptedLlm(() => new Promise(() => {}), { price, sleep: (ms, signal) => town.clock.sleep(ms, signal) }),
    });
    const id = await town.start({ agent: 'helper', limits: { maxCostUsd: 0.01, onLimit: 'fail' } });
    expect(town.run(id).reserve.costUsd).toBeGreaterThan(0.01);
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'max_cost', usage: { inputTokens: 0 } });
    const other = await town.start({ agent: 'helper', limits: { maxCostUsd: 1_000 } });
    await town.until(() => town.rows(other).steps.get(1)?.status === 'running', 1_000);
    victim.kill();
    await town.startWorker({ agents, llm: spend({ price }) });
    await town.until(() => town.run(other).usage.costUsd !== null, 30_000);
    expect(town.run(other).usage).toMatchObject({ estimated: true });
  });

  it('is not kept without a price, and tokens are', async () => {
    const model = spend({});
    await town.startWorker({ agents: [agent([look()])], llm: model });
    const id = await town.start({ agent: 'helper', limits: { maxCostUsd: 0.01, maxTokens: 5_000 } });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: 'max_tokens' });
    expect(town.rows(id).events.map(({ type }) => type)).toContain('run.price_unknown');
  });
});

describe('a run that does not get on', () => {
  const words = wordsOf('en');
  const lastWordOf = (request: Pick<LlmRequest, 'messages'> | undefined) => request?.messages.at(-1)?.content ?? '';

  it('is told, has the repeated calls withheld, and is asked for its answer without tools', async () => {
    const model = llm((request) => (request.tools.length > 0 ? asks('look') : 'nothing to be found'));
    await town.startWorker({ agents: [agent([look()])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({
      status: 'completed',
      reason: 'loop_detected',
      output: 'nothing to be found',
    });
    expect(executed).toHaveLength(4);
    expect(town.rows(id).steps.get(10)).toMatchObject({ name: 'look', error: { code: 'withheld' }, attempt: 0 });
    const said = model.requests.map(lastWordOf);
    expect(said.slice(1, 3)).toEqual(['look done', 'look done']);
    const repeated = { period: 1, sameResults: true };
    expect(said[3]).toBe(words.repeats({ ...repeated, rung: 'tell', turns: 3 }));
    expect(said[4]).toBe(words.repeats({ ...repeated, rung: 'withhold', turns: 4 }));
    expect(said[5]).toBe(words.lastTurn('loop_detected'));
    const told = town.rows(id).events.filter((event) => event.type === 'run.loop');
    expect(told.map(({ data }) => [data.rung, data.tools])).toEqual([
      ['tell', ['look']],
      ['withhold', ['look']],
      ['answer', ['look']],
    ]);
    // The head of the prompt, tools included, never changed while tools could be called.
    const heads = model.requests.slice(0, 5).map(({ system, tools }) => JSON.stringify([system, tools]));
    expect(new Set(heads).size).toBe(1);
    town.check(id);
  });

  it('goes on with whatever else it asks for once it was told', async () => {
    const model = llm((request, { callIndex }) =>
      lastWordOf(request).startsWith('[Pawl]') && callIndex >= 4
        ? { calls: [{ name: 'look', arguments: { n: callIndex } }] }
        : callIndex > 7
          ? 'found'
          : asks('look'),
    );
    await town.startWorker({ agents: [agent([look()])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: null, output: 'found' });
    expect(executed).toContain('look 4');
  });

  it('fails under onLimit fail, in place of the answer', async () => {
    await town.startWorker({ agents: [agent([look()])], llm: llm(() => asks('look')) });
    const id = await town.start({ agent: 'helper', limits: { onLimit: 'fail' } });
    const message = 'the model asked for the same for 5 turns in a row (look)';
    expect(await town.settled(id)).toMatchObject({
      status: 'failed',
      reason: 'loop_detected',
      error: { code: 'loop_detected', message },
    });
    town.check(id);
  });

  it('ends at the third turn whose calls all failed, each after its own attempts', async () => {
    let tries = 0;
    const broken = defineTool({
      name: 'query',
      description: 'asks a database that is down',
      input: z.object({ n: z.number() }),
      attempts: 2,
      execute: () => {
        tries += 1;
        throw new Error('connection refused');
      },
    });
    const model = llm((_, { callIndex }) => ({ calls: [{ name: 'query', arguments: { n: callIndex } }] }));
    await town.startWorker({ agents: [agent([broken])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({
      status: 'failed',
      reason: 'breaker_open',
      error: {
        code: 'breaker_open',
        message: 'every tool call of 3 turns in a row failed; the last error: query: connection refused',
      },
    });
    expect([tries, model.requests.length]).toEqual([6, 3]);
    town.check(id);
  });

  it('counts what was redelivered once', async () => {
    const broken = defineTool({
      name: 'query',
      description: 'fails',
      attempts: 1,
      execute: () => {
        throw new Error('down');
      },
    });
    const script: Script = (_, { callIndex }) => (callIndex < 2 ? asks('query') : 'I give up');
    const agents = [agent([broken])];
    const model = llm(script);
    let victim: TownWorker | null = null;
    victim = await town.startWorker({
      agents,
      llm: model,
      onGap: async (reached, delivery) => {
        if (reached !== 'after_record' || delivery.seq !== 4) return;
        victim?.kill();
        await new Promise(() => {});
      },
    });
    const id = await town.start({ agent: 'helper' });
    await town.clock.advance(100);
    await town.startWorker({ agents, llm: model });
    expect(await town.settled(id, 60_000)).toMatchObject({ status: 'completed', output: 'I give up' });
    expect(town.run(id).conduct).toMatchObject({ failedTurns: 2, asked: [expect.any(Number), expect.any(Number)] });
  });
});

describe('a tool that refuses permission', () => {
  it('is closed for the rest of the run, siblings that have not begun included, and the model is told', async () => {
    const refused = defineTool({
      name: 'charge',
      description: 'charges',
      effect: 'once',
      sequential: true,
      execute: () => {
        executed.push('charge');
        return permissionDenied('not your account');
      },
    });
    const model = llm(inTurn(asks('charge', 'charge'), asks('charge', 'look'), 'permission is missing'));
    await town.startWorker({ agents: [agent([refused, look()])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'permission is missing' });
    expect(executed).toEqual(['charge', 'look']);
    const codes = [...town.rows(id).steps.values()].map(({ name, error }) => [name, error?.code ?? null]);
    const denied = ['charge', 'permission_denied'];
    expect(codes.filter(([name]) => name !== 'scripted')).toEqual([denied, denied, denied, ['look', null]]);
    const said = model.requests[2]?.messages.map(({ content }) => content ?? '') ?? [];
    expect(said.filter((text) => text.includes('tell the user'))).toHaveLength(3);
    expect(said.join()).toContain('not your account');
    expect(town.rows(id).events.filter(({ type }) => type === 'run.tool_closed')).toHaveLength(1);
    town.check(id);
  });
});

describe('the check of a tool', () => {
  const checked = (check: (args: { cents: number }) => string | undefined, attempts = 1) =>
    defineTool({
      name: 'transfer',
      description: 'transfers',
      effect: attempts === 1 ? 'once' : 'idempotent',
      attempts,
      input: z.object({ cents: z.number() }),
      check,
      execute: ({ cents }) => {
        executed.push(`transfer ${cents}`);
        return 'transferred';
      },
    });
  const transfer = (cents: number) => ({ calls: [{ name: 'transfer', arguments: { cents } }] });

  it('objects before the tool acts, and the model may call again', async () => {
    const tool = checked(({ cents }) => (cents > 100 ? 'at most 100 cents at once' : undefined));
    const model = llm(inTurn(transfer(500), transfer(50), 'the end'));
    await town.startWorker({ agents: [agent([tool])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    expect(executed).toEqual(['transfer 50']);
    expect(town.rows(id).steps.get(2)).toMatchObject({ unknown: false, error: { code: 'objection' } });
    expect(model.requests[1]?.messages.at(-1)?.content).toContain('at most 100 cents at once');
    town.check(id);
  });

  it('that throws is tried again as the tool is, and the tool is not carried out', async () => {
    const tool = checked(() => {
      executed.push('check');
      throw new Error('the ledger is away');
    }, 2);
    const model = llm(inTurn(transfer(5), 'the end'));
    await town.startWorker({ agents: [agent([tool])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    expect(executed).toEqual(['check', 'check']);
    const told = model.requests[1]?.messages.at(-1)?.content;
    expect(told).toContain('the ledger is away');
    expect(told).toContain('tried 2 times. Choose another way');
  });
});

describe('stopWhen', () => {
  const report = defineTool({
    name: 'report',
    description: 'reports',
    effect: 'none',
    execute: () => ({ total: 42 }),
  });

  it('ends the run with the result it waits for, before the model is asked again', async () => {
    const seen: unknown[] = [];
    const stopWhen = ({ lastToolResult }: StopLook) => {
      seen.push(lastToolResult);
      return lastToolResult.name === 'report';
    };
    const model = llm(inTurn(asks('look'), asks('look', 'report')));
    await town.startWorker({ agents: [agent([look(), report], { stopWhen })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({
      status: 'completed',
      reason: 'stopped_early',
      output: '{"total":42}',
    });
    expect(model.requests).toHaveLength(2);
    expect(seen).toHaveLength(3);
    expect(seen.at(-1)).toEqual({ name: 'report', arguments: {}, text: '{"total":42}', value: { total: 42 } });
    town.check(id);
  });

  it('that throws, or answers anything but true, lets the run go on', async () => {
    const answers = ['yes', new Error('no')];
    const stopWhen = () => {
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer as unknown as boolean;
    };
    await town.startWorker({
      agents: [agent([look()], { stopWhen })],
      llm: llm(inTurn(asks('look'), asks('look'), 'the end')),
    });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: null, output: 'the end' });
    expect(answers).toEqual([]);
  });

  it('is not asked of calls that failed', async () => {
    const broken = defineTool({
      name: 'broken',
      description: 'fails',
      attempts: 1,
      execute: () => {
        throw new Error('down');
      },
    });
    await town.startWorker({
      agents: [agent([broken], { stopWhen: () => true })],
      llm: llm(inTurn(asks('broken'), 'the end')),
    });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: null, output: 'the end' });
  });
});

describe('a tool that fails in many runs', () => {
  const outage = { failures: 4, windowMs: 60_000, trialMs: 30_000 };
  let isBroken = true;
  const flaky = (given: false | typeof outage = outage) =>
    defineTool({
      name: 'look',
      description: 'look',
      effect: 'none',
      attempts: 2,
      outage: given,
      execute: () => {
        executed.push('look');
        if (isBroken) throw new Error('the database is away');
        return 'seen';
      },
    });
  const once: Script = ({ messages }) => (messages.at(-1)?.role === 'tool' ? 'the end' : asks('look'));
  const play = async (count: number) => {
    const ids = [];
    for (let left = count; left > 0; left--) {
      const id = await town.start({ agent: 'helper' });
      await town.settled(id);
      ids.push(id);
    }
    return ids.map((id) => town.rows(id).steps.get(2)?.error?.code ?? null);
  };
  beforeEach(() => {
    isBroken = true;
  });

  it('is called no more in any run, but for a trial, and again when one succeeds', async () => {
    await town.startWorker({ agents: [agent([flaky()])], llm: llm(once) });
    await town.startWorker({ agents: [agent([flaky()])], llm: llm(once) });
    expect(await play(6)).toEqual(['threw', 'threw', 'threw', 'threw', 'tool_out', 'tool_out']);
    expect(executed).toHaveLength(8);
    await town.clock.advance(30_000);
    expect(await play(2)).toEqual(['threw', 'tool_out']);
    expect(executed).toHaveLength(9);
    await town.clock.advance(30_000);
    expect(await play(1)).toEqual(['tool_out']);
    isBroken = false;
    await town.clock.advance(30_000);
    expect(await play(3)).toEqual([null, null, null]);
  });

  it('is called on where that is wanted, and where one run alone fails', async () => {
    const stubborn = { toolFailures: 9, identicalCalls: 90, sameArguments: 90 };
    const agents = [agent([flaky(false)]), agent([flaky()], { name: 'other', loop: stubborn })];
    const results = (messages: LlmRequest['messages']) => messages.filter(({ role }) => role === 'tool').length;
    const model = llm((request, context) =>
      request.messages.some(({ content }) => content === 'often')
        ? results(request.messages as never) < 6
          ? asks('look')
          : 'the end'
        : once(request, context),
    );
    await town.startWorker({ agents, llm: model });
    expect(await play(6)).toEqual(Array(6).fill('threw'));
    const id = await town.start({ agent: 'other', input: 'often' });
    await town.settled(id);
    const codes = [2, 4, 6, 8, 10, 12].map((seq) => town.rows(id).steps.get(seq)?.error?.code);
    expect(codes).toEqual(Array(6).fill('threw'));
  });
});

describe('a check that demands reasons', () => {
  it('objects until they pass, and the tool gets its arguments alone', async () => {
    const seen: unknown[] = [];
    const refund = defineTool({
      name: 'refund',
      description: 'refunds',
      effect: 'idempotent',
      input: z.object({ cents: z.number() }),
      reasoning: z.object({ order: z.string() }),
      check: (_, { reasoning }) => (reasoning.order.startsWith('o-') ? undefined : 'name the order, o-…'),
      execute: (args) => {
        seen.push(args);
        return 'refunded';
      },
    });
    const ask = (order: string) => ({ calls: [{ name: 'refund', arguments: { reasoning: { order }, cents: 5 } }] });
    const model = llm(inTurn(ask('none'), ask('o-1'), 'the end'));
    await town.startWorker({ agents: [agent([refund])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    expect(seen).toEqual([{ cents: 5 }]);
    expect(town.rows(id).steps.get(2)).toMatchObject({ error: { code: 'objection' } });
    expect(town.rows(id).steps.get(2)?.callHash).toBe(town.rows(id).steps.get(4)?.callHash);
    expect(model.requests[1]?.messages.at(-1)?.content).toContain('name the order');
  });
});

describe('a model without function calling', () => {
  const calling = (name: string, given = {}) => JSON.stringify({ call_tools: [{ name, arguments: given }] });

  it('calls tools in its text, and is told their results in a message', async () => {
    const model = llm(inTurn(calling('look', { n: 1 }), 'seen'));
    await town.startWorker({ agents: [agent([look()], { toolCalling: 'json' })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'seen', stepsUsed: 3 });
    expect(executed).toEqual(['look 1']);
    for (const request of model.requests) {
      expect(request.tools ?? []).toEqual([]);
      expect(request.messages.every(({ role }) => role !== 'tool')).toBe(true);
      expect(request.messages[0]).toEqual(model.requests[0]?.messages[0]);
    }
    expect(model.requests[1]?.messages.slice(-2)).toMatchObject([
      { role: 'assistant', content: calling('look', { n: 1 }) },
      { role: 'user', content: '[Pawl] Result of look:\nlook done' },
    ]);
    town.check(id);
  });

  it('is corrected where its call cannot be read, and calls nothing by it', async () => {
    const model = llm(inTurn(`Sure! ${calling('look')}`, calling('look', { n: 'x' }), calling('look'), 'seen'));
    await town.startWorker({ agents: [agent([look()], { toolCalling: 'json' })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'seen' });
    expect(executed).toEqual(['look']);
    expect(model.requests[1]?.messages.at(-1)?.content).toContain(
      'No tool was called: the reply cannot be read as a call',
    );
    expect(model.requests[2]?.messages.at(-1)?.content).toContain('- n: expected number');
    town.check(id);
  });

  it('that never writes one that can be read ends the run', async () => {
    const model = llm(inTurn('{"call_tools":[]}'));
    await town.startWorker({ agents: [agent([look()], { toolCalling: 'json' })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'invalid_output' });
    expect(model.requests).toHaveLength(4);
  });
});

it('says what a user has put into the place of its own words', async () => {
  const words = {
    lastTurn: () => 'That was it: answer.',
    unknownTool: (name: string) => `No ${name}.`,
    maxCalls: (name: string, most: number) => `${name}: ${most} at most.`,
    readOutput: () => 'Reads on.',
  };
  const once = defineTool({ name: 'look', description: 'look', effect: 'none', maxCalls: 1, execute: () => 'seen' });
  const model = llm(inTurn(asks('look', 'lok', 'look'), 'the end'));
  await town.startWorker({ agents: [agent([once], { words, limits: { maxTurns: 1 } })], llm: model });
  await town.settled(await town.start({ agent: 'helper' }));
  const told = model.requests[1]?.messages.slice(-4).map(({ content }) => content);
  expect(told).toEqual(['seen', 'No lok.', 'look: 1 at most.', 'That was it: answer.']);
  expect(model.requests[0]?.tools[1]?.description).toBe('Reads on.');
});

describe('models in order', () => {
  const models = ['first', 'second', 'third'];
  const down = { fault: 'status', status: 503 } as const;
  const noQuota = { fault: 'status', status: 429, code: 'insufficient_quota' } as const;
  /** What each model answers; what has none is down. */
  const scripted = (answers: Record<string, Parameters<typeof inTurn>[0]>) =>
    llm((request) => answers[request.model] ?? down);
  const fellBack = (id: string) => town.rows(id).events.filter(({ type }) => type === 'step.fell_back');

  it('are asked in turn, each as often as an agent tries, and the run stays with the one that answers', async () => {
    let asked = 0;
    const model = llm(({ model: name }) => (name === 'first' ? down : asked++ === 0 ? asks('look') : 'the end'));
    const retry = { attempts: 2 };
    await town.startWorker({ agents: [agent([look()], { model: ['first', 'second'], retry })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'the end', llmName: 'second' });
    expect(model.requests.map((request) => request.model)).toEqual(['first', 'first', 'second', 'second']);
    expect([1, 3].map((seq) => town.rows(id).steps.get(seq)?.name)).toEqual(['second', 'second']);
    expect(fellBack(id)).toMatchObject([
      { seq: 1, data: { from: 'first', to: 'second', error: { code: 'overloaded' } } },
    ]);
    town.check(id);
  });

  it('are not tried twice where trying again is no use', async () => {
    const model = scripted({ first: noQuota, second: noQuota, third: 'the end' });
    await town.startWorker({ agents: [agent([], { model: models })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    expect(model.requests.map((request) => request.model)).toEqual(models);
    expect(fellBack(id).map(({ data }) => data.to)).toEqual(['second', 'third']);
  });

  it('end the run when the last has failed, and a redrive begins with the first again', async () => {
    const answers: Record<string, string | typeof noQuota> = { first: noQuota, second: noQuota };
    const model = scripted(answers);
    await town.startWorker({ agents: [agent([], { model: ['first', 'second'] })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'quota_exhausted' });
    expect(town.rows(id).steps.get(1)?.name).toBe('second');
    answers.first = 'the end';
    await town.command(id, (draft) => redriveRun(draft, 'command'), 'revivable');
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'the end' });
    expect(town.rows(id).steps.get(1)?.name).toBe('first');
    expect(model.requests.map((request) => request.model)).toEqual(['first', 'second', 'first']);
    town.check(id);
  });

  it('have no other beside a model that the run was started with', async () => {
    const model = scripted({ own: noQuota, second: 'the end' });
    await town.startWorker({ agents: [agent([], { model: models })], llm: model });
    const id = await town.start({ agent: 'helper', model: 'own' });
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'quota_exhausted' });
  });

  it('are not asked to say what one has refused', async () => {
    const model = scripted({ first: { fault: 'status', status: 400, code: 'content_filter' }, second: 'the end' });
    await town.startWorker({ agents: [agent([], { model: models })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'failed', reason: 'content_filter' });
    expect(model.requests).toHaveLength(1);
  });
});

it('what maintenance said in the place of a tool is told in the words of the agent, from then on', async () => {
  const hung = tool('look', { attempts: 1, takesMs: 600_000 });
  const words = { toolTimedOut: (name: string, ms: number, tries: number) => `${name} is slow (${ms} ms, ${tries})` };
  const model = llm(inTurn(asks('look'), asks('other'), 'the end'));
  await town.startWorker({ agents: [agent([hung], { words })], llm: model });
  const id = await town.start({ agent: 'helper' });
  expect(await town.settled(id, 300_000)).toMatchObject({ output: 'the end' });
  const told = model.requests.slice(1).map(({ messages }) => messages.find(({ role }) => role === 'tool')?.content);
  expect(told).toEqual(Array(2).fill('look is slow (30000 ms, 1)'));
  town.check(id);
});

describe('verify', () => {
  const rate = defineTool({ name: 'rate', description: 'the rate', effect: 'none', execute: () => ({ rate: 0.25 }) });
  const askRate = asks('rate');

  it('hands its objection back to the model, which may mend its answer', async () => {
    const model = llm(inTurn(askRate, 'The rate is 25.', 'The rate is 25 %.'));
    await town.startWorker({ agents: [agent([rate], { verify: numbersFromTools })], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: null, output: 'The rate is 25 %.' });
    expect(model.requests[2]?.messages.at(-1)).toMatchObject({
      role: 'user',
      content: expect.stringContaining('was not accepted: these numbers neither stand in a tool result nor follow'),
    });
    expect(town.rows(id).events.map(({ type }) => type)).toContain('run.answer_refused');
    town.check(id);
  });

  it('ends the run with the fourth objection', async () => {
    const model = llm(inTurn(askRate, '25', '26', '27', '28', 'never asked for'));
    await town.startWorker({ agents: [agent([rate], { verify: numbersFromTools })], llm: model });
    const id = await town.start({ agent: 'helper' });
    const run = await town.settled(id);
    expect(run).toMatchObject({ status: 'failed', reason: 'invalid_output', error: { code: 'invalid_output' } });
    expect(model.requests).toHaveLength(5);
    town.check(id);
  });

  it('knows the numbers of facts and of the earlier runs of its thread, and not those it had to take back', async () => {
    const numerate = agent([remember, rate] as never, { verify: numbersFromTools });
    const script: Script = ({ messages }) => {
      const task = messages.findLast(({ role, content }) => role === 'user' && content?.startsWith('say ') === true);
      const [, first = '', second] = /^say ([^;\n]*)(?:; then ([^\n]*))?/.exec(task?.content ?? '') ?? [];
      if (first.startsWith('keep') && messages.at(-1)?.role !== 'tool')
        return { calls: [{ name: 'remember', arguments: { key: 'budget', value: 'it is 1250 EUR' } }] };
      const refused = messages.at(-1)?.content?.includes('was not accepted') === true;
      const digits = { 'forty-two': '42', 'seventy-seven': '77', 'twelve fifty': '1250' };
      return refused ? (second ?? 'nothing') : (digits[first as keyof typeof digits] ?? first);
    };
    await town.startWorker({ agents: [numerate], llm: llm(script) });
    const says = async (input: string, threadId: string | null = null) => {
      const id = await town.start({ agent: 'helper', input, threadId });
      const { output } = await town.settled(id);
      town.check(id);
      return output;
    };
    expect(await says('say twelve fifty; then no fact was there')).toBe('no fact was there');
    expect(await says('say keep; then done')).toBe('keep');
    expect(await says('say twelve fifty; then no fact was there')).toBe('1250');
    expect(await says('say the number 42 was told me', 'desk')).toBe('the number 42 was told me');
    expect(await says('say seventy-seven; then I take it back', 'desk')).toBe('I take it back');
    expect(await says('say seventy-seven; then it was taken back', 'desk')).toBe('it was taken back');
    expect(await says('say forty-two; then it is forgotten', 'desk')).toBe('42');
    expect(await says('say forty-two; then it was said elsewhere', 'other')).toBe('it was said elsewhere');
  });

  it('sees the task and every result of the run, whole, the failed ones too, and the value of a structured answer', async () => {
    const seen: unknown[] = [];
    const long = defineTool({
      name: 'long',
      description: 'long',
      effect: 'none',
      maxOutputChars: 200,
      execute: () => 'x'.repeat(1_000),
    });
    const broken = defineTool({
      name: 'broken',
      description: 'fails',
      effect: 'none',
      attempts: 1,
      execute: () => Promise.reject(new Error('down')),
    });
    const judged = agent([long, broken], {
      output: z.object({ ok: z.boolean() }),
      context: { windowTokens: 500, keepTurns: 1 },
      verify: (answer, given) => void seen.push(answer, given),
    });
    await town.startWorker({ agents: [judged], llm: llm(inTurn(asks('long'), asks('broken'), '{"ok":true}')) });
    const id = await town.start({ agent: 'helper', input: 'do it' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    expect(seen).toEqual([
      { ok: true },
      {
        task: 'do it',
        known: [],
        language: 'en',
        toolResults: [
          { name: 'long', arguments: {}, text: 'x'.repeat(1_000), value: 'x'.repeat(1_000), error: null },
          {
            name: 'broken',
            arguments: {},
            text: expect.stringContaining('down'),
            value: expect.any(String),
            error: 'threw',
          },
        ],
      },
    ]);
  });

  it('that throws gives out no answer: the step is tried again, and dies', async () => {
    const judged = agent([], {
      retry: { attempts: 2 },
      verify: () => {
        executed.push('verify');
        throw new Error('the judge is away');
      },
    });
    await town.startWorker({ agents: [judged], llm: llm(inTurn('a', 'b')) });
    const id = await town.start({ agent: 'helper' });
    const run = await town.settled(id);
    expect(run).toMatchObject({
      status: 'failed',
      reason: 'invalid_output',
      error: { code: 'unverified', message: 'verify threw: the judge is away' },
    });
    expect(executed).toEqual(['verify', 'verify']);
    expect(run.usage.outputTokens).toBeGreaterThan(0);
    town.check(id);
  });
});

describe('a tool that keeps its results', () => {
  const kept = (options: { cacheMs?: number; check?: () => string | undefined } = {}) =>
    defineTool({
      name: 'rate',
      description: 'the rate',
      effect: 'none',
      cacheMs: 60_000,
      maxOutputChars: 100,
      input: z.object({ of: z.string(), at: z.string().optional() }),
      ...options,
      execute: ({ of }) => {
        executed.push(of);
        return `${of} ${'x'.repeat(500)}`;
      },
    });
  const rate = (of: string) => ({ calls: [{ name: 'rate', arguments: { of } }] });
  const twice = () => llm(inTurn(rate('usd'), rate('usd'), 'the end', rate('usd'), 'the end'));

  async function play(tools: ReturnType<typeof kept>[], model: ReturnType<typeof llm>, more = {}) {
    await town.startWorker({ agents: [agent(tools, more)], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed' });
    return id;
  }

  it('executes a call once for all runs and workers, and says so of each step', async () => {
    const model = twice();
    const first = await play([kept()], model);
    await town.startWorker({ agents: [agent([kept()])], llm: model });
    const second = await town.start({ agent: 'helper' });
    await town.settled(second);
    expect(executed).toEqual(['usd']);
    const notes = (id: string) => [...town.rows(id).steps.values()].map(({ note }) => note);
    expect(notes(first)).toEqual([null, null, null, 'cache', null]);
    expect(notes(second)).toEqual([null, 'cache', null]);
    // Each names its own step to read on from, and the whole is there under each.
    expect(town.rows(first).steps.get(4)?.output).toContain('{"step":4,');
    expect(town.rows(second).outputs.get(2)).toBe(`usd ${'x'.repeat(500)}`);
    town.check(first);
  });

  it('executes a call with other arguments, of another tenant, of another agent, or after its time, anew', async () => {
    const model = llm(({ messages }) => (messages.at(-1)?.role === 'tool' ? 'the end' : rate('usd')));
    const agents = [agent([kept()]), agent([kept()], { name: 'other' })];
    await town.startWorker({ agents, llm: model });
    for (const asked of [{ tenant: 'a' }, { tenant: 'b' }, { agent: 'other' }, { tenant: 'a' }]) {
      await town.settled(await town.start({ agent: 'helper', ...asked }));
    }
    expect(executed).toHaveLength(3);
    await town.clock.advance(61_000);
    await town.settled(await town.start({ agent: 'helper', tenant: 'a' }));
    expect(executed).toHaveLength(4);
  });

  it('is objected to by its check all the same', async () => {
    const check = () => (executed.length > 0 ? 'not again' : undefined);
    const id = await play([kept({ check })], llm(inTurn(rate('usd'), rate('usd'), 'the end')));
    expect(town.rows(id).steps.get(4)).toMatchObject({ error: { code: 'objection' }, note: null });
  });

  it('goes without where its results cannot be looked up', async () => {
    town.world.store.keptResult = async () => {
      throw new Error('away');
    };
    town.world.store.keepResult = town.world.store.keptResult as never;
    await play([kept()], llm(inTurn(rate('usd'), rate('usd'), 'the end')));
    expect(executed).toEqual(['usd', 'usd']);
  });
});

describe('a tool that an operator has withdrawn', () => {
  const withdraw = (agentName: string | null = null) => town.world.store.stopTool({ tool: 'look', agent: agentName });

  it('is not called any more in a run that goes on, and the model is told', async () => {
    const model = llm(inTurn(asks('look'), asks('look'), asks('look'), 'without'));
    const noting = defineTool({
      name: 'look',
      description: 'look',
      effect: 'none',
      execute: async () => {
        executed.push('look');
        await withdraw();
        return 'seen';
      },
    });
    await town.startWorker({ agents: [agent([noting])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'without' });
    expect(executed).toEqual(['look']);
    expect(model.requests[2]?.messages.at(-1)?.content).toBe(wordsOf('en').disabled('look'));
    expect(town.rows(id).steps.get(4)).toMatchObject({ error: { code: 'tool_disabled' }, attempt: 0 });
    expect(model.requests.at(-1)?.tools.map(({ name }) => name)).toEqual(['look', 'read_output']);
    town.check(id);
  });

  it('is not called where the call was planned already, and not its next attempt either', async () => {
    const model = llm(inTurn(asks('look', 'look'), 'without'));
    const failing = defineTool({
      name: 'look',
      description: 'look',
      effect: 'none',
      sequential: true,
      execute: async () => {
        executed.push('look');
        await withdraw('helper');
        throw new Error('down');
      },
    });
    await town.startWorker({ agents: [agent([failing])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', output: 'without' });
    expect(executed).toEqual(['look']);
    for (const seq of [2, 3]) expect(town.rows(id).steps.get(seq)?.error?.code).toBe('tool_disabled');
    town.check(id);
  });

  it('was perhaps called by an attempt before, and the model is told that', async () => {
    const model = llm(inTurn(asks('look'), 'without'));
    const charge = defineTool({
      name: 'look',
      description: 'charges',
      effect: 'idempotent',
      execute: async () => {
        await withdraw();
        throw new Error('the reply was lost');
      },
    });
    await town.startWorker({ agents: [agent([charge])], llm: model });
    const id = await town.start({ agent: 'helper' });
    await town.settled(id);
    const told = model.requests.at(-1)?.messages.at(-1)?.content;
    expect(told).toBe(wordsOf('en').disabled('look', true));
    expect(told).toContain('may have taken effect');
    town.check(id);
  });

  it('is called by other agents, and again once it is given back, in the same run as well', async () => {
    const answers = [asks('look'), 'the end', asks('look'), asks('look'), asks('look'), 'the end'];
    const model = llm(() => {
      if (answers.length === 3) void town.world.store.allowTool({ tool: 'look', agent: null });
      return answers.shift() ?? 'never asked for';
    });
    await withdraw('other');
    const agents = [agent([look()]), agent([look()], { name: 'other' })];
    await town.startWorker({ agents, llm: model });
    await town.settled(await town.start({ agent: 'other' }));
    expect(executed).toEqual([]);
    await withdraw();
    const id = await town.start({ agent: 'helper' });
    await town.settled(id);
    expect(executed).toEqual(['look']);
    const codes = [2, 4, 6].map((seq) => town.rows(id).steps.get(seq)?.error?.code ?? null);
    expect(codes).toEqual(['tool_disabled', 'tool_disabled', null]);
  });

  it('whose call may have happened is asked about all the same', async () => {
    const model = llm(inTurn(asks('look'), 'the end'));
    const pay = defineTool({
      name: 'look',
      description: 'pays',
      effect: 'once',
      onUnknown: async () => ({ done: 'paid' }),
      execute: async () => {
        await withdraw();
        throw new Error('cut short');
      },
    });
    await town.startWorker({ agents: [agent([pay])], llm: model });
    const id = await town.start({ agent: 'helper' });
    await town.settled(id);
    expect(town.rows(id).steps.get(2)).toMatchObject({ output: 'paid', error: null });
  });
});

describe('read_output', () => {
  const long = Array.from({ length: 9_000 }, (_, index) => (index % 7 === 0 ? '😀' : 'abcdef'[index % 6])).join('');
  const export_ = (effect: 'once' | 'none') =>
    defineTool({ name: 'dump', description: 'dumps', effect, maxOutputChars: 500, execute: () => long });
  const read = (args: Record<string, unknown>) => ({ calls: [{ name: 'read_output', arguments: args }] });
  const lastTold = (model: { requests: LlmRequest[] }) => String(model.requests.at(-1)?.messages.at(-1)?.content);

  it('gives the model the rest of an output of which it was shown a part, page by page, no character in halves', async () => {
    const pages: string[] = [];
    let asked = 0;
    const model = llm((request) => {
      const told = String(request.messages.at(-1)?.content);
      if (asked++ === 0) return asks('dump');
      const next = asked === 2 ? /"offset":(\d+)/.exec(told)?.[1] : /go on at offset (\d+)/.exec(told)?.[1];
      if (asked === 2) pages.push(told.split('\n')[0] ?? '');
      else pages.push(told.slice(told.indexOf('\n') + 1));
      return next === undefined ? 'read' : read({ step: 2, offset: Number(next), limit: 3_001 });
    });
    await town.startWorker({ agents: [agent([export_('once')])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', stepsUsed: 9 });
    expect(pages.join('')).toBe(long);
    expect(model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual(
      model.requests.map(() => ['dump', 'read_output']),
    );
    town.check(id);
  });

  it.each([
    [{ step: 2 }, '[characters 0 to 4000 of 9000 of the output of step 2, dump; go on at offset 4000]'],
    [{ step: 2, offset: 9_000 }, 'The output of step 2 has 9000 characters: there is nothing at offset 9000.'],
    [{ step: 1 }, 'Step 1 is no tool call of this run that has an output.'],
    [{ step: 77 }, 'Step 77 is no tool call'],
    [{ step: 2, limit: 1_000_000 }, '[characters 0 to 9000 of 9000'],
    [{ step: 1e300, offset: -7, limit: -1 }, 'Step 2147483647 is no tool call'],
    [{ step: 2, offset: -7, limit: -1 }, '[characters 0 to 1 of 9000'],
    [{ step: 2, limit: 'all' }, 'limit: expected'],
  ])('asked for %j, says where the page stands or why there is none', async (args, told) => {
    const model = llm(inTurn(asks('dump'), read(args), 'read'));
    await town.startWorker({ agents: [agent([export_('none')])], llm: model });
    expect(await town.settled(await town.start({ agent: 'helper' }))).toMatchObject({ status: 'completed' });
    expect(lastTold(model)).toContain(told);
  });

  it('counts for the loop guard as any call does', async () => {
    const again = read({ step: 2, offset: 10 });
    const model = llm(inTurn(asks('dump'), again, again, again, again, again, 'the end'));
    await town.startWorker({ agents: [agent([export_('none')])], llm: model });
    const id = await town.start({ agent: 'helper' });
    expect(await town.settled(id)).toMatchObject({ status: 'completed', reason: 'loop_detected' });
  });

  it('is not there for an agent without tools', async () => {
    const model = llm(inTurn('done'));
    await town.startWorker({ agents: [agent([])], llm: model });
    await town.settled(await town.start({ agent: 'helper' }));
    expect(model.requests[0]?.tools).toEqual([]);
  });
});
