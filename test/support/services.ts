/**
 * What a test file asks for: a database of its own, a Redis database of its own, and the list of queue backends to run a
 * shared suite on. Everything made here is dropped after the file; a file that left a connection open fails.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { inject } from 'vitest';
import type { ServiceUrls } from './global-setup.js';

export type QueueBackend = 'postgres' | 'redis';

export interface TestDatabase {
  url: string;
  name: string;
  /** Empties a migrated one, its queue as well; fails when clients are still connected. */
  clear(): Promise<void>;
  /** Fails, after dropping it, when clients are still connected. Runs by itself after the file, too. */
  drop(): Promise<void>;
}

export interface TestRedis {
  url: string;
  /** Empties it; fails when clients are still connected. Runs by itself after the file, too. */
  drop(): Promise<void>;
}

/** How long a connection that was just closed may take to vanish from the server's list. */
const vanishMs = 2_000;
const undropped = new Set<() => Promise<void>>();

function services(): ServiceUrls {
  const found = inject('services') as ServiceUrls | undefined;
  if (found === undefined) throw new Error('this test needs services: it belongs outside test/core and test/unit');
  return found;
}

/** The backends a shared suite runs on; usable while tests are being collected. */
export function queueBackends(): QueueBackend[] {
  return services().redisUrl === null ? ['postgres'] : ['postgres', 'redis'];
}

/** A new database: migrated, or with `empty` as CREATE DATABASE leaves it. */
export async function createTestDatabase(options: { empty?: boolean } = {}): Promise<TestDatabase> {
  const { databaseUrl, template } = services();
  const name = `pawl_test_${randomBytes(6).toString('hex')}`;
  const from = template !== null && options.empty !== true ? ` TEMPLATE ${template}` : '';
  await admin(databaseUrl, (client) => client.query(`CREATE DATABASE ${name}${from}`));
  const url = new URL(databaseUrl);
  url.pathname = `/${name}`;
  const drop = once(() => admin(databaseUrl, (client) => dropDatabase(client, name)));
  return { url: url.href, name, clear: () => admin(url.href, (client) => clearDatabase(client, name)), drop };
}

/** For who needs many, one after the other: to make one and to drop it takes a checkpoint of the whole server each. */
async function clearDatabase(client: pg.Client, name: string): Promise<void> {
  failOnLeak(`database ${name}`, await clientsLeft(client, name));
  const { rows } = await client.query<{ tables: string }>(
    `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') AS tables FROM pg_tables
      WHERE schemaname IN ('pawl', 'bullmq') AND tablename !~ 'migration|version|instance'`,
  );
  await client.query(
    `TRUNCATE ${rows[0]?.tables} RESTART IDENTITY CASCADE; UPDATE pawl.instance SET queue_epoch = DEFAULT`,
  );
}

async function dropDatabase(client: pg.Client, name: string): Promise<void> {
  const left = await clientsLeft(client, name);
  await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  failOnLeak(`database ${name}`, left);
}

async function clientsLeft(client: pg.Client, name: string): Promise<string[]> {
  return eventuallyNone(async () => {
    const found = await client.query<{ application_name: string; state: string; query: string }>(
      `SELECT application_name, state, left(query, 200) AS query FROM pg_stat_activity
        WHERE datname = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      [name],
    );
    return found.rows.map((row) => `${row.application_name || '(no name)'}, ${row.state}: ${row.query}`);
  });
}

/** A Redis database number of its own. Fails where no Redis was found: ask `queueBackends` first. */
export async function createTestRedis(): Promise<TestRedis> {
  const { redisUrl } = services();
  if (redisUrl === null) throw new Error('no Redis was found: run this suite for each of queueBackends()');
  const client = await connectRedis(redisUrl);
  const databases = Number(((await client.config('GET', 'databases').catch(() => ['', '16'])) as string[])[1]);
  const number = 1 + ((await client.incr('pawl:test:databases')) % (databases - 1));
  client.disconnect();
  const url = new URL(redisUrl);
  url.pathname = `/${number}`;
  return { url: url.href, drop: once(() => emptyRedis(redisUrl, number)) };
}

async function emptyRedis(redisUrl: string, number: number): Promise<void> {
  const client = await connectRedis(redisUrl);
  const left = await eventuallyNone(async () => {
    const list = String(await client.client('LIST'));
    return list.split('\n').filter((line) => new RegExp(`\\bdb=${number}\\b`).test(line));
  });
  await client.select(number);
  await client.flushdb();
  client.disconnect();
  failOnLeak(`Redis database ${number}`, left);
}

/** Called after each test file by per-file.ts. */
export async function dropAll(): Promise<void> {
  const failures: unknown[] = [];
  for (const drop of [...undropped]) await drop().catch((error: unknown) => failures.push(error));
  if (failures.length > 0)
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, failures.join('\n'));
}

function once(drop: () => Promise<void>): () => Promise<void> {
  const run = async (): Promise<void> => {
    if (undropped.delete(run)) await drop();
  };
  undropped.add(run);
  return run;
}

async function eventuallyNone(list: () => Promise<string[]>): Promise<string[]> {
  const deadline = Date.now() + vanishMs;
  for (;;) {
    const left = await list();
    if (left.length === 0 || Date.now() > deadline) return left;
    await delay(20);
  }
}

function failOnLeak(what: string, left: string[]): void {
  if (left.length === 0) return;
  throw new Error(`${left.length} connection(s) to ${what} were left open:\n  ${left.join('\n  ')}`);
}

async function connectRedis(url: string): Promise<Redis> {
  const client = new Redis(url, { maxRetriesPerRequest: 1, lazyConnect: true, connectionName: 'pawl:test-support' });
  client.on('error', () => {}); // commands report it
  await client.connect();
  return client;
}

async function admin<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'pawl:test-support' });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
