/**
 * Finds a Postgres and a Redis for the tests, each by itself: what TEST_DATABASE_URL / TEST_REDIS_URL name, else containers
 * where a Docker engine answers, else the embedded Postgres and a redis-server or valkey-server on PATH. What fails on the
 * way is reported, never passed over in silence. Whatever was started here is stopped here.
 */
import { spawn } from 'node:child_process';
import { access, chmod, constants, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { PostgreSqlContainer } from '@testcontainers/postgresql';
import { RedisContainer } from '@testcontainers/redis';
import { Redis } from 'ioredis';
import pg from 'pg';
import { startEmbedded } from '../../src/embedded/start.js';

/** A service found: its URL, a phrase on where it came from, and what must be done at the end of the run. */
export interface Found {
  url: string;
  origin: string;
  close: () => Promise<void>;
}

/** How many numbered databases a Redis of our own has; each test file takes one. */
const redisDatabases = 512;
/** The kill matrix plays many cases at once, each with workers of its own. */
const maxConnections = '300';

export async function findPostgres(problems: string[]): Promise<Found> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { url: given, origin: 'TEST_DATABASE_URL', close: async () => {} };
  return (await inContainer(problems, 'Postgres', postgresContainer)) ?? embeddedPostgres();
}

/** Undefined when there is none on this machine. */
export async function findRedis(problems: string[]): Promise<Found | undefined> {
  const given = process.env.TEST_REDIS_URL;
  if (given) return { url: given, origin: 'TEST_REDIS_URL', close: async () => {} };
  const container = await inContainer(problems, 'Redis', redisContainer);
  if (container !== undefined) return container;
  const program = (await onPath('redis-server')) ?? (await onPath('valkey-server'));
  return program === undefined ? undefined : redisProgram(program);
}

async function inContainer(problems: string[], name: string, start: () => Promise<Found>): Promise<Found | undefined> {
  if (!(await dockerAnswers())) return undefined;
  try {
    return await start();
  } catch (error) {
    problems.push(`a Docker engine answers, but gave no ${name} container: ${String(error)}`);
    return undefined;
  }
}

async function postgresContainer(): Promise<Found> {
  const image = 'postgres:18-alpine';
  const container = await new PostgreSqlContainer(image)
    .withDatabase('pawl')
    .withUsername('pawl')
    .withCommand(['postgres', '-c', `max_connections=${maxConnections}`])
    .start();
  return {
    url: container.getConnectionUri(),
    origin: `container ${image}`,
    close: async () => void (await container.stop()),
  };
}

async function redisContainer(): Promise<Found> {
  const image = 'redis:8-alpine';
  const container = await new RedisContainer(image).withCommand(['redis-server', ...redisSettings]).start();
  return {
    url: container.getConnectionUrl(),
    origin: `container ${image}`,
    close: async () => void (await container.stop()),
  };
}

/** Real settings, fsync included, unless PAWL_TEST_FSYNC=off. */
async function embeddedPostgres(): Promise<Found> {
  const dir = await mkdtemp(join(tmpdir(), 'pawl-test-'));
  await chmod(dir, 0o755); // ours to open: under root the server runs as another account
  const fsync: Record<string, string> = process.env.PAWL_TEST_FSYNC === 'off' ? { fsync: 'off' } : {};
  const settings = { max_connections: maxConnections, ...fsync };
  const server = await startEmbedded({ dir: join(dir, '.pawl'), settings }).catch(async (error: unknown) => {
    await rm(dir, { recursive: true, force: true });
    throw error;
  });
  const dismiss = sweepWhenKilled(server.pid, [server.home, dir]);
  const close = async (): Promise<void> => {
    await endSessions(server.url);
    await server.stop();
    await rm(server.home, { recursive: true, force: true });
    await rm(dir, { recursive: true, force: true });
    dismiss();
  };
  return { url: server.url, origin: 'embedded', close };
}

/**
 * A shell that waits for this process to vanish (its stdin then ends), and stops what a kill -9 of the run would leave
 * behind. Returns the way to send it home when the run ended as it should.
 */
function sweepWhenKilled(pid: number, folders: string[]): () => void {
  const script = 'read _; pid=$1; shift; kill -QUIT "$pid"; while kill -0 "$pid"; do sleep 0.1; done; rm -rf "$@"';
  const stdio = ['pipe', 'ignore', 'ignore'] as const;
  const shell = spawn('/bin/sh', ['-c', script, 'sh', String(pid), ...folders], { stdio: [...stdio], detached: true });
  shell.on('error', () => {}); // a machine without a shell goes without
  shell.unref();
  return () => void shell.kill('SIGKILL');
}

/** A test that left a session open has failed already; it must not keep the server running as well. */
async function endSessions(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'pawl:presence'`,
  );
  await client.end();
}

const redisSettings = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction'].concat([
  '--databases',
  String(redisDatabases),
]);

async function redisProgram(program: string): Promise<Found> {
  const dir = await mkdtemp(join(tmpdir(), 'pawl-test-redis-'));
  const port = await freePort();
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, ...redisSettings];
  const child = spawn(program, settings, { stdio: 'ignore' });
  const exited = new Promise<void>((resolve) => child.on('exit', () => resolve()));
  const dismiss = sweepWhenKilled(child.pid ?? 0, [dir]);
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { retryStrategy: (times) => (times > 100 ? null : 50), maxRetriesPerRequest: null });
  client.on('error', () => {}); // until it listens
  await client.ping();
  await client.quit();
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await exited;
    await rm(dir, { recursive: true, force: true });
    dismiss();
  };
  return { url, origin: program, close };
}

async function dockerAnswers(): Promise<boolean> {
  const host = process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock';
  if (host.startsWith('unix://')) return pings(host.slice('unix://'.length));
  return /^(tcp|http|https):\/\//.test(host) ? accepts(new URL(host)) : false;
}

function pings(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const ping = request({ socketPath, path: '/_ping', timeout: 1_000 }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    ping.on('timeout', () => ping.destroy());
    ping.on('error', () => resolve(false));
    ping.end();
  });
}

function accepts(url: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: url.hostname, port: Number(url.port || 2375), timeout: 1_000 });
    const end = (answer: boolean) => (): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', end(true)).on('timeout', end(false)).on('error', end(false));
  });
}

async function onPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, name);
    if (
      folder !== '' &&
      (await access(path, constants.X_OK).then(
        () => true,
        () => false,
      ))
    )
      return path;
  }
  return undefined;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
