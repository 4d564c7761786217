/** The clone's own config and the examples, each run as its comments say, against real services and a scripted model. */
import { once } from 'node:events';
import { copyFile, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, expect, it, vi } from 'vitest';
import type { RunView } from '../../src/core/view.js';
import { type Script, type ScriptedModel, type ScriptedReply, startScriptedModel } from '../../src/testing/index.js';
import { makeProject, type Project } from '../e2e/command.js';
import { createTestDatabase } from '../support/services.js';

// Each command is a process that loads all of Pawl; on a busy machine that takes its time.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const root = fileURLToPath(new URL('../../', import.meta.url));
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A project with a copy of the config and a worker that has started. */
async function open(
  config: string,
  script: Script,
  more: Record<string, string> = {},
): Promise<Project & { model: ScriptedModel }> {
  const model = await startScriptedModel({ script });
  closers.push(() => model.close());
  const env = { DATABASE_URL: (await createTestDatabase()).url, OPENAI_BASE_URL: model.url, ...more };
  const project = makeProject({}, env);
  closers.push(() => project.close());
  await copyFile(join(root, config), join(project.folder, 'pawl.config.ts'));
  await mkdir(join(project.folder, 'data'));
  await copyFile(join(root, 'data/orders.csv'), join(project.folder, 'data/orders.csv'));
  await project.start(['worker']).says('worker ready');
  return { ...project, model };
}

const call = (name: string, args: Record<string, unknown>): ScriptedReply => ({ calls: [{ name, arguments: args }] });
const idOf = (text: string): string => /run_\w+/.exec(text)?.[0] ?? 'no id';

/** Answers by how many calls have their results: an analyst's calls one after the other, a tagger's tags. */
const desk: Script = ({ system, messages }) => {
  if (system.includes('tags')) return JSON.stringify({ tags: ['paper', 'prices'], language: 'en' });
  const results = messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
  const report = { name: 'report.md', markdown: `# Sales\n\n${results[0]}\n` };
  const calls = [
    call('sales_by_day', { days: 2 }),
    call('sales_by_day', { days: 1, column: 'product', group: 'Monitor 27"' }),
    call('write_report', report),
    call('mail_report', { subject: 'Sales', text: 'See the report.', attach: 'missing.md' }),
    call('mail_report', { subject: 'Sales', text: 'See the report.', attach: 'report.md' }),
  ];
  return calls[results.length] ?? results.join('\n');
};

it('the analyst of the clone sums, writes and mails', async () => {
  const project = await open('pawl.config.ts', desk);
  const ran = await project.pawl(['run', 'analyst', 'Which day was the best?']);
  expect(ran.exit).toBe(0);
  const [days, monitors, written, refused, mailed] = ran.out.trim().split('\n');
  expect(JSON.parse(days ?? '')).toMatchObject({
    sales: [
      { day: '2026-06-28', sales: '4093.87' },
      { day: '2026-06-27', sales: '4371.25' },
    ],
  });
  expect(monitors).toContain('"Monitor 27\\""');
  expect([written, mailed]).toEqual(['{"written":"report.md"}', 'mailed']);
  expect(refused).toContain('there is no report missing.md');
  const files = join(project.folder, '.pawl/files');
  expect((await readdir(files)).filter((name) => name.startsWith('mail-'))).toHaveLength(1);
  expect(await readFile(join(files, 'report.md'), 'utf8')).toContain('4093.87');
});

