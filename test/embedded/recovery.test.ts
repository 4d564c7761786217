/** After crashes: of the server, of whoever was making the data folder, and of the machine. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { isAlive } from '../../src/embedded/alive.js';
import { copyPackageWithoutLinks, kill, makeProject, query, spawnChild, start, until } from './projects.js';

it('recovers after a kill -9 of the server with every commit in it, also while a session still holds its memory', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  await query(first.url, 'CREATE TABLE kept (n int)');
  await query(first.url, 'INSERT INTO kept SELECT generate_series(1, 1000)');
  const busy = new pg.Client({ connectionString: first.url });
  busy.on('error', () => {});
  await busy.connect();
  const spinning = busy.query('DO $$ BEGIN WHILE clock_timestamp() < now() + interval $i$2 s$i$ LOOP END LOOP; END $$');
  spinning.catch(() => {}); // cut off with its server
  await until('the session is busy', async () => {
    const rows = await query(first.url, `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'`);
    return rows.length === 1;
  });
  process.kill(first.pid, 'SIGKILL');
  await until('the server is dead', async () => !(await isAlive(first.pid)));

  const second = await start(dir);
  expect(second.started).toBe(true);
  expect(await query(second.url, 'SELECT count(*)::int AS n FROM kept')).toEqual([{ n: 1000 }]);
  await busy.end();
});

it('comes back at the same URL when it is killed under a process that lives on, which can still stop it', async () => {
  const dir = await makeProject();
  const said: string[] = [];
  const server = await start(dir, { revive: true, log: (line) => said.push(line) });
  await query(server.url, 'CREATE TABLE kept AS SELECT 7 AS n');
  for (const round of [1, 2]) {
    const before = await postmasterOf(server.dataDir);
    process.kill(before, 'SIGKILL');
    await until(`it is back, round ${round}`, async () => (await rowsOf(server.url)) === 1);
    expect(await postmasterOf(server.dataDir)).not.toBe(before);
  }
  // Killed again while it was being revived, it is told of once.
  await until('it is told of', () => said.includes('the embedded database died and was started again'));
  const last = await postmasterOf(server.dataDir);
  await server.stop();
  expect(await isAlive(last)).toBe(false);
});

const postmasterOf = async (dataDir: string): Promise<number> =>
  Number((await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n')[0]);

const rowsOf = (url: string): Promise<number> =>
  query(url, 'SELECT n FROM kept').then(
    (rows) => rows.length,
    () => 0,
  );

it('says that the disk is full where a new database does not fit on it', async () => {
  const native = await copyPackageWithoutLinks();
  const initdb = join(native, 'bin', 'initdb');
  const full = 'initdb: error: could not write to file "pg_wal/xlogtemp.1": No space left on device';
  await writeFile(initdb, `#!/bin/sh\n[ "$1" = --version ] && exit 0\necho '${full}' >&2\nexit 1\n`);
  const dir = await makeProject();
  await expect(start(dir, { native })).rejects.toThrow(/No space left on device\nThe disk is full: free some space/);
  expect(await readdir(join(dir, '.pawl', 'postgres'))).toEqual([]);
});

it('is not misled by a pid file that names another program', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  await first.stop();
  const lines = [process.pid, first.dataDir, 1, 5432, '', '127.0.0.1', '  1 1', 'ready   '];
  await writeFile(join(first.dataDir, 'postmaster.pid'), `${lines.join('\n')}\n`);
  expect((await start(dir)).started).toBe(true);
});

it('makes the database anew when its first maker was killed in the middle', async () => {
  const dir = await makeProject();
  const home = join(dir, '.pawl', 'postgres');
  const maker = spawnChild({ dir: join(dir, '.pawl') });
  const drafts = async (): Promise<string[]> =>
    (await readdir(home).catch(() => [])).filter((name) => /^draft-/.test(name));
  await until('initdb is at work', async () => (await drafts()).length === 1);
  await kill(maker);

  const server = await start(dir);
  expect(server).toMatchObject({ started: true, home });
  expect(await query(server.url, 'SELECT current_database() AS name')).toEqual([{ name: 'pawl' }]);
  await server.stop();
  await (await start(dir)).stop();
});

it('sets an incomplete data folder aside instead of using or deleting it', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  await first.stop();
  await rm(join(first.dataDir, 'global', 'pg_control'));
  const said: string[] = [];
  const second = await start(dir, { log: (line) => said.push(line) });
  expect(second.started).toBe(true);
  expect(said.join()).toMatch(/was incomplete/);
  expect((await readdir(first.home)).filter((name) => /^data\.broken-/.test(name))).toHaveLength(1);
});

it('names the two versions when the data is of another Postgres', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  await first.stop();
  await writeFile(join(first.dataDir, 'PG_VERSION'), '14\n');
  await expect(start(dir)).rejects.toThrow(/was made by Postgres 14; the installed package is \d+/);
});

it('shows what the server said when it cannot start', async () => {
  const dir = await makeProject();
  await expect(start(dir, { settings: { shared_buffers: 'plenty' } })).rejects.toMatchObject({
    code: 'database_unreachable',
    message: expect.stringMatching(/invalid value for parameter "shared_buffers".*server\.log/s),
  });
});

it('sweeps up the draft a dead maker left', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  await first.stop();
  const draft = join(first.home, 'draft-4194305-00000000'); // above the highest pid Linux gives
  await mkdir(join(draft, 'data'), { recursive: true });
  await rm(first.dataDir, { recursive: true });
  await start(dir);
  expect(await readdir(dirname(draft))).not.toContain('draft-4194305-00000000');
});
