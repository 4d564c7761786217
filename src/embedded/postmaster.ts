/**
 * The server process: what its pid file says, whether it is alive, how it is launched and reached. Postgres's own pid file
 * and shared memory are the lock that lets one server have a data folder; no second lock stands beside them.
 */
import { spawn } from 'node:child_process';
import { open, readFile, readlink, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { runAs, serverEnv } from './account.js';
import { isAlive } from './alive.js';
import type { Binaries } from './binaries.js';
import { readPassword } from './cluster.js';
import type { Home } from './home.js';

/** TCP on loopback only, and no Unix socket, whose path is limited to 107 bytes. What users wrote stays out of the log. */
const settings: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '64MB',
  max_wal_size: '256MB',
  min_wal_size: '32MB',
  fsync: 'on',
  synchronous_commit: 'on',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};
const logBytes = 5 << 20;

/**
 * The live server of this data folder, by its pid file; undefined when there is none. After a restart of the machine or
 * container the pid may be another program's, or a zombie nobody reaps; Postgres would take either for a server and refuse
 * to start, so such a file is removed. A server is known by its working folder, or where that is unknown by its name.
 */
export async function findPostmaster(dataDir: string): Promise<{ pid: number; port: number } | undefined> {
  const file = join(dataDir, 'postmaster.pid');
  const text = await readFile(file, 'utf8').catch(() => '');
  const lines = text.split('\n');
  const [pid, port] = [Number(lines[0]), Number(lines[3])];
  if (!(pid > 0 && port > 0)) return undefined;
  if ((await isAlive(pid)) && (await mayServe(pid, dataDir))) return { pid, port };
  if ((await readFile(file, 'utf8').catch(() => '')) === text) await rm(file, { force: true });
  return undefined;
}

async function mayServe(pid: number, dataDir: string): Promise<boolean> {
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  if (cwd !== undefined) return cwd === (await realpath(dataDir));
  const name = await runAs(undefined, 'ps', ['-o', 'comm=', '-p', String(pid)]);
  return name.code !== 0 || /postgres/.test(name.output);
}

/** Connects as the owner of everything; `application` is the name other sessions see. */
export async function connect(
  home: Home,
  port: number,
  application: string,
  database = 'postgres',
): Promise<pg.Client> {
  const password = await readPassword(home.dataDir);
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: 'pawl',
    password,
    database,
    ssl: false,
    application_name: application,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
  });
  client.on('error', () => {}); // a killed server must not take the process with it
  await client.connect();
  return client;
}

export interface Launched {
  pid: number;
  port: number;
  exited: () => boolean;
  /** What the server wrote since it was launched. */
  said: () => Promise<string>;
}

/** Starts a server in a session of its own: it outlives this process, and the terminal's Ctrl-C does not reach it. */
export async function launch(home: Home, binaries: Binaries, extra: Record<string, string>): Promise<Launched> {
  const path = join(home.path, 'server.log');
  const size = await stat(path)
    .then((found) => found.size)
    .catch(() => 0);
  const file = await open(path, size > logBytes ? 'w' : 'a', 0o600);
  const from = size > logBytes ? 0 : size;
  try {
    if (home.account) await file.chown(home.account.uid, home.account.gid);
    const port = await choosePort(home);
    const options = Object.entries({ ...settings, ...extra, port: String(port) }).flatMap(([k, v]) => [
      '-c',
      `${k}=${v}`,
    ]);
    const child = spawn(binaries.postgres, ['-D', home.dataDir, ...options], {
      ...home.account,
      cwd: home.account ? '/' : home.path,
      env: serverEnv(),
      stdio: ['ignore', file.fd, file.fd],
      detached: true,
      windowsHide: true,
    });
    let over = false;
    child.on('exit', () => (over = true));
    child.on('error', () => (over = true));
    child.unref();
    const said = async (): Promise<string> => (await readFile(path)).subarray(from).toString('utf8').trim();
    return { pid: child.pid ?? 0, port, exited: () => over, said };
  } finally {
    await file.close();
  }
}

/** The port of last time where it is free, so that who was connected finds a server again that died and was started anew. */
async function choosePort(home: Home): Promise<number> {
  const note = join(home.path, 'port');
  const last = Number(await readFile(note, 'utf8').catch(() => ''));
  const port = await freePort(last > 0 && last < 65_536 ? last : 0).catch(() => freePort(0));
  if (port !== last) await writeFile(note, `${port}\n`, { mode: 0o600 }).catch(() => {});
  return port;
}

/** A port that is free now. Should another program take it meanwhile, the server says so and is launched again. */
function freePort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
