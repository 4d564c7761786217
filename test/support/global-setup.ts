/**
 * Runs once around the whole `services` project: finds the services, makes the migrated template database, tells the test
 * files where they are, and at the very end stops what was started and prints what was used.
 */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { connectQueue } from '../../src/bullmq/connect.js';
import { queuePoolSize } from '../../src/bullmq/postgres.js';
import { migrate } from '../../src/postgres/migrate.js';
import { type Found, findPostgres, findRedis } from './find-services.js';
import { quietLog } from './quiet-log.js';

/** What the test files are told; null stands for "there is none". */
export interface ServiceUrls {
  databaseUrl: string;
  /** The migrated database each test database is copied from. */
  template: string | null;
  redisUrl: string | null;
}

declare module 'vitest' {
  export interface ProvidedContext {
    services: ServiceUrls;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const lines: string[] = [];
  const started: Found[] = [];
  const close = async (): Promise<void> => {
    for (const found of started.reverse()) await found.close();
    process.stdout.write(`${lines.join('\n')}\n`);
  };
  try {
    const postgres = await findPostgres(lines);
    started.push(postgres);
    const redis = await findRedis(lines);
    if (redis !== undefined) started.push(redis);
    lines.push(await describePostgres(postgres), await describeRedis(redis));

    const template = await makeTemplate(postgres.url);
    if (template !== null) started.push({ ...postgres, close: () => dropTemplate(postgres.url, template) });
    project.provide('services', { databaseUrl: postgres.url, template, redisUrl: redis?.url ?? null });
    return close;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Migrations are applied once; every test file's database is a copy (about 50 ms). */
async function makeTemplate(adminUrl: string): Promise<string | null> {
  const name = `pawl_template_${randomBytes(4).toString('hex')}`;
  await admin(adminUrl, (client) => client.query(`CREATE DATABASE ${name}`));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  try {
    await migrate(url.href);
    await migrateQueue(url.href);
  } catch (error) {
    await dropTemplate(adminUrl, name);
    throw error;
  }
  // Closed to connections, so that not even autovacuum disturbs a copy.
  await admin(adminUrl, (client) => client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`));
  return name;
}

/** BullMQ's tables, for tests of the Postgres queue: a second or two in each database otherwise. */
async function migrateQueue(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: queuePoolSize(0), options: '-c search_path=bullmq' });
  const backend = await connectQueue({ kind: 'postgres', pool, queues: [], log: quietLog });
  await backend.close();
  await pool.end();
}

async function dropTemplate(adminUrl: string, name: string): Promise<void> {
  await admin(adminUrl, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
}

async function admin<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function describePostgres(found: Found): Promise<string> {
  const version = await admin(found.url, (client) => client.query<{ server_version: string }>('SHOW server_version'));
  return `Postgres ${version.rows[0]?.server_version}: ${found.origin}`;
}

async function describeRedis(found: Found | undefined): Promise<string> {
  if (found === undefined) {
    return (
      'Redis: none found, so the Redis half of the shared suites was not run. To run it, install redis-server or ' +
      'valkey-server\n(apt-get install redis-server, brew install redis), start Docker, or set TEST_REDIS_URL.'
    );
  }
  const client = new Redis(found.url, { maxRetriesPerRequest: 1 });
  client.on('error', () => {}); // the command below reports it
  const info = await client.info('server').finally(() => client.disconnect());
  return `Redis ${/redis_version:(\S+)/.exec(info)?.[1]}: ${found.origin}`;
}
