/** The command line as users have it: processes, a config of their own, real services, and a scripted model behind HTTP. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunView } from '../../src/core/view.js';
import { type ScriptedModel, startScriptedModel } from '../../src/testing/index.js';
import { createTestDatabase, createTestRedis, type QueueBackend, queueBackends } from '../support/services.js';
import { makeProject, type Project } from './command.js';

const config = `
import { defineAgent, defineConfig, defineTool } from 'pawl';
import { z } from 'zod';
const add = defineTool({
  name: 'add', description: 'Adds', effect: 'none', input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => ({ sum: a + b, 说明: '两数之和' }),
});
const charge = defineTool({ name: 'charge', description: 'Charges a card', effect: 'once', execute: () => { throw new Error('the line went dead'); } });
export default defineConfig({ agents: [
  defineAgent({ name: 'adder', instructions: 'Add.', tools: [add] }),
  defineAgent({ name: 'billing', instructions: 'Charge.', tools: [charge], limits: { onLimit: 'suspend' } }),
] });`;

const idOf = (text: string): string => /run_\w+/.exec(text)?.[0] ?? 'no id';
const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

// Each command is a process that loads all of Pawl; on a busy machine that takes its time.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let isBroken = true;

/** A project with a worker, and a model that answers by what the task says. */
async function openProject(backend: QueueBackend) {
  const model = await startScriptedModel({
    script({ messages }) {
      const task = String(messages[0]?.content);
      const last = messages.at(-1);
      if (task.includes('broken') && isBroken) return { fault: 'status', status: 400, message: 'no such thing' };
      if (task.includes('hang')) return { fault: 'hang' };
      if (last?.role === 'tool') return `结果: ${last.content}`;
      if (task.includes('charge')) return { calls: [{ name: 'charge', arguments: {} }] };
      return { calls: [{ name: 'add', arguments: { a: 1, b: 2 } }] };
    },
  });
  const env: Record<string, string> = { DATABASE_URL: (await createTestDatabase()).url, OPENAI_BASE_URL: model.url };
  if (backend === 'redis') env.REDIS_URL = (await createTestRedis()).url;
  const project = makeProject({ 'pawl.config.ts': config, '.env': 'OPENAI_API_KEY=sk-test-of-the-cli\n' }, env);
  const worker = project.start(['worker']);
  await worker.says('worker ready');
  const close = async (): Promise<void> => {
    worker.child.kill('SIGTERM');
    const { exit } = await worker.ended;
    await project.close();
    await model.close();
    expect(exit).toBe(0);
  };
  return { project, model, close };
}

describe.each(queueBackends())('the command line on the %s queue', (backend) => {
  let project: Project;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ project, close } = await openProject(backend));
  });
  afterAll(() => close());

  it('runs an agent, follows it, and shows all of it afterwards in every form', async () => {
    const ran = await project.pawl(['run', 'adder', 'Add 1 and 2', '--key', 'k1', '--tag', 'team=sales']);
    expect(ran).toMatchObject({ exit: 0, out: '结果: {"sum":3,"说明":"两数之和"}\n' });
    expect(ran.err).toMatch(
      /✓ +1 +llm +gpt-4o-mini .* asks for a tool\n✓ +2 +tool +add .*\n✓ +3 +llm .*\ncompleted · /,
    );
    const id = idOf(ran.err);
    const [again, list, shown, page, steps, messages, events, agents] = await Promise.all([
      project.pawl(['run', 'adder', 'Add 1 and 2', '--key', 'k1', '--detach']),
      project.pawl(['runs', 'list', '--tag', 'team=sales', '-o', 'json']),
      project.pawl(['runs', 'show', id, '-o', 'json']),
      project.pawl(['runs', 'show', id]),
      project.pawl(['runs', 'steps', id, '-o', 'jsonl']),
      project.pawl(['runs', 'messages', id]),
      project.pawl(['runs', 'events', id, '-o', 'jsonl']),
      project.pawl(['agents', 'list', '-o', 'id']),
    ]);
    expect(again).toMatchObject({ exit: 0, out: `${id}\n` });
    const run = JSON.parse(shown.out) as RunView;
    expect(run).toMatchObject({
      id,
      agent: 'adder',
      status: 'completed',
      key: 'k1',
      tags: { team: 'sales' },
      steps: 3,
    });
    expect(JSON.parse(list.out)).toEqual({ data: [run], page: { next: null } });
    expect(page.out).toContain('结果: {"sum":3,"说明":"两数之和"}');
    expect(linesOf(steps.out).map(({ kind, status }) => [kind, status])).toEqual([
      ['llm', 'completed'],
      ['tool', 'completed'],
      ['llm', 'completed'],
    ]);
    expect(messages.out).toContain('→ add {"a":1,"b":2}');
    const log = linesOf(events.out);
    expect(log.map((event) => event.id)).toEqual(log.map((_, index) => index + 1));
    expect([log[0]?.type, log.at(-1)?.type]).toEqual(['run.created', 'run.completed']);
    expect(agents.out).toBe('adder\nbilling\n');
  });

  it('ends with 3 for a run that failed, which a redrive brings to its end', async () => {
    isBroken = true;
    const failed = await project.pawl(['run', 'adder', 'broken']);
    expect(failed).toMatchObject({ exit: 3, out: '' });
    expect(failed.err).toContain('invalid_request');
    const id = idOf(failed.err);
    isBroken = false;
    expect(
      await project.pawl(['runs', 'redrive', '--status', 'failed', '--agent', 'adder', '--yes', '-o', 'id']),
    ).toMatchObject({ exit: 0, out: `${id}\n` });
    const watched = await project.pawl(['runs', 'watch', id]);
    expect(watched.exit).toBe(0);
    expect(watched.out).toContain('redriven (command)');
    expect((await project.pawl(['runs', 'redrive', id])).exit).toBe(7);
  });
});