it('the crontab line starts one run a day, however often cron calls it', async () => {
  const project = await open('pawl.config.ts', desk);
  // What npx finds where Pawl is installed.
  await mkdir(join(project.folder, 'node_modules/.bin'), { recursive: true });
  await symlink(join(root, 'bin/pawl.mjs'), join(project.folder, 'node_modules/.bin/pawl'));
  const crontab = await readFile(join(root, 'examples/nightly.crontab'), 'utf8');
  const lines = crontab.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const [, schedule, command] = /^((?:[\d*,/-]+ ){5}) *(.*)$/.exec(lines[0] ?? '') ?? [];
  expect([lines.length, schedule]).toEqual([1, '15 2 * * * ']);
  // As cron hands it to the shell: a % with a backslash stands for itself, one without ends the command.
  expect(command?.replaceAll('\\%', '')).not.toContain('%');
  const line = (command ?? '').replaceAll('\\%', '%').replace('cd /srv/shop', `cd '${project.folder}'`);
  const options = { program: ['-e', `require('node:child_process').execSync(process.argv[1], { stdio: 'inherit' })`] };
  const first = await project.start([line], options).ended;
  expect(first).toMatchObject({ exit: 0, out: expect.stringMatching(/^run_\w+\n$/) });
  expect(await project.start([line], options).ended).toMatchObject({ exit: 0, out: first.out });
  const listed = await project.pawl(['runs', 'list', '-o', 'id']);
  expect(listed.out).toBe(first.out);
  const run = JSON.parse((await project.pawl(['runs', 'show', first.out.trim(), '-o', 'json'])).out) as RunView;
  expect(run.key).toMatch(/^\d{4}-\d\d-\d\d$/);
});

it('a service starts one run for each document, however often it is told of it', async () => {
  const project = await open('pawl.config.ts', desk);
  const port = await freePort();
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const service = project.start([], {
    program: ['--import', tsx, join(root, 'examples/enqueue-from-a-service.ts')],
    env: { PORT: String(port), TSX_TSCONFIG_PATH: join(root, 'tsconfig.json') },
  });
  await service.says('taking texts');
  const ask = async (path: string, body?: unknown): Promise<[number, Record<string, unknown>]> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(`http://127.0.0.1:${port}/${path}`, init);
    return [response.status, (await response.json()) as Record<string, unknown>];
  };
  const document = { id: 'doc-1', text: 'Paper prices fell again.' };
  const [accepted, { id, created }] = await ask('', document);
  expect([accepted, created]).toEqual([202, true]);
  expect(await ask('', document)).toEqual([200, { id, created: false }]);
  expect(await ask('', { ...document, text: 'Other.' })).toMatchObject([409, { code: 'key_conflict' }]);
  expect(await ask('', { text: 'no id' })).toMatchObject([400, { code: 'bad_request' }]);
  expect(await ask('run_none')).toMatchObject([404, { code: 'not_found' }]);
  await expect.poll(async () => (await ask(String(id)))[0], { timeout: 30_000 }).toBe(200);
  const [, run] = await ask(String(id));
  expect(run).toEqual({ status: 'completed', reason: null, output: { tags: ['paper', 'prices'], language: 'en' } });
  service.child.kill('SIGTERM');
  expect(await service.ended).toMatchObject({ exit: 0 });
});

it('a charge whose answer was lost waits for a person, and is not made again', async () => {
  const charges: string[] = [];
  const bank = createServer((request, response) => {
    charges.push(String(request.headers['idempotency-key']));
    if (charges.length === 1) request.socket.destroy();
    else response.writeHead(402).end();
  });
  const port = await listen(bank);
  closers.push(async () => bank.close());
  const cashier: Script = ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role === 'tool') return `It says: ${last.content}`;
    return call('charge', { orderId: String(messages[0]?.content), cents: 1_200 });
  };
  const url = `http://127.0.0.1:${port}/charges`;
  const project = await open('examples/charge-once.ts', cashier, { BANK_URL: url });
  const waits = await project.pawl(['run', 'cashier', 'A-7']);
  const id = idOf(waits.err);
  expect(waits).toMatchObject({ exit: 5, err: expect.stringContaining(`pawl runs resolve ${id} --step 2 --as done`) });
  const result = ['--result', '{"charged":1200}'];
  expect(await project.pawl(['runs', 'resolve', id, '--step', '2', '--as', 'done', ...result])).toMatchObject({
    exit: 0,
  });
  expect(await project.pawl(['runs', 'watch', id])).toMatchObject({ exit: 0 });
  const run = JSON.parse((await project.pawl(['runs', 'show', id, '-o', 'json'])).out) as RunView;
  expect(run).toMatchObject({ status: 'completed', output: 'It says: {"charged":1200}' });
  expect(charges).toHaveLength(1);
  const refused = await project.pawl(['run', 'cashier', 'A-8']);
  expect(refused).toMatchObject({ exit: 0, out: expect.stringContaining('the bank refused: 402') });
  expect(new Set(charges).size).toBe(2);
});

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, 'close');
  return port;
}

