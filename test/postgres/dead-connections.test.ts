/** Connections that die without a word: a client vanishes, or the net between goes dark. Nobody waits for them for ever. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asPawlError, createPool, inTransaction } from '../../src/postgres/pool.js';
import { Route } from '../../src/postgres/route.js';
import { type NetProxy, openProxy } from '../chaos/campaign/proxy.js';
import { createTestDatabase, type TestDatabase } from '../support/services.js';

let database: TestDatabase;
let proxy: NetProxy;

beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  proxy = await openProxy(database.url);
  await onDatabase('create table run (id int primary key); insert into run values (1)');
});

afterAll(async () => {
  await proxy.close();
});

async function onDatabase(text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}

describe('a connection that has died without a word', () => {
  it('is given up after a while, as a database out of reach, and another one serves', async () => {
    const pool = createPool({ url: proxy.url, max: 1, applicationName: 'test', silenceMs: 500 });
    await pool.query('select 1');
    proxy.halfOpen(false);
    const failed = await pool.query('select 1').catch((error: unknown) => asPawlError(error));
    expect(failed).toMatchObject({ code: 'database_unreachable' });
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
  });

  it('keeps no transaction of its pool waiting for a rollback', async () => {
    const pool = createPool({ url: proxy.url, max: 1, applicationName: 'test', silenceMs: 500 });
    const cut = inTransaction(pool, async (client) => {
      proxy.halfOpen(false);
      await client.query('select 1');
    });
    await expect(cut.catch((error: unknown) => asPawlError(error))).resolves.toMatchObject({
      code: 'database_unreachable',
    });
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
  });

  it('is the last that its process has to find out', async () => {
    const route = new Route();
    const open = (silenceMs: number) =>
      createPool({ url: proxy.url, route, max: 1, applicationName: 'test', silenceMs });
    const asked = open(500);
    const idle = open(60_000);
    const busy = open(60_000);
    for (const pool of [asked, idle, busy]) await pool.query('select 1');
    let goDark = () => {};
    const dark = new Promise<void>((resolve) => {
      goDark = resolve;
    });
    const transaction = inTransaction(busy, async (client) => {
      proxy.halfOpen(false);
      goDark();
      await client.query('select 1');
    });
    const cut = expect(transaction).rejects.toThrow('Connection terminated');
    await dark;
    await expect(asked.query('select 1')).rejects.toThrow('Query read timeout');
    await cut;
    for (const pool of [idle, busy]) {
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      await pool.end();
    }
    await asked.end();
  });

  it('costs those nothing that were heard since it was asked', async () => {
    const route = new Route();
    const dead = createPool({ url: proxy.url, route, max: 1, applicationName: 'test', silenceMs: 500 });
    const heard = createPool({ url: database.url, route, max: 1, applicationName: 'test' });
    await dead.query('select 1');
    proxy.halfOpen(false);
    let isOver = false;
    const asked = dead.query('select 1').catch(() => {
      isOver = true;
    });
    const backend = async () => (await heard.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;
    const backends = new Set<number | undefined>();
    while (!isOver) backends.add(await backend());
    await asked;
    backends.add(await backend());
    expect(backends.size).toBe(1);
    await Promise.all([dead.end(), heard.end()]);
  });

  it('does not keep its locks on the server', async () => {
    const settings = { idle_in_transaction_session_timeout: '300ms' };
    const pool = createPool({ url: proxy.url, max: 1, applicationName: 'test', silenceMs: 500, settings });
    const cut = inTransaction(pool, async (client) => {
      await client.query('select * from run where id = 1 for no key update');
      proxy.halfOpen(true);
      const locked = await onDatabase('select id from run where id = 1 for no key update');
      expect(locked.rowCount).toBe(1);
      await client.query('select 1');
    });
    await expect(cut).rejects.toThrow('Query read timeout');
    await pool.end();
  });
});
