/** `pawl dev` on a bad day: two of it in one folder, nowhere to write and no way out of the machine. */
import { chmodSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type ScriptedModel, startScriptedModel } from '../../src/testing/index.js';
import { makeProject, type Project } from './command.js';

const config = `
import { defineAgent, defineConfig } from 'pawl';
export default defineConfig({ agents: [defineAgent({ name: 'tagger', model: 'scripted', instructions: 'Tag.' })] });`;

let project: Project | null = null;
let model: ScriptedModel | null = null;
afterEach(async () => {
  await project?.close();
  await model?.close();
});

/** A folder with an agent and its model, and no services but the embedded ones. */
async function makeFolder(env: Record<string, string> = {}): Promise<Project> {
  model = await startScriptedModel({ script: () => 'tagged' });
  const made = makeProject(
    { 'pawl.config.ts': config },
    { OPENAI_BASE_URL: model.url, PAWL_PORT: String(await freePort()), PAWL_LOG_LEVEL: 'silent', ...env },
  );
  // Open to the account that runs the server, so that the database stays in the folder.
  chmodSync(made.folder, 0o755);
  project = made;
  return made;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

it('a second dev in one folder shares the database, says that the first has the dashboard, and both end well', async () => {
  const folder = await makeFolder();
  const first = folder.start(['dev']);
  await first.says('ready.');
  const second = folder.start(['dev']);
  await second.says('ready.');
  await second.says('embedded, running already');
  await second.says('no dashboard: port');
  await second.says('is taken by another pawl');
  const ran = await folder.pawl(['run', 'tagger', 'this']);
  expect(ran).toMatchObject({ exit: 0, out: 'tagged\n' });
  for (const { child, ended } of [first, second]) {
    child.kill('SIGTERM');
    expect((await ended).exit).toBe(0);
  }
});

it('dev needs no home folder to write to, no network, and no proxy for what runs on this machine', async () => {
  const folder = await makeFolder({
    ...{ HOME: '/nonexistent', HTTPS_PROXY: 'http://127.0.0.1:1', HTTP_PROXY: 'http://127.0.0.1:1' },
  });
  const dev = folder.start(['dev']);
  await dev.says('ready.');
  expect(await folder.pawl(['run', 'tagger', 'this'])).toMatchObject({ exit: 0, out: 'tagged\n' });
  dev.child.kill('SIGTERM');
  expect((await dev.ended).exit).toBe(0);
});

it('a folder that holds a .pawl of somebody else is left alone, and the message says what to do', async () => {
  const folder = await makeFolder();
  mkdirSync(join(folder.folder, '.pawl', 'postgres', 'data'), { recursive: true });
  const { exit, err } = await folder.pawl(['dev']);
  expect(exit).toBe(8);
  expect(err).toMatch(/cannot be used: it(s mode is| belongs to)/);
  expect(err).toContain('or set DATABASE_URL');
});