describe('the command line beside a worker', () => {
  let project: Project;
  let model: ScriptedModel;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ project, model, close } = await openProject('postgres'));
  });
  afterAll(() => close());

  it('ends with 5 for a call of unknown fate, with the command that settles it', async () => {
    const ran = await project.pawl(['run', 'billing', 'charge it']);
    expect(ran).toMatchObject({ exit: 5, out: '' });
    const id = idOf(ran.err);
    const command = /pawl (runs resolve \S+ --step 2 --as done)/.exec(ran.err)?.[1] ?? '';
    const resolved = await project.pawl([...command.split(' '), '--result', '"charged"']);
    expect(resolved).toMatchObject({ exit: 0 });
    const watched = await project.pawl(['runs', 'watch', id, '-o', 'json']);
    expect(watched.exit).toBe(0);
    expect(JSON.parse(watched.out)).toMatchObject({ status: 'completed', output: '结果: charged' });
  });

  it('ends with 5 at a limit, and goes on once that is raised', async () => {
    const ran = await project.pawl(['run', 'billing', 'add', '--max-steps', '1']);
    expect(ran.exit).toBe(5);
    const id = idOf(ran.err);
    expect((await project.pawl(['runs', 'resume', id])).exit).toBe(7);
    expect((await project.pawl(['runs', 'resume', id, '--max-steps', '9'])).exit).toBe(0);
    expect((await project.pawl(['runs', 'watch', id])).exit).toBe(0);
  });

  it('leaves a run alone when interrupted, and ends with 4 when that is cancelled elsewhere', async () => {
    const asked = model.received(model.requests.length + 1);
    const interrupted = project.start(['run', 'adder', 'hang']);
    await asked;
    interrupted.child.kill('SIGINT');
    const { exit, err, out } = await interrupted.ended;
    expect({ exit, out }).toEqual({ exit: 130, out: '' });
    const id = idOf(err);
    expect(err).toContain(`${id} goes on. Follow it with pawl runs watch ${id}`);
    const watching = project.start(['runs', 'watch', id, '-o', 'jsonl']);
    expect(JSON.parse((await project.pawl(['runs', 'cancel', id, '-o', 'json'])).out)).toMatchObject({ id });
    expect((await watching.ended).exit).toBe(4);
  });

  it('is quiet when the reader of its result goes away', async () => {
    const list = project.start(['runs', 'list', '-o', 'json']);
    list.child.stdout?.destroy();
    expect(await list.ended).toMatchObject({ exit: 0, err: '' });
  });

  it('refuses what it cannot do by its documented status, and stores nothing', async () => {
    const count = async () =>
      linesOf((await project.pawl(['runs', 'list', '-o', 'jsonl', '--limit', '1000'])).out).length;
    await project.pawl(['run', 'billing', 'charge', '--key', 'k1', '--quiet']);
    const before = await count();
    const refused = await Promise.all([
      project.pawl(['run', 'addr', 'x']),
      project.pawl(['run', 'billing', 'another input', '--key', 'k1', '-d']),
      project.pawl(['run', 'adder', 'x', '--lane', 'l']),
      project.pawl(['run', 'adder', '{', '--json']),
      project.pawl(['runs', 'show', 'run_nothing']),
      project.pawl(['run', 'adder', 'x'], { DATABASE_URL: 'postgres://pawl@127.0.0.1:1/pawl' }),
      project.pawl(['run', 'adder', 'x'], { PAWL_PORT: 'many' }),
    ]);
    expect(refused.map(({ exit }) => exit)).toEqual([6, 7, 2, 2, 6, 8, 2]);
    for (const { out, err } of refused) {
      expect(out).toBe('');
      expect(err).toMatch(/^error: /);
      expect(err).not.toMatch(/\n {4}at /);
    }
    expect(refused[0]?.err).toContain('did you mean adder?');
    expect(await count()).toBe(before);
  });
});

