/**
 * Plans and judgements of answers on a real Postgres and each queue, with the real client of OpenAI's API: worker processes
 * that are killed while the plan, and the judgement, are on their way back.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Client, openClient } from '../../src/app.js';
import { type Script, type ScriptedModel, startScriptedModel } from '../../src/testing/index.js';
import { quietLog } from '../support/quiet-log.js';
import { createTestDatabase, createTestRedis, queueBackends } from '../support/services.js';
import { makeProject, type Project, type Running } from './command.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const config = `
import { defineAgent, defineConfig, defineTool } from 'pawl';
const look = defineTool({ name: 'look', description: 'Looks', effect: 'none', 
  execute: () => 'it rains, and the rain is told of. '.repeat(45) });
const retry = { baseMs: 50, capMs: 100 };
export default defineConfig({ agents: [
  defineAgent({ name: 'planner', instructions: 'Plan.', tools: [look], mode: 'plan', retry,
    loop: { identicalCalls: 50, sameArguments: 50 }, context: { windowTokens: 3_000 } }),
  defineAgent({ name: 'judge', instructions: 'Judge.', mode: { reflect: { rounds: 2, criteria: 'It says when.' } }, retry }),
] });`;

describe.each(queueBackends())('on the %s queue', (backend) => {
  let client: Client;
  let project: Project;
  let model: ScriptedModel;
  let worker: Running | null = null;
  /** The wishes for a plan and for a judgement, of which the first of each are not answered: then the worker is killed. */
  let wishes: string[] = [];

  /** Looks until the results were summed up, with another plan in between. */
  const script: Script = ({ system, messages }) => {
    const text = JSON.stringify(messages);
    const last = messages.at(-1)?.content ?? '';
    const drafts = messages.filter(({ role }) => role === 'assistant').length;
    const wish = /write the plan|Judge it first/.exec(last)?.[0];
    if (wish !== undefined && !wishes.includes(wish)) {
      wishes.push(wish);
      if (wishes.length === 2) worker?.child.kill('SIGKILL');
      return { fault: 'hang' };
    }
    if (wish === 'write the plan') return '1. look once';
    if (wish !== undefined) return drafts < 2 ? '{"accepted": false, "objections": "when?"}' : '{"accepted": true}';
    if (last.includes('Write a summary now')) return 'It rains.';
    if (system === 'Judge.') return `draft ${drafts + 1}`;
    if (text.includes('<summary>')) return text.includes('look to the end') ? 'it rains' : 'the plan is lost';
    const isReplaced = text.includes('look to the end');
    const looks = messages.filter(({ role }) => role === 'tool').length;
    if (looks === 2 && !isReplaced)
      return { calls: [{ name: 'update_plan', arguments: { plan: '1. look to the end' } }] };
    return { calls: [{ name: 'look', arguments: {} }] };
  };

  beforeEach(async () => {
    wishes = [];
    const databaseUrl = (await createTestDatabase()).url;
    const redisUrl = backend === 'redis' ? (await createTestRedis()).url : null;
    client = await openClient({ databaseUrl, redisUrl, log: quietLog });
    model = await startScriptedModel({ script });
    project = makeProject(
      { 'pawl.config.ts': config },
      {
        ...{ DATABASE_URL: databaseUrl, OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'sk-test' },
        ...{ PAWL_HEARTBEAT_MS: '200', PAWL_DEATH_MS: '3000' },
        ...(redisUrl === null ? {} : { REDIS_URL: redisUrl }),
      },
    );
    worker = project.start(['worker']);
    await worker.says('worker ready');
  });
  afterEach(async () => {
    await project.close();
    await client.close();
    await model.close();
  });

  it('those on their way to a worker that is killed are asked for again, and recorded once', async () => {
    const { runs } = client;
    const [planner, judge] = [
      await runs.start({ agent: 'planner', input: 'go' }),
      await runs.start({ agent: 'judge', input: 'go' }),
    ];
    await worker?.ended;
    await project.start(['worker']).says('worker ready');
    for (const { id } of [planner, judge]) for await (const _ of runs.watch(id));

    expect(await runs.get(planner.id)).toMatchObject({ status: 'completed', output: 'it rains' });
    const [plan] = await runs.steps(planner.id);
    expect(plan).toMatchObject({ name: 'plan', output: '1. look once' });
    expect(plan?.attempt).toBeGreaterThan(1);
    const happened = (await runs.events(planner.id)).map(({ type }) => type);
    expect(happened.filter((type) => type === 'run.planned')).toHaveLength(2);
    expect(happened).toContain('run.compacted');

    expect(await runs.get(judge.id)).toMatchObject({ status: 'completed', output: 'draft 2', steps: 4, turns: 2 });
    const steps = await runs.steps(judge.id);
    expect(steps.map(({ name }) => name === 'reflection')).toEqual([false, true, false, true]);
    expect(steps[1]?.attempt).toBeGreaterThan(1);
    const judged = (await runs.events(judge.id)).filter(({ type }) => type === 'run.reflected');
    expect(judged.map(({ data }) => data.verdict)).toEqual(['objected', 'accepted']);
    expect(model.breaches).toEqual([]);
  });
});
