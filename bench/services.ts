/**
 * Postgres and Redis for the bench alone, with stated settings, on the disk of the temporary folder. A database and an empty
 * Redis for each measurement.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { startEmbedded } from '../src/embedded/start.js';
import { freePort } from './free-port.js';
import type { Services } from './measures/task.js';

export const postgresSettings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  max_connections: '200',
  // What is measured is work, not its clean-up: bytes are counted before any vacuum.
  autovacuum: 'off',
  shared_preload_libraries: 'pg_stat_statements',
};

export const redisSettings = { appendonly: 'yes', appendfsync: 'everysec', save: '', 'maxmemory-policy': 'noeviction' };

export interface BenchServices {
  versions: { postgres: string; redis: string };
  pids: { postgresPid: number; redisPid: number };
  /** A new database and an empty Redis. */
  fresh(): Promise<Services & { drop(): Promise<void> }>;
  stop(): Promise<void>;
}

export async function startServices(): Promise<BenchServices> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'));
  // The server may run as another account, which has to reach its data.
  await chmod(folder, 0o755);
  const postgres = await startEmbedded({ dir: join(folder, '.pawl'), settings: postgresSettings });
  const redis = await startRedis(folder);
  const admin = new pg.Client(postgres.url);
  await admin.connect();
  const { rows } = await admin.query<{ server_version: string }>('show server_version');
  let made = 0;
  return {
    versions: { postgres: rows[0]?.server_version ?? 'unknown', redis: redis.version },
    pids: { postgresPid: postgres.pid, redisPid: redis.pid },
    async fresh() {
      const name = `bench_${++made}`;
      await admin.query(`create database ${name}`);
      await redis.client.flushall();
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      const drop = async () => {
        await admin.query(`drop database ${name} with (force)`);
      };
      return { databaseUrl: url.href, redisUrl: redis.url, drop };
    },
    async stop() {
      await admin.end();
      await redis.stop();
      await postgres.stop();
      await rm(postgres.home, { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startRedis(folder: string) {
  const port = await freePort();
  const settings = Object.entries(redisSettings).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, ...settings], {
    stdio: 'ignore',
  });
  const gone = once(child, 'exit');
  const failed = once(child, 'error').then(([error]: unknown[]) => {
    throw new Error(
      `redis-server cannot be started: ${String(error)}. Install it (Debian: apt-get install redis-server).`,
    );
  });
  failed.catch(() => {});
  const end = () => child.kill('SIGKILL');
  process.on('exit', end);
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
  client.on('error', () => {});
  await Promise.race([client.ping(), failed]);
  const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown';
  return {
    url,
    client,
    version,
    pid: child.pid ?? 0,
    async stop() {
      client.disconnect();
      child.kill('SIGTERM');
      await gone;
      process.off('exit', end);
    },
  };
}
