/** The views that operators read by SQL say what the client's methods say. */
import pg from 'pg';
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool } from '../../src/core/tool.js';
import { inTurn, scriptedLlm } from '../../src/testing/index.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';

let world: World;
afterEach(() => world.stopAll());

async function rowsOf(view: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: world.databaseUrl });
  await client.connect();
  try {
    return (await client.query(`select * from pawl.${view}`)).rows;
  } finally {
    await client.end();
  }
}

const double = defineTool({
  name: 'double',
  description: 'Doubles',
  input: z.object({ n: z.number() }),
  execute: ({ n }) => ({ twice: n * 2 }),
});

it('show each step whole, what each run cost, and the dead letters', async () => {
  world = await openWorld('postgres');
  const asks = { calls: [{ name: 'double', arguments: '{"n": 21}' }] };
  const llm = scriptedLlm(inTurn(asks, 'it is 42', { fault: 'status', status: 400, message: 'no' }));
  const agents = agentsOf(defineAgent({ name: 'a', instructions: 'x', tools: [double] }));
  await world.startWorker({ llm, agents });
  const { runs } = world.client;
  const done = await runs.start({ agent: 'a', input: 'go', tenant: 'acme', tags: { team: 'red' } });
  await world.settled(done.id);
  const dead = await runs.start({ agent: 'a', input: 'go' });
  await world.settled(dead.id);

  const steps = (await rowsOf('step_timeline')).filter(({ run_id }) => run_id === done.id);
  const asClient = (await runs.steps(done.id)).map(({ seq, kind, name, status, worker }) => ({
    ...{ seq, kind, name, status, tenant: 'acme', agent: 'a', worker_id: worker },
  }));
  expect(steps.sort((a, b) => Number(a.seq) - Number(b.seq))).toMatchObject(asClient);
  expect(steps.map(({ input, output }) => [input, output])).toEqual([
    [null, null],
    ['{"n": 21}', '{"twice":42}'],
    [null, 'it is 42'],
  ]);

  const { usage } = await runs.get(done.id);
  const costs = await rowsOf('run_costs');
  expect(costs.find(({ run_id }) => run_id === done.id)).toMatchObject({
    ...{ tenant: 'acme', agent: 'a', status: 'completed', steps: 3, turns: 2, tags: { team: 'red' } },
    ...{ input_tokens: String(usage.inputTokens), output_tokens: String(usage.outputTokens), cost_usd: usage.costUsd },
  });
  expect(await rowsOf('dead_letters')).toMatchObject([
    { run_id: dead.id, seq: 1, kind: 'llm', run_status: 'failed', run_reason: 'invalid_request' },
  ]);
});
