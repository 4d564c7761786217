/** What operators and tools themselves say about their calls, on a real Postgres and each queue backend. */
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { numbersFromTools } from '../../src/core/numbers-from-tools.js';
import { defineTool } from '../../src/core/tool.js';
import { inTurn, scriptedLlm } from '../../src/testing/index.js';
import { queueBackends } from '../support/services.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';

describe.each(queueBackends())('tools on the %s queue', (backend) => {
  let world: World;
  afterEach(() => world.stopAll());

  const rate = { calls: [{ name: 'rate', arguments: { of: 'usd' } }] };
  function agentOf(executed: string[]) {
    const tool = defineTool({
      name: 'rate',
      description: 'The rate',
      effect: 'none',
      cacheMs: 60_000,
      input: z.object({ of: z.string() }),
      execute: ({ of }) => {
        executed.push(of);
        return { rate: 0.25 };
      },
    });
    return agentsOf(defineAgent({ name: 'teller', instructions: 'Tell.', tools: [tool], verify: numbersFromTools }));
  }

  it('are withdrawn from the next step on, in a run that goes on, and given back', async () => {
    world = await openWorld(backend);
    const { runs } = world.client;
    const executed: string[] = [];
    const answers = [rate, 'none for now', rate, 'It is 0.25.'];
    const llm = scriptedLlm(() => answers.shift() ?? 'never asked for');
    await world.startWorker({ agents: agentOf(executed), llm });
    expect(await runs.disableTool('rate', { agent: 'teller' })).toMatchObject({ disabledFor: ['teller'] });
    const first = await world.settled((await runs.start({ agent: 'teller', input: 'the rate?' })).id);
    expect(first).toMatchObject({ status: 'completed', output: 'none for now' });
    expect((await runs.steps(first.id))[1]).toMatchObject({ error: { code: 'tool_disabled' }, attempt: 0 });
    expect(executed).toEqual([]);
    expect(await runs.enableTool('rate')).toMatchObject({ disabledFor: [], outFor: [] });
    const second = await world.settled((await runs.start({ agent: 'teller', input: 'the rate?' })).id);
    expect(second).toMatchObject({ status: 'completed', output: 'It is 0.25.' });
    expect(executed).toEqual(['usd']);
  });

  it('give a kept result to another worker, and found the numbers of an answer', async () => {
    world = await openWorld(backend);
    const { runs } = world.client;
    const executed: string[] = [];
    const script = () => inTurn(rate, 'It is 25.', 'It is 25 %.');
    const worker = await world.startWorker({ agents: agentOf(executed), llm: scriptedLlm(script()) });
    const first = await world.settled((await runs.start({ agent: 'teller', input: 'the rate?' })).id);
    expect(first).toMatchObject({ status: 'completed', output: 'It is 25 %.', turns: 3 });
    await worker.stop(5_000);
    await world.startWorker({ agents: agentOf(executed), llm: scriptedLlm(script()) });
    const second = await world.settled((await runs.start({ agent: 'teller', input: 'again?' })).id);
    expect(second).toMatchObject({ status: 'completed', output: 'It is 25 %.' });
    expect((await runs.steps(second.id)).map(({ note }) => note)).toEqual([null, 'cache', null, null]);
    expect((await runs.events(second.id)).map(({ type }) => type)).toContain('run.answer_refused');
    expect(executed).toEqual(['usd']);
  });
});
