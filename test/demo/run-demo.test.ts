/**
 * `pawl demo` as a command, in a folder that only its owner can enter: it does what it says, finds out when something is
 * missing, and leaves nothing running. The first demo runs at the default settings, the others with faster heartbeats.
 */
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { answerRequest } from '../../src/demo/scripted-analyst.js';
import { isAlive } from '../../src/embedded/alive.js';
import { startScriptedModel } from '../../src/testing/index.js';
import { type Ended, makeProject } from '../e2e/command.js';
import { createTestRedis, queueBackends } from '../support/services.js';
import { startSmtpServer } from '../tools/smtp-server.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });

const project = makeProject({}, {});
const fast = { PAWL_HEARTBEAT_MS: '200', PAWL_DEATH_MS: '2000' };
const pawlDir = join(project.folder, '.pawl');

/** Where the server's files are: under root outside of this folder, which its account cannot enter. */
async function serverHome(): Promise<string> {
  const note = await readFile(join(pawlDir, 'where-the-database-is.txt'), 'utf8').catch(() => '');
  return note.split('\n')[1]?.trim() || join(pawlDir, 'postgres');
}

afterAll(async () => {
  const home = await serverHome();
  await project.close();
  await rm(home, { recursive: true, force: true });
});

/** Whatever came of the demo, its workers and the server it started are gone. */
async function expectNothingLeft({ out }: Pick<Ended, 'out'>, workers: number): Promise<void> {
  const pids = new Set([...out.matchAll(/\bpid (\d+)/g)].map(([, pid]) => Number(pid)));
  expect(pids.size).toBe(workers);
  for (const pid of pids) expect(await isAlive(pid)).toBe(false);
  await expect(readFile(join(await serverHome(), 'data', 'postmaster.pid'))).rejects.toThrow('ENOENT');
}

/** The file that a line of the ending names. */
const fileOf = (name: string, out: string) => readFile(join(project.folder, lineOf(name, out)), 'utf8');
const lineOf = (name: string, out: string) => new RegExp(`^${name} +(\\S+)$`, 'm').exec(out)?.[1] ?? `no ${name}`;

it('loses its worker in the middle, ends without repeating a step, and can be looked at afterwards', async () => {
  const ended = await project.pawl(['demo']);
  expect(ended).toMatchObject({ exit: 0, err: '' });
  const { out } = ended;
  expect(out).toContain('scripted: rules instead of a language model');
  const [before = '', after = ''] = out.split(/^-- worker 1 \(pid \d+\) was killed with SIGKILL --$/m);
  const recorded = [...before.matchAll(/^✓ +(\d+) +(\w+ +\w+)/gm)].map(([, seq]) => seq);
  const survived = [...after.matchAll(/^✓ +(\d+) .*recorded before the crash, not repeated$/gm)].map(([, seq]) => seq);
  expect(recorded.length).toBeGreaterThanOrEqual(3);
  expect([...survived].sort()).toEqual([...recorded].sort());
  expect(after).toMatch(/rescued from attempt 1: its worker died\n.*attempt 2\n(.*\n)+.*send_email/);
  expect(out).toContain('checked: every step recorded once and none repeated, mail delivered once');
  expect(await fileOf('report', out)).toContain('| 2026-06-24 | Wednesday | 18,534.14 | 100 |');
  expect(await fileOf('mail', out)).toContain('best day');
  await expectNothingLeft(ended, 2);
  const [, id = ''] = /npx pawl runs show (\S+)/.exec(out) ?? [];
  const shown = await project.pawl(['runs', 'show', id, '-o', 'json']);
  expect(JSON.parse(shown.out)).toMatchObject({ id, agent: 'analyst', status: 'completed', steps: 10 });
  expect((await project.pawl(['runs', 'steps', id, '-o', 'id'])).out.split('\n')).toHaveLength(11);
  expect(await project.pawl(['runs', 'list'])).toMatchObject({ exit: 0, out: '' });
  expect(await project.pawl(['runs', 'show', 'run_none'])).toMatchObject({ exit: 6 });
});