it('a reader of more than its window holds sums up on the way, and knows at the end what it read', async () => {
  const page = (n: number) =>
    `Person-${n} enters. ${'It rains, and the rain is told of. '.repeat(100)}`.slice(0, 3_000);
  const reader: Script = ({ messages }) => {
    const text = JSON.stringify(messages);
    const named = [...new Set([...text.matchAll(/Person-(\d+)/g)].map(([, n]) => Number(n)))].sort((a, b) => a - b);
    if (messages.at(-1)?.content?.includes('Write a summary now') === true)
      return `So far: ${named.map((n) => `Person-${n}`).join(', ')}`;
    const next = named.length + 1;
    return next > 16 ? `Named: ${named.join(' ')}` : call('read_page', { page: next });
  };
  const project = await open('examples/long-reading.ts', reader, { BOOK: 'book.txt' });
  await writeFile(join(project.folder, 'book.txt'), Array.from({ length: 16 }, (_, n) => page(n + 1)).join(''));
  const ran = await project.pawl(['run', 'reader', 'Who is named?', '--max-steps', '60']);
  expect(ran).toMatchObject({ exit: 0, out: `Named: ${Array.from({ length: 16 }, (_, n) => n + 1).join(' ')}\n` });
  const shown = (await project.pawl(['runs', 'show', idOf(ran.err)])).out;
  expect(shown).toMatch(/the turns before step \d+ are summed up: the prompt shrank from \d+ to \d+ tokens/);
  expect((await project.pawl(['runs', 'steps', idOf(ran.err)])).out).toMatch(/llm +summary +completed/);
});

it('an assistant knows in the next run what it was told, and in a thread what was said', async () => {
  const assistant: Script = ({ messages }) => {
    const [task = ''] = messages.findLast(({ role }) => role === 'user')?.content?.split('\n') ?? [];
    if (messages.at(-1)?.role === 'tool') return 'noted';
    if (task.startsWith('From now on')) return call('remember', { key: 'weekly report', value: 'goes to Ada' });
    return JSON.stringify(messages);
  };
  const project = await open('examples/remember-for-the-next.ts', assistant);
  expect((await project.pawl(['run', 'assistant', 'From now on send it to Ada'])).out).toBe('noted\n');
  const asked = await project.pawl(['run', 'assistant', 'Who gets the weekly report?', '--thread', 'desk']);
  expect(asked.out).toContain('- weekly report: goes to Ada');
  const [question] = project.model.embeddingRequests.flatMap(({ body }) => (body as { input: string[] }).input);
  expect(question).toBe('Who gets the weekly report?');
  expect(project.model.breaches).toEqual([]);
  const again = await project.pawl(['run', 'assistant', 'And what did I ask?', '--thread', 'desk']);
  expect(JSON.parse(again.out)).toMatchObject([
    { role: 'user', content: 'Who gets the weekly report?' },
    { role: 'assistant' },
    { role: 'user', content: expect.stringContaining('And what did I ask?') },
  ]);
});

