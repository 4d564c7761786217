/** docs/told.md: what `pawl runs show` says of runs that were compacted, stopped, planned, judged or carried on elsewhere. */
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/core/agent.js';
import { defineTool, permissionDenied } from '../../src/core/tool.js';
import { type Script, type ScriptedReply, scriptedLlm } from '../../src/testing/index.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';
import { pawl } from '../unit/cli/fake-world.js';
import { blocks, page } from '../unit/docs/pages.js';

let world: World;
afterEach(() => world.stopAll());

const tool = (name: string, execute: (n: number) => unknown) =>
  defineTool({
    name,
    description: name,
    effect: 'none',
    attempts: 1,
    input: z.object({ n: z.number() }),
    execute: ({ n }) => execute(n),
  });
const readPage = tool('read_page', (n) => `Page ${n}: ${'it rains, and the rain is told of. '.repeat(45)}`);
const search = tool('search', () => 'no hits');
const connect = tool('connect', (n) => {
  throw new Error(`port ${5_430 + n} does not answer`);
});
const transfer = tool('transfer', () => permissionDenied('no account for this user'));

const agent = (name: string, more: Partial<Parameters<typeof defineAgent>[0]>) =>
  defineAgent({ name, instructions: name, ...more });
const agents = agentsOf(
  agent('reader', { tools: [readPage], context: { windowTokens: 3_000 } }),
  agent('finder', { tools: [search] }),
  agent('operator', { tools: [connect] }),
  agent('teller', { tools: [transfer] }),
  agent('spender', { tools: [readPage], maxOutputTokens: 100, limits: { maxTokens: 4_000 } }),
  agent('planner', { tools: [readPage], mode: 'plan' }),
  agent('editor', { mode: { reflect: { rounds: 2, criteria: 'It says when.' } } }),
  agent('writer', { model: ['large', 'small'], retry: { attempts: 2, baseMs: 10, capMs: 10 } }),
);

/** What each of them is answered, by how many of its calls have results. */
const script: Script = ({ model, system, messages, tools }): ScriptedReply => {
  const asked = messages.filter(({ role }) => role === 'tool').length;
  const call = (name: string, n: number) => ({ calls: [{ name, arguments: { n } }] });
  if (messages.at(-1)?.content?.includes('Write a summary now')) return 'It rained on all pages so far.';
  const seen = Math.max(0, ...[...JSON.stringify(messages).matchAll(/"n\\?\\?":(\d+)/g)].map(([, n]) => Number(n)));
  const last = messages.at(-1)?.content ?? '';
  if (last.includes('write the plan for this task')) return '1. read page 1\n2. read page 2\n3. answer';
  if (last.includes('Judge it first'))
    return JSON.stringify(messages).includes('At noon')
      ? '{"accepted": true}'
      : '{"accepted": false, "objections": "It does not say when."}';
  if (system === 'editor') return messages.length === 1 ? 'It will rain.' : 'At noon it will rain.';
  if (tools.length === 0 && system !== 'writer') return 'That is as far as I got.';
  switch (system) {
    case 'reader':
      return seen < 7 ? call('read_page', seen + 1) : 'It rains throughout.';
    case 'finder':
      return call('search', 1);
    case 'operator':
      return call('connect', asked + 1);
    case 'teller':
      return asked < 2 ? call('transfer', asked) : 'I may not transfer anything: there is no account for you.';
    case 'planner':
      if (asked === 1) return { calls: [{ name: 'update_plan', arguments: { plan: '1. read page 3\n2. answer' } }] };
      return asked < 3 ? call('read_page', asked + 1) : 'It rains throughout.';
    case 'spender':
      return call('read_page', asked + 1);
    default:
      return model === 'large' ? { fault: 'status', status: 503, message: 'overloaded' } : 'Dear reader, …';
  }
};

/** Without what differs from run to run: ids, versions, times. */
const steady = (text: string) =>
  text
    .replace(/run_\w+/g, 'run_…')
    .replace(/version \w+/g, 'version …')
    .replace(/^made .*$/m, 'made    now')
    .replace(/ +\d+(?:\.\d)? m?s\b/g, '  0.1 s')
    .trim();

it('is what the page shows of each', async () => {
  world = await openWorld('postgres');
  // Nobody is to be taken for dead here, however busy the machine: a rescue would be told of.
  await world.startWorker({ agents, llm: scriptedLlm(script), deathMs: 60_000 });
  const { runs } = world.client;
  const started = await Promise.all(agents.map(({ name }) => runs.start({ agent: name, input: `work, ${name}` })));
  const pages: string[] = [];
  for (const { id } of started) {
    await world.settled(id);
    pages.push(steady((await pawl(['runs', 'show', id], { runs })).out));
  }
  expect(blocks(page('docs/told.md'), 'text').map((block) => block.trim())).toEqual(pages);
});
