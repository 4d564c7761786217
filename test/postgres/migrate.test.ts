/** Migrations: many starters at once, databases of other versions, and what a crash between two of them leaves. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import pg from 'pg';
import { expect, it } from 'vitest';
import { checkSchema, migrate } from '../../src/postgres/migrate.js';
import { createTestDatabase } from '../support/services.js';

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'pawl migrate test' });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A process of its own that migrates and prints what it applied. */
async function migrateInProcess(url: string): Promise<string> {
  const script = `import { migrate } from './src/postgres/migrate.ts';
    console.log(JSON.stringify(await migrate(process.env.DATABASE_URL ?? '')));`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    env: { ...process.env, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk));
  await once(child, 'close');
  return said.trim();
}

it('is done once by six processes that start at once; each of them finds it done', { timeout: 120_000 }, async () => {
  const { url } = await createTestDatabase({ empty: true });
  const said = await Promise.all(Array.from({ length: 6 }, () => migrateInProcess(url)));
  const applied = said.map((line) => (JSON.parse(line) as { applied: string[] }).applied);
  expect(applied.filter((tags) => tags.length > 0)).toHaveLength(1);
  await withClient(url, async (client) => {
    await checkSchema(client);
    expect((await client.query('select 1 from pawl.instance')).rowCount).toBe(1);
  });
});

it('applies nothing the second time', async () => {
  const { url } = await createTestDatabase({ empty: true });
  expect((await migrate(url)).applied.length).toBeGreaterThan(0);
  expect(await migrate(url)).toEqual({ applied: [] });
});

it('completes what a crash after the last migration left undone', async () => {
  const { url } = await createTestDatabase();
  await withClient(url, (client) => client.query('delete from pawl.instance'));
  await migrate(url);
  await withClient(url, async (client) => {
    expect((await client.query('select 1 from pawl.instance')).rowCount).toBe(1);
  });
});

it('keeps the identity of a database through later migrations', async () => {
  const { url } = await createTestDatabase();
  const id = () => withClient(url, async (client) => (await client.query('select id from pawl.instance')).rows);
  const before = await id();
  await migrate(url);
  expect(await id()).toEqual(before);
});

it('refuses a database that is not migrated, and names what it lacks', async () => {
  const { url } = await createTestDatabase({ empty: true });
  await expect(withClient(url, checkSchema)).rejects.toMatchObject({
    code: 'schema_mismatch',
    message: expect.stringMatching(/0000_first_tables.*pawl migrate/),
  });
});

it('refuses a database that serves only newer programs', async () => {
  const { url } = await createTestDatabase();
  await withClient(url, (client) => client.query('update pawl.instance set oldest_code = 999'));
  await expect(withClient(url, checkSchema)).rejects.toMatchObject({
    code: 'schema_mismatch',
    message: expect.stringContaining('install a newer pawl'),
  });
});

it('refuses a database with a newer migration that skipped one of ours', async () => {
  const { url } = await createTestDatabase();
  await withClient(url, (client) =>
    client.query(`update pawl.migrations set created_at = created_at + 1, hash = 'another'`),
  );
  await expect(migrate(url)).rejects.toMatchObject({ code: 'schema_mismatch' });
});

it('says of a server that is not there that it does not answer', async () => {
  await expect(migrate('postgres://nobody@127.0.0.1:1/none')).rejects.toMatchObject({ code: 'database_unreachable' });
});
