/** Several processes and one server: one starts it, the rest attach, and it stops when nobody needs it any more. */
import { join } from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { isAlive } from '../../src/embedded/alive.js';
import { kill, makeProject, query, start, startInChild } from './projects.js';

it('lets a second process attach, whose stop leaves the server to its starter', async () => {
  const dir = await makeProject();
  const starter = await startInChild({ dir: join(dir, '.pawl') });
  const second = await start(dir);
  expect(second).toMatchObject({ started: false, url: starter.server.url, pid: starter.server.pid });
  await second.stop();
  expect(await query(starter.server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  await starter.stop();
  expect(await isAlive(starter.server.pid)).toBe(false);
});

it('is started by exactly one of three processes that begin at the same time', async () => {
  const dir = join(await makeProject(), '.pawl');
  const all = await Promise.all([startInChild({ dir }), startInChild({ dir }), startInChild({ dir })]);
  expect(all.filter((child) => child.server.started)).toHaveLength(1);
  expect(new Set(all.map((child) => child.server.url)).size).toBe(1);
  await Promise.all(all.map((child) => child.stop()));
});

it('goes on running after its starter while another process uses it; the last one stops it', async () => {
  const dir = await makeProject();
  const starter = await startInChild({ dir: join(dir, '.pawl') });
  const second = await start(dir);
  await starter.stop();
  expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  await second.stop();
  expect(await isAlive(second.pid)).toBe(false);
});

it('is not stopped under a client that was only given its URL', async () => {
  const server = await start(await makeProject());
  const client = new pg.Client({ connectionString: server.url });
  client.on('error', () => {}); // cut off when the test has ended
  await client.connect();
  await server.stop();
  expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  await client.end();
});

it('is attached to by the next process after a kill -9 of its starter, and stopped by that one', async () => {
  const dir = await makeProject();
  const starter = await startInChild({ dir: join(dir, '.pawl') });
  await kill(starter.process);
  const next = await start(dir);
  expect(next).toMatchObject({ started: false, pid: starter.server.pid });
  await next.stop();
  expect(await isAlive(next.pid)).toBe(false);
});

it('never cuts off a process that attaches while the starter is stopping', async () => {
  const dir = await makeProject();
  for (let round = 0; round < 5; round++) {
    const first = await start(dir);
    const [second] = await Promise.all([start(dir), first.stop()]);
    expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await second.stop();
  }
});
