/**
 * sql_query against a real Postgres: what it answers, and that no statement gets beyond reading one schema. The role made
 * here has a name of its own, because roles outlive the test's database.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { prepareDataRole } from '../../src/tools/data-role.js';
import { runSqlQuery } from '../../src/tools/sql-query.js';
import { createTestDatabase } from '../support/services.js';

const role = `reader_${randomBytes(5).toString('hex')}`;
let adminUrl = '';
let databaseUrl = '';

async function asAdmin<T>(use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

const query = (sql: string, more: Partial<Parameters<typeof runSqlQuery>[1]> = {}, signal?: AbortSignal) =>
  runSqlQuery(sql, { databaseUrl, schema: 'shop', rowLimit: 5, timeoutMs: 5_000, ...more }, signal);

beforeAll(async () => {
  adminUrl = (await createTestDatabase()).url;
  await asAdmin(async (client) => {
    await client.query(`
      create schema shop; create schema secret;
      create table shop.orders (id bigint, amount numeric(12,2), at date, note text, ok boolean, n int, f float8, j jsonb);
      insert into shop.orders values (9007199254740993, 1234.50, '2026-03-01', 'a', true, 7, 1.5, '{"b": 1, "a": [2]}');
      create table secret.cards (number text); insert into secret.cards values ('4111');
      create table public.notes (text text);
      create function shop.add_order() returns void language sql as $$ insert into shop.orders (n) values (1) $$`);
  });
  databaseUrl = await prepareDataRole(adminUrl, { schema: 'shop', role, password: "p'w:/?#@ d" });
});

afterAll(async () => {
  await asAdmin((client) => client.query(`drop owned by ${role}; drop role ${role}`));
});

describe('what it answers', () => {
  it('returns columns and rows, and keeps numeric, bigint and dates exact as text', async () => {
    expect(await query('select id, amount, at, note, ok, n, f, null as none from orders')).toEqual({
      columns: ['id', 'amount', 'at', 'note', 'ok', 'n', 'f', 'none'],
      rows: [['9007199254740993', '1234.50', '2026-03-01', 'a', true, 7, 1.5, null]],
      rowCount: 1,
      truncated: false,
    });
  });

  it('keeps two columns of one name apart, and gives JSON and infinities as text', async () => {
    const { columns, rows } = await query(`select 1 as a, 2 as a, j, 'infinity'::float8 as f from orders`);
    expect(columns).toEqual(['a', 'a', 'j', 'f']);
    expect(rows).toEqual([[1, 2, '{"a": [2], "b": 1}', 'Infinity']]);
  });

  it('gives only so many rows and says so, without touching the text of the query', async () => {
    const result = await query('select g from generate_series(1, 1000000) g -- the last line is a comment');
    expect(result).toMatchObject({ rowCount: 5, truncated: true, rows: [[1], [2], [3], [4], [5]] });
    expect(result.note).toContain('first 5 rows');
    expect(await query('select g from generate_series(1, 5) g;')).toMatchObject({ truncated: false, rowCount: 5 });
  });

  it('tells the model what is wrong with a query, and where', async () => {
    await expect(query('select amout from orders')).rejects.toThrow(
      /column "amout" does not exist.*character 8.*Hint: .*amount.*42703/,
    );
    await expect(query('selekt 1')).rejects.toThrow(/syntax error.*42601/);
    await expect(query('  ')).rejects.toThrow(/empty/);
    await expect(query('select 1\0 as x')).rejects.toThrow(/NUL/);
    await expect(query('-- nothing')).resolves.toMatchObject({ rows: [], note: expect.stringContaining('SELECT') });
  });
});

describe('what it refuses', () => {
  it.each([
    'select 1; select 2',
    'select 1; drop table shop.orders',
    'commit; drop table shop.orders',
    'set transaction read write; insert into orders (n) values (1)',
  ])('takes one statement only: %s', async (sql) => {
    await expect(query(sql)).rejects.toThrow(/multiple commands.*one statement/);
  });

  it.each([
    'insert into orders (n) values (1)',
    'with x as (insert into orders (n) values (1) returning n) select n from x',
    'update orders set n = 2',
    'delete from orders',
    'truncate orders',
    'drop table orders',
    'create table shop.mine (a int)',
    'create temp table mine (a int)',
    'create schema mine',
    'select add_order()',
    'select n into shop.copy from orders',
    'select * from orders for update',
    'copy orders from stdin',
    "copy orders to '/tmp/stolen'",
    "copy orders to program 'sh'",
    "select set_config('transaction_read_only', 'off', false), add_order()",
    'do $$ begin set transaction read write; insert into shop.orders (n) values (1); end $$',
    'do $$ begin set default_transaction_read_only = off; commit; insert into shop.orders (n) values (1); end $$',
    'do $$ begin commit; perform lo_create(77); end $$',
    'alter role current_user superuser',
    'alter system set work_mem = 1',
    'create extension dblink',
    'lock table orders in access exclusive mode',
    'vacuum orders',
  ])('changes nothing: %s', async (sql) => {
    await expect(query(sql)).rejects.toThrow();
    const after = await asAdmin((client) =>
      client.query(`select count(*)::int as n, (select count(*)::int from pg_largeobject_metadata) as lo,
        to_regclass('shop.mine') as mine, to_regclass('shop.copy') as copy from shop.orders`),
    );
    expect(after.rows).toEqual([{ n: 1, lo: 0, mine: null, copy: null }]);
  });

  it.each(['select lo_create(77)', "select pg_notify('pawl', 'x')"])('undoes what a reader may do: %s', async (sql) => {
    await asAdmin(async (client) => {
      const heard: unknown[] = [];
      client.on('notification', (message) => heard.push(message));
      await client.query('listen pawl');
      // Newer servers refuse the first outright.
      await query(sql).catch(() => {});
      const { rows } = await client.query('select count(*)::int as n from pg_largeobject_metadata');
      expect({ heard, rows }).toEqual({ heard: [], rows: [{ n: 0 }] });
    });
  });

  it.each([
    'select * from secret.cards',
    'select * from pawl.runs',
    'select * from bullmq.job',
    'select * from public.notes',
    'select rolpassword from pg_authid',
    "select pg_read_file('/etc/passwd')",
    "select pg_ls_dir('/')",
    "select lo_import('/etc/passwd')",
    'select * from postgres.pg_catalog.pg_class',
    'set role postgres',
    "set session authorization 'postgres'",
    'set session_preload_libraries = x',
    "select set_config('role', 'postgres', false)",
    'select pg_reload_conf()',
    "load 'auto_explain'",
  ])('sees nothing else: %s', async (sql) => {
    await expect(query(sql)).rejects.toThrow();
  });

  it('keeps nothing a statement set, for the next one', async () => {
    await query('set default_transaction_read_only = off');
    await query('set transaction read write').catch(() => {});
    await query('set statement_timeout = 0');
    await query('commit');
    await expect(query('insert into orders (n) values (1)')).rejects.toThrow(/read-only|permission denied/);
    await expect(query('select pg_sleep(60)', { timeoutMs: 200 })).rejects.toThrow(/timeout/);
  });

  it('refuses a role with powers of its own', async () => {
    await expect(query('select 1', { databaseUrl: adminUrl })).rejects.toThrow(/powers beyond reading/);
  });
});

describe('what bounds it', () => {
  it.each(['select pg_sleep(60)', 'do $$ begin loop perform 1; end loop; end $$'])('ends in time: %s', async (sql) => {
    const began = performance.now();
    await expect(query(sql, { timeoutMs: 300 })).rejects.toThrow(/timeout.*0\.3 s/);
    expect(performance.now() - began).toBeLessThan(2_500);
  });

  it('stops reading an answer that is too large', async () => {
    await expect(query("select repeat('x', 5000000)", { maxBytes: 100_000 })).rejects.toThrow(
      /larger than 100000 bytes/,
    );
  });

  it('ends the query on the server when the caller gives up', async () => {
    const stop = new AbortController();
    const running = query('select pg_sleep(600) as given_up', { timeoutMs: 600_000 }, stop.signal);
    running.catch(() => {});
    const alive = () =>
      asAdmin(async (client) => {
        const { rows } = await client.query(
          "select pid from pg_stat_activity where query like '%given_up' and usename = $1",
          [role],
        );
        return rows.length;
      });
    await expect.poll(alive, { timeout: 10_000 }).toBe(1);
    stop.abort(new Error('given up'));
    await expect(running).rejects.toThrow('given up');
    await expect.poll(alive, { timeout: 5_000 }).toBe(0);
    await expect(query('select 1', {}, stop.signal)).rejects.toThrow('given up');
  });

  it('never tells the password when the database is not there', async () => {
    const gone = new URL(databaseUrl);
    gone.port = '1';
    const error = await query('select 1', { databaseUrl: gone.href }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(String(error)).not.toContain("p'w");
  });
});

describe('the role', () => {
  it('is made again without harm, and reads tables made later', async () => {
    await prepareDataRole(adminUrl, { schema: 'shop', role, password: "p'w:/?#@ d" });
    await asAdmin((client) => client.query('create table shop.later as select 42 as n'));
    expect((await query('select n from later')).rows).toEqual([[42]]);
  });

  it('is refused where it would reach more than its schema', async () => {
    const other = `${role}_b`;
    await asAdmin((client) => client.query('grant select on public.notes to public'));
    await expect(prepareDataRole(adminUrl, { schema: 'shop', role: other, password: 'x' })).rejects.toThrow(
      /would reach more.*read public\.notes/,
    );
    await asAdmin((client) => client.query('revoke select on public.notes from public'));
  });

  it('is never the one that prepares, nor a superuser', async () => {
    const user = new URL(adminUrl).username;
    await expect(prepareDataRole(adminUrl, { schema: 'shop', role: user, password: 'x' })).rejects.toThrow(
      /role of its own/,
    );
  });
});
