/** A run from its start to its end, on a real Postgres and each queue backend, with a scripted model in process. */
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool } from '../../src/core/tool.js';
import { inTurn, scriptedLlm } from '../../src/testing/index.js';
import { queueBackends } from '../support/services.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';

const add = defineTool({
  name: 'add',
  description: 'Adds two numbers',
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});

describe.each(queueBackends())('a run on the %s queue', (backend) => {
  let world: World;
  afterEach(() => world.stopAll());

  it('calls its tools in parallel, joins once, and ends with the answer', async () => {
    world = await openWorld(backend);
    const llm = scriptedLlm(
      inTurn(
        {
          calls: [
            { name: 'add', arguments: { a: 1, b: 2 } },
            { name: 'add', arguments: { a: 3, b: 4 } },
          ],
        },
        'three and seven',
      ),
    );
    const agents = agentsOf(defineAgent({ name: 'adder', instructions: 'Add.', tools: [add] }));
    await world.startWorker({ agents, llm });
    const { id, created } = await world.client.runs.start({ agent: 'adder', input: 'add them', key: 'k1' });
    expect(created).toBe(true);
    const run = await world.settled(id);
    expect(run).toMatchObject({ status: 'completed', output: 'three and seven', reason: null, steps: 4, turns: 2 });
    const steps = await world.client.runs.steps(id);
    expect(steps.map(({ seq, kind, status, output }) => [seq, kind, status, output])).toEqual([
      [1, 'llm', 'completed', null],
      [2, 'tool', 'completed', '3'],
      [3, 'tool', 'completed', '7'],
      [4, 'llm', 'completed', 'three and seven'],
    ]);
    expect(llm.requests[1]?.messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(await world.client.runs.start({ agent: 'adder', input: 'add them', key: 'k1' })).toEqual({
      id,
      created: false,
    });
    await expect(world.client.runs.start({ agent: 'adder', input: 'other', key: 'k1' })).rejects.toMatchObject({
      code: 'key_conflict',
    });
    await expect(world.client.runs.start({ agent: 'nobody', input: 'x' })).rejects.toMatchObject({
      code: 'unknown_agent',
    });
  });
});