describe('the command line by itself', () => {
  const projects: Project[] = [];
  const project = (files: Record<string, string>, env: Record<string, string>): Project => {
    const made = makeProject(files, env);
    projects.push(made);
    return made;
  };
  afterAll(() => Promise.all(projects.map((made) => made.close())));

  it('migrates a database once, however many processes begin at once', async () => {
    const { pawl } = project({}, { DATABASE_URL: (await createTestDatabase({ empty: true })).url });
    const early = await pawl(['runs', 'list']);
    expect(early).toMatchObject({ exit: 1, out: '' });
    expect(early.err).toContain('run pawl migrate');
    const all = await Promise.all(Array.from({ length: 6 }, () => pawl(['migrate', '-o', 'json'])));
    expect(all.map(({ exit }) => exit)).toEqual([0, 0, 0, 0, 0, 0]);
    const applied = all.map(({ out }) => (JSON.parse(out) as { data: unknown[] }).data.length);
    expect(applied.filter((count) => count > 0)).toHaveLength(1);
    expect(await pawl(['runs', 'list', '-o', 'json'])).toMatchObject({ exit: 0, err: '' });
  });

  it('says of a worker that cannot start what is wrong, and where', async () => {
    const env = { DATABASE_URL: (await createTestDatabase()).url, OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' };
    const agent = "defineAgent({ name: 'a', instructions: 'x' })";
    const head = "import { defineAgent, defineConfig } from 'pawl';\n";
    const { pawl } = project(
      {
        'throws.ts': "throw new Error('no licence');",
        'twins.ts': `${head}export default defineConfig({ agents: [${agent}, ${agent}] });`,
        'approval.ts': `import { defineTool } from 'pawl';\nexport default defineTool({ name: 'a', description: 'x', approval: true, execute: () => 1 });`,
        'fine.ts': `${head}export default defineConfig({ agents: [${agent}] });`,
      },
      env,
    );
    const [missing, throws, twins, approval, key] = await Promise.all([
      pawl(['worker']),
      pawl(['worker'], { PAWL_CONFIG: 'throws.ts' }),
      pawl(['worker'], { PAWL_CONFIG: 'twins.ts' }),
      pawl(['worker'], { PAWL_CONFIG: 'approval.ts' }),
      pawl(['worker'], { PAWL_CONFIG: 'fine.ts', OPENAI_BASE_URL: '' }),
    ]);
    expect(missing?.err).toContain('there is no pawl.config.ts in');
    expect(throws?.err).toMatch(/throws\.ts cannot be loaded .*: no licence/);
    expect(twins?.err).toContain('two agents are named a');
    expect(approval?.err).toContain('approval is not built in this version');
    expect(key?.err).toContain('OPENAI_API_KEY');
    for (const ended of [missing, throws, twins, approval, key]) expect(ended).toMatchObject({ exit: 2, out: '' });
  });

  it('starts a worker by its role from workers/, too, and ends it in good order', async () => {
    const { start } = project({}, { DATABASE_URL: (await createTestDatabase()).url });
    const script = fileURLToPath(new URL('../../workers/maintenance.ts', import.meta.url));
    const tsx = import.meta.resolve('tsx');
    const maintenance = start([], { program: ['--import', tsx, script] });
    await maintenance.says('worker ready');
    maintenance.child.kill('SIGTERM');
    expect((await maintenance.ended).exit).toBe(0);
  });
});
