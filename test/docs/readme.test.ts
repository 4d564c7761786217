/** The README's example is run as it stands there: the config is loaded, its agent works, and another service starts a run. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RunView } from '../../src/core/view.js';
import { createTestDatabase } from '../support/services.js';
import { blocks, page, section } from '../unit/docs/pages.js';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-readme-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("the README's agent and the service that starts its run work as they are shown", async () => {
  const readme = page('README.md');
  const [config = ''] = blocks(section(readme, '## An example'), 'ts');
  const [service = ''] = blocks(section(readme, '## Starting runs'), 'ts');
  await writeFile(join(folder, 'pawl.config.ts'), config);
  await writeFile(join(folder, 'service.ts'), service);
  const database = await createTestDatabase();
  const { REDIS_URL: _, ...rest } = process.env;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', fileURLToPath(new URL('./play-readme.ts', import.meta.url)), folder],
    { env: { ...rest, DATABASE_URL: database.url } },
  );
  const lines = stdout.trim().split('\n');
  const run = JSON.parse(lines.at(-1) ?? '') as RunView;
  expect(run).toMatchObject({ agent: 'analyst', key: 'order-42', status: 'completed', output: 'Mailed.', steps: 5 });
  expect(lines).toContain('run.completed null');
  expect(lines).toContain('true completed Mailed.');
  const mails = (await readFile(join(folder, 'outbox.jsonl'), 'utf8')).trim().split('\n');
  expect(mails).toHaveLength(1);
  expect(JSON.parse(mails[0] ?? '')).toMatchObject({ subject: 'Sales', text: 'Fine.' });
});