it('a search that cannot be reached is answered another way, and the result that was wanted ends the run', async () => {
  const finder: Script = ({ messages }) => {
    const results = messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
    if (results.length === 0) return call('search', { query: 'invoice 2026-03' });
    return results[0]?.includes('Choose another way') === true ? call('archive', { query: 'invoice 2026-03' }) : 'lost';
  };
  const port = await freePort();
  const project = await open('examples/another-way.ts', finder, { SEARCH_URL: `http://127.0.0.1:${port}` });
  const ran = await project.pawl(['run', 'finder', 'The invoice of March 2026', '-o', 'json']);
  const run = JSON.parse(ran.out) as RunView;
  expect(run).toMatchObject({ status: 'completed', reason: 'stopped_early' });
  expect(run.output).toBe('{"hits":["Invoice 2026-03, 1,200 EUR"]}');
});

it('a question about metrics is asked again as the tool takes it, and answered with its numbers alone', async () => {
  const told: string[] = [];
  const oncall: Script = ({ messages }) => {
    const last = messages.at(-1)?.content ?? '';
    told.push(last);
    if (messages.length === 1) return call('query_metrics', { metric: 'cpu', host: 'server 3' });
    if (last.includes('was not called')) return call('query_metrics', { metric: 'cpu_percent', host: 'web-3' });
    const { average, highest } = JSON.parse(messages.findLast(({ role }) => role === 'tool')?.content ?? '{}');
    return last.includes('not accepted') ? `${average} % on average, ${highest} % at most` : 'about 7777 %';
  };
  const project = await open('examples/metrics-question.ts', oncall);
  const ran = await project.pawl(['run', 'oncall', 'How busy was web-3?', '-o', 'json']);
  expect(ran.exit).toBe(0);
  const run = JSON.parse(ran.out) as RunView;
  expect(told[1]).toContain('metric: expected one of "cpu_percent", "memory_percent", "requests_per_second"');
  expect(told[1]).toMatch(/host: expected .*\(web\|db\)/);
  expect(told[2]).toContain('"window":"1h"');
  expect(told[3]).toContain('these numbers neither stand in a tool result nor follow from one');
  expect(run).toMatchObject({ status: 'completed', steps: 6, output: '48.8 % on average, 98 % at most' });
});

it('a researcher holds to its plan and replaces it, and an editor is reviewed before it answers', async () => {
  const desk: Script = ({ system, messages }) => {
    const last = messages.at(-1)?.content ?? '';
    const drafts = messages.filter(({ role }) => role === 'assistant').length;
    if (last.includes('write the plan for this task')) return '1. read 1988\n2. read 1989\n3. answer';
    if (last.includes('Judge it first'))
      return drafts < 2 ? '{"accepted": false, "objections": "no time zone"}' : '{"accepted": true}';
    if (system.startsWith('Write')) return drafts === 0 ? 'From 22:00 to 23:00.' : 'From 22:00 to 23:00 UTC.';
    const results = messages.filter(({ role }) => role === 'tool').length;
    const calls = [
      call('read_notes', { year: '1989' }),
      call('update_plan', { plan: '1. read 1991\n2. answer' }),
      call('read_notes', { year: '1991' }),
    ];
    return calls[results] ?? '171 days';
  };
  const project = await open('examples/plan-and-review.ts', desk);
  const planned = await project.pawl(['run', 'researcher', 'How did it rain?']);
  expect(planned).toMatchObject({ exit: 0, out: '171 days\n' });
  const shown = (await project.pawl(['runs', 'show', idOf(planned.err)])).out;
  expect(shown).toContain('plan\n  1. read 1991\n  2. answer\n');
  expect(shown).toMatch(/1 +the plan was made\n +5 +the plan was replaced/);
  const reviewed = await project.pawl(['run', 'editor', 'Announce it']);
  expect(reviewed).toMatchObject({ exit: 0, out: 'From 22:00 to 23:00 UTC.\n' });
  const page = (await project.pawl(['runs', 'show', idOf(reviewed.err)])).out;
  expect(page).toContain('judgement 1 of 2 objects: no time zone');
  expect(page).toContain('judgement 2 of 2 accepts the answer');
  expect(project.model.breaches).toEqual([]);
});
