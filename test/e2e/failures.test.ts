/** How runs fail, wait and come back: retries, dead letters, redrive, unknown outcomes, limits and cancel, end to end. */
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool, notStarted } from '../../src/core/tool.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { inTurn, scriptedLlm } from '../../src/testing/index.js';
import { queueBackends } from '../support/services.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';

const retry = { attempts: 2, baseMs: 50, capMs: 100 };
const callTool = (name: string, args: Record<string, unknown> = {}): ScriptedReply => ({
  calls: [{ name, arguments: args }],
});
const down: ScriptedReply = { fault: 'status', status: 500 };

describe.each(queueBackends())('on the %s queue', (backend) => {
  let world: World;
  afterEach(() => world.stopAll());

  it('a run whose model is down dies after its attempts, and a redrive ends it once the model is back', async () => {
    world = await openWorld(backend);
    let isDown = true;
    const llm = scriptedLlm(() => (isDown ? down : 'back again'));
    await world.startWorker({ llm, agents: agentsOf(defineAgent({ name: 'a', instructions: 'x', retry })) });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    const failed = await world.settled(id);
    expect(failed).toMatchObject({ status: 'failed', reason: 'attempts_exhausted', error: { code: 'server_error' } });
    expect(llm.requests).toHaveLength(2);
    await expect(world.client.runs.cancel(id)).rejects.toMatchObject({ code: 'conflict' });
    isDown = false;
    await world.client.runs.redrive(id);
    expect(await world.settled(id)).toMatchObject({
      status: 'completed',
      output: 'back again',
      reason: null,
      error: null,
    });
    await expect(world.client.runs.redrive(id)).rejects.toMatchObject({ code: 'conflict' });
    const attempts = await world.client.runs.attempts(id);
    expect(attempts.map((attempt) => attempt.endedBy)).toEqual(['failure', 'death']);
  });

  it('a tool that throws is tried again with the same key, and then the model hears of it', async () => {
    world = await openWorld(backend);
    const keys: string[] = [];
    const flaky = defineTool({
      name: 'flaky',
      description: 'Fails',
      effect: 'idempotent',
      attempts: 3,
      execute: (_, context) => {
        keys.push(context.idempotencyKey);
        throw new Error('no luck');
      },
    });
    const llm = scriptedLlm(inTurn(callTool('flaky'), 'gave up'));
    await world.startWorker({
      llm,
      agents: agentsOf(defineAgent({ name: 'a', instructions: 'x', tools: [flaky], retry })),
    });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    expect(await world.settled(id)).toMatchObject({ status: 'completed', output: 'gave up' });
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    const steps = await world.client.runs.steps(id);
    expect(steps[1]).toMatchObject({ status: 'completed', attempt: 3, error: { code: 'threw' } });
  });

  it('a once call that threw waits for an operator, is never repeated, and goes on when it is resolved', async () => {
    world = await openWorld(backend);
    let charges = 0;
    const charge = defineTool({
      name: 'charge',
      description: 'Charges',
      effect: 'once',
      input: z.object({ cents: z.number() }),
      execute: () => {
        charges += 1;
        throw new Error('the line went dead');
      },
    });
    const llm = scriptedLlm(inTurn(callTool('charge', { cents: 5 }), 'charged'));
    await world.startWorker({
      llm,
      agents: agentsOf(defineAgent({ name: 'a', instructions: 'x', tools: [charge], retry })),
    });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    const waiting = await world.settled(id);
    expect(waiting).toMatchObject({ status: 'suspended', waitingFor: { kind: 'outcome', step: 2 } });
    await expect(world.client.runs.resume(id)).rejects.toMatchObject({ code: 'conflict' });
    await world.client.runs.resolve(id, { step: 2, as: 'done', result: { receipt: 'r1' } });
    await expect(world.client.runs.resolve(id, { step: 2, as: 'failed' })).rejects.toMatchObject({ code: 'conflict' });
    expect(await world.settled(id)).toMatchObject({ status: 'completed', output: 'charged' });
    expect(charges).toBe(1);
    expect((await world.client.runs.steps(id))[1]).toMatchObject({ output: '{"receipt":"r1"}', error: null });
  });

  it('an identical once call after a failed one waits for an operator', async () => {
    world = await openWorld(backend);
    let charges = 0;
    const charge = defineTool({
      name: 'charge',
      description: 'Charges',
      effect: 'once',
      execute: () => {
        charges += 1;
        return charges === 1 ? notStarted('no route') : 'charged';
      },
    });
    const llm = scriptedLlm(inTurn(callTool('charge'), callTool('charge'), 'done'));
    await world.startWorker({
      llm,
      agents: agentsOf(defineAgent({ name: 'a', instructions: 'x', tools: [charge], retry })),
    });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    expect(await world.settled(id)).toMatchObject({ status: 'suspended', waitingFor: { kind: 'operator', step: 4 } });
    expect(charges).toBe(1);
    await world.client.runs.resolve(id, { step: 4, as: 'rerun' });
    expect(await world.settled(id)).toMatchObject({ status: 'completed' });
    expect(charges).toBe(2);
  });

  it('a limit under finish makes the next call the last, without tools; under suspend it waits to be raised', async () => {
    world = await openWorld(backend);
    const noop = defineTool({ name: 'noop', description: 'Nothing', execute: () => 'ok' });
    const finishing = scriptedLlm(({ tools }) => (tools.length > 0 ? callTool('noop') : 'forced'));
    const agent = (name: string, onLimit: 'finish' | 'fail' | 'suspend') =>
      defineAgent({ name, instructions: 'x', tools: [noop], retry, limits: { maxSteps: 6, onLimit } });
    await world.startWorker({
      llm: finishing,
      agents: agentsOf(agent('f', 'finish'), agent('x', 'fail'), agent('s', 'suspend')),
    });
    const [f, x, s] = await Promise.all(
      ['f', 'x', 's'].map((name) => world.client.runs.start({ agent: name, input: 'go' })),
    );
    const ended = await Promise.all([f, x, s].map((run) => world.settled(run?.id ?? '')));
    expect(ended.map(({ status, reason, waitingFor }) => [status, reason, waitingFor?.kind ?? null])).toEqual([
      ['completed', 'max_steps', null],
      ['failed', 'max_steps', null],
      ['suspended', null, 'limit'],
    ]);
    expect(ended[0]).toMatchObject({ output: 'forced', steps: 5 });
    const id = s?.id ?? '';
    await expect(world.client.runs.resume(id)).rejects.toMatchObject({ code: 'conflict' });
    await world.client.runs.resume(id, { maxSteps: 8 });
    expect(await world.settled(id)).toMatchObject({
      status: 'suspended',
      waitingFor: { kind: 'limit' },
      limits: { maxSteps: 8 },
    });
    await world.client.runs.cancel(id);
    expect(await world.settled(id)).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
  });

  it('a cancel aborts the call in flight within three seconds', async () => {
    world = await openWorld(backend);
    const llm = scriptedLlm(() => ({ fault: 'hang' }));
    await world.startWorker({ llm, agents: agentsOf(defineAgent({ name: 'a', instructions: 'x', retry })) });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    await expect.poll(() => llm.requests.length, { timeout: 5_000 }).toBe(1);
    const began = performance.now();
    await world.client.runs.cancel(id);
    for await (const _ of world.client.runs.watch(id, { untilFinal: true }));
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(await world.client.runs.get(id)).toMatchObject({ status: 'cancelled' });
  });

  it('a deadline under finish closes the tools, and the last call still answers', async () => {
    world = await openWorld(backend);
    const slow = defineTool({
      name: 'slow',
      description: 'Waits until it is aborted',
      execute: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve('aborted'))),
    });
    const llm = scriptedLlm(({ tools }) => (tools.length > 0 ? callTool('slow') : 'in time'));
    const limits = { deadlineMs: 5_000, onLimit: 'finish' } as const;
    await world.startWorker({
      llm,
      agents: agentsOf(
        defineAgent({ name: 'a', instructions: 'x', tools: [slow], retry, limits, llmTimeoutMs: 3_000 }),
      ),
    });
    const { id } = await world.client.runs.start({ agent: 'a', input: 'go' });
    expect(await world.settled(id)).toMatchObject({ status: 'completed', reason: 'deadline', output: 'in time' });
  });
});