it("takes anyone's table, and the queue where REDIS_URL says", async () => {
  const rows = ['2024-03-01;2;10,50', '2024-03-03;1;100,00', '2024-02-20;7;1,00'];
  await writeFile(join(project.folder, 'Umsätze.csv'), `Bestelldatum;Menge;Preis\n${rows.join('\n')}\n`);
  const redis = queueBackends().includes('redis') ? await createTestRedis() : null;
  const ended = await project.pawl(['demo', '--csv', 'Umsätze.csv'], {
    ...fast,
    ...(redis && { REDIS_URL: redis.url }),
  });
  expect(ended).toMatchObject({ exit: 0, err: '' });
  expect(ended.out).toContain('3 rows of Umsätze.csv, 2024-02-20 to 2024-03-03');
  expect(ended.out).toMatch(redis === null ? /queue +in the same/ : /queue +Redis/);
  expect(await fileOf('report', ended.out)).toMatch(/Best day: Sunday, 2024-03-03, with 100\.00/);
  await expectNothingLeft(ended, 2);
});

it('names what a model left out, and ends with an error', async () => {
  const model = await startScriptedModel({
    script: ({ tools, ...request }) => {
      return {
        ...answerRequest({ ...request, tools: tools.filter(({ name }) => name !== 'send_email') }),
        delayMs: 500,
      };
    },
  });
  const ended = await project.pawl(['demo'], { ...fast, OPENAI_BASE_URL: model.url, OPENAI_MODEL: 'forgetful' });
  await model.close();
  expect(ended).toMatchObject({ exit: 1, err: '' });
  expect(ended.out).toContain(`forgetful at ${model.url}`);
  expect(ended.out).not.toContain('scripted');
  expect(ended.out.match(/^(failed|checked):.*$/gm)).toEqual([
    'failed: mail: send_email recorded 0 mails as sent, not 1',
  ]);
  await expectNothingLeft(ended, 2);
});

it('waits for a person, and says how to answer, when nobody knows whether the mail was sent', async () => {
  const server = await startSmtpServer('body-dropped');
  const ended = await project.pawl(['demo'], { ...fast, PAWL_SMTP_URL: server.url });
  await server.close();
  expect(ended).toMatchObject({ exit: 5, err: '' });
  expect(server.messages).toHaveLength(1);
  expect(ended.out).toContain('failed: run: the run is suspended (outcome), not simply completed');
  expect(ended.out).toMatch(/^ {2}npx pawl runs resolve run_\w+ --step 9 --as done /m);
  const [, id = ''] = /runs resolve (\S+)/.exec(ended.out) ?? [];
  expect(await project.pawl(['runs', 'resolve', id, '--step', '9', '--as', 'done'])).toMatchObject({ exit: 0 });
  await expectNothingLeft(ended, 2);
});

it('says at once that a key is wrong', async () => {
  const model = await startScriptedModel({ script: () => 'never', apiKey: 'right' });
  const wrong = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'sk-wrong-key' };
  const ended = await project.pawl(['demo'], { ...fast, ...wrong });
  await model.close();
  expect(ended).toMatchObject({ exit: 3, err: '' });
  expect(ended.out).toContain('failed: run: the run is failed (invalid_request), not simply completed');
  expect(ended.out).toContain('Incorrect API key provided');
  expect(ended.out).not.toContain('sk-wrong-key');
  await expectNothingLeft(ended, 1);
});

it('refuses a table it cannot use before it starts anything', async () => {
  const ended = await project.pawl(['demo', '--csv', 'none.csv']);
  expect(ended).toMatchObject({ exit: 2, err: expect.stringMatching(/^error: none\.csv cannot be read/) });
  await expectNothingLeft(ended, 0);
});

it('ends all that it started when it is interrupted', async () => {
  const demo = project.start(['demo'], { env: fast });
  let out = '';
  demo.child.stdout?.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    if (out.includes('was killed')) demo.child.kill('SIGINT');
  });
  await once(demo.child, 'exit');
  const ended = await demo.ended;
  expect(ended).toMatchObject({ exit: 130 });
  expect(ended.out).toBe(out);
  await expectNothingLeft(ended, 1);
});
