/** What one process gets from the embedded Postgres: a private server with real settings, and its data back next time. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { isAlive } from '../../src/embedded/alive.js';
import { locatePackage } from '../../src/embedded/binaries.js';
import { makeProject, modeOf, query, start } from './projects.js';

it('starts in an empty folder, stops, and has the data again at the next start', async () => {
  const dir = await makeProject();
  const first = await start(dir);
  expect(first.started).toBe(true);
  await query(first.url, 'CREATE TABLE kept (n int)');
  await query(first.url, 'INSERT INTO kept VALUES (7)');
  await first.stop();
  expect(await isAlive(first.pid)).toBe(false);

  const second = await start(dir);
  expect(second.started).toBe(true);
  expect(await query(second.url, 'SELECT n FROM kept')).toEqual([{ n: 7 }]);
});

it('keeps every commit, stores UTF-8 and sorts the same everywhere', async () => {
  const { url } = await start(await makeProject());
  const [row] = await query(
    url,
    `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit,
            current_setting('server_encoding') AS encoding, datcollate AS locale, current_setting('TimeZone') AS zone
       FROM pg_database WHERE datname = current_database()`,
  );
  expect(row).toEqual({ fsync: 'on', commit: 'on', encoding: 'UTF8', locale: 'C.UTF-8', zone: 'UTC' });
});

it('listens on loopback alone and lets nobody in without its password, which only its account can read', async () => {
  const { url, dataDir } = await start(await makeProject());
  const wrong = new URL(url);
  wrong.password = 'guess';
  await expect(query(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  expect(await query(url, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
  expect(await query(url, 'SHOW unix_socket_directories')).toEqual([{ unix_socket_directories: '' }]);
  expect(await modeOf(join(dataDir, 'pawl.password'))).toBe('600');
});

it('makes further databases, and gives the same one when asked twice', async () => {
  const server = await start(await makeProject());
  const url = await server.createDatabase('demo "of" mine');
  await query(url, 'CREATE TABLE here (n int)');
  expect(await server.createDatabase('demo "of" mine')).toBe(url);
  expect(await query(url, 'SELECT * FROM here')).toEqual([]);
});

it('may be stopped twice', async () => {
  const server = await start(await makeProject());
  await Promise.all([server.stop(), server.stop()]);
  await server.stop();
  expect(await isAlive(server.pid)).toBe(false);
});

it('says how to go on where the package is not installed', () => {
  expect(() => locatePackage('plan9-mips')).toThrow(
    /not installed. Set DATABASE_URL .* or install Pawl with its optional packages/,
  );
});
