/**
 * Project folders for the tests of the embedded Postgres, servers in them, and children that use them from processes of
 * their own. Everything made here is stopped and removed after each test.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, lstat, mkdtemp, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import pg from 'pg';
import { afterEach } from 'vitest';
import { isAlive } from '../../src/embedded/alive.js';
import { locatePackage } from '../../src/embedded/binaries.js';
import { type EmbeddedOptions, type EmbeddedPostgres, startEmbedded } from '../../src/embedded/start.js';
import type { Order, Refusal, Report } from './child.js';

export const isRoot = process.getuid?.() === 0;
const folders = new Set<string>();
const pids = new Set<number>();
const handles = new Set<EmbeddedPostgres>();
const children = new Set<ChildProcess>();

/** A folder to hold a `.pawl`. Open to all by default; mktemp's own mode is 0700. */
export async function makeProject(mode = 0o755): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'pawl-embedded-'));
  folders.add(dir);
  await chmod(dir, mode);
  return dir;
}

export async function start(dir: string, options: Partial<EmbeddedOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbedded({ dir: join(dir, '.pawl'), ...options });
  remember(server);
  handles.add(server);
  return server;
}

function remember(server: { home: string; pid: number }): void {
  folders.add(server.home);
  pids.add(server.pid);
}

/** The npm package's programs, without the links its install script would have made. */
export async function copyPackageWithoutLinks(): Promise<string> {
  const dir = await makeProject();
  await cp(join(locatePackage(), '..', 'package.json'), join(dir, 'package.json'));
  const native = join(dir, 'native');
  const isNoLink = async (path: string): Promise<boolean> => !(await lstat(path)).isSymbolicLink();
  await cp(locatePackage(), native, { recursive: true, filter: isNoLink });
  return native;
}

export interface Child {
  process: ChildProcess;
  /** What startEmbedded returned there. */
  server: Report;
  /** Calls stop() there and waits for the process to end. */
  stop(): Promise<void>;
}

export function spawnChild(order: Order): ChildProcess {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const script = fileURLToPath(new URL('child.ts', import.meta.url));
  const child = fork(script, [JSON.stringify(order)], {
    execArgv: ['--import', tsx],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.add(child);
  return child;
}

/** Starts or attaches in a process of its own; `plain` drops root there before anything is touched. */
export async function startInChild(order: Order): Promise<Child> {
  const child = spawnChild(order);
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`the child ended with ${code}`))),
  ])) as [Report | Refusal];
  if ('refused' in message) throw new Error(message.refused);
  remember(message);
  const stop = async (): Promise<void> => {
    const ended = once(child, 'exit');
    child.send('stop');
    await ended;
  };
  return { process: child, server: message, stop };
}

export async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // a server killed on purpose
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

export async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

/** Waits for a condition no event tells of, such as the death of a process that is not our child. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await delay(5);
  }
}

afterEach(async () => {
  for (const child of children) if (child.exitCode === null && child.signalCode === null) await kill(child);
  for (const server of handles) await server.stop();
  for (const pid of pids) if (await isAlive(pid)) process.kill(pid, 'SIGQUIT');
  for (const pid of pids) await until(`the end of server ${pid}`, async () => !(await isAlive(pid)));
  for (const dir of folders) await rm(dir, { recursive: true, force: true });
  for (const each of [folders, pids, handles, children]) each.clear();
});
