/**
 * The embedded Postgres of a project: attaches to the one that runs, else starts one. The story is startEmbedded; who
 * stops the server, and why nobody is cut off by it, stands at `stop`. Nothing else in Pawl knows this server is its own.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { describeThrown, PawlError } from '../core/errors.js';
import { runAs } from './account.js';
import { birthOf, isAlive } from './alive.js';
import { type Binaries, findBinaries } from './binaries.js';
import { ensureCluster, readPassword } from './cluster.js';
import { type Home, openHome } from './home.js';
import { connect, findPostmaster, launch } from './postmaster.js';

/** How long a live server may take to answer (it may be replaying its log), and how long a vanishing one is waited for. */
const answerMs = 60_000;
const retryMs = 20_000;
const pauseMs = 50;
/** Held shared by every user of the server for as long as it uses it; taken exclusively by whoever stops it. */
const useLock = 0x7061776c;

export interface EmbeddedOptions {
  /** The project's `.pawl` folder; made when missing. */
  dir: string;
  log?: (message: string) => void;
  /** Server settings beside the usual ones, as `-c` takes them. */
  settings?: Record<string, string>;
  /** Another copy of the npm package's `native` folder. */
  native?: string;
}

export interface EmbeddedPostgres {
  /** Of the database `pawl`, with the password in it. */
  url: string;
  /** False when it ran already. */
  started: boolean;
  pid: number;
  dataDir: string;
  /** The folder of everything that belongs to the server; with the server stopped it may be deleted. */
  home: string;
  /** Makes the database where it is missing; returns its URL. */
  createDatabase(name: string): Promise<string>;
  stop(): Promise<void>;
}

interface Server {
  pid: number;
  port: number;
  started: boolean;
  /** The connection that shows others that this process uses the server. */
  presence: pg.Client;
}

export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const log = options.log ?? (() => {});
  const home = await openHome(options.dir, log);
  const server = (await attach(home)) ?? (await attachOrStart(home, options, log));
  const password = await readPassword(home.dataDir);
  const createDatabase = async (name: string): Promise<string> => {
    await ensureDatabase(home, server.port, name);
    return `postgres://pawl:${password}@127.0.0.1:${server.port}/${encodeURIComponent(name)}`;
  };
  const url = await createDatabase('pawl');
  hold(server.presence, false);
  let stopped: Promise<void> | undefined;
  const stopOnce = (): Promise<void> => {
    stopped ??= stop(home, server, log, options.native);
    return stopped;
  };
  const { pid, started } = server;
  return { url, started, pid, dataDir: home.dataDir, home: home.path, createDatabase, stop: stopOnce };
}

/** Joins the server that runs; waits for one that is still starting. Undefined when none runs. */
async function attach(home: Home): Promise<Server | undefined> {
  const deadline = Date.now() + answerMs;
  for (;;) {
    const found = await findPostmaster(home.dataDir);
    if (found === undefined) return undefined;
    try {
      return { ...found, started: false, presence: await enter(home, found.port) };
    } catch (error) {
      if (Date.now() > deadline || isRefusal(error)) throw unreachable(home, describeThrown(error), error);
    }
    await delay(pauseMs);
  }
}

/** Connects and takes the shared lock. A server that is being stopped never grants it: it cuts the connection instead. */
async function enter(home: Home, port: number): Promise<pg.Client> {
  const client = await connect(home, port, 'pawl:presence');
  try {
    await client.query('SELECT pg_advisory_lock_shared($1)', [useLock]);
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

/**
 * Postgres lets one server have the folder; a starter that loses finds the winner at the next turn. After a killed server
 * its children may hold the shared memory for some seconds, so those refusals are retried, all others are final.
 */
async function attachOrStart(home: Home, options: EmbeddedOptions, log: (message: string) => void): Promise<Server> {
  const binaries = await findBinaries(home, options.native);
  await ensureCluster(home, binaries, log);
  const deadline = Date.now() + retryMs;
  for (;;) {
    const outcome = await start(home, binaries, options.settings ?? {});
    if (typeof outcome !== 'string') return outcome;
    const passing =
      /lock file ".*" (already exists|is empty)|is still in use|could not create any TCP|Address already in use/;
    if (!passing.test(outcome) || Date.now() > deadline) throw unreachable(home, outcome);
    const running = await attach(home);
    if (running !== undefined) return running;
    await delay(pauseMs * 5);
  }
}

/** Launches a server and waits until it answers; returns what it said when it ended instead. */
async function start(home: Home, binaries: Binaries, settings: Record<string, string>): Promise<Server | string> {
  const launched = await launch(home, binaries, settings);
  const deadline = Date.now() + answerMs;
  for (;;) {
    if (launched.exited()) return (await launched.said()) || 'the server ended without a word';
    try {
      const presence = await enter(home, launched.port);
      await recordStarter(home);
      return { pid: launched.pid, port: launched.port, started: true, presence };
    } catch (error) {
      if (Date.now() > deadline) throw unreachable(home, describeThrown(error), error);
    }
    await delay(pauseMs);
  }
}

async function ensureDatabase(home: Home, port: number, name: string): Promise<void> {
  const client = await connect(home, port, 'pawl:create-database');
  try {
    const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    if (found.rowCount === 0) await client.query(`CREATE DATABASE ${pg.escapeIdentifier(name)}`);
  } catch (error) {
    const code = error instanceof pg.DatabaseError ? error.code : undefined;
    if (code !== '42P04' && code !== '23505') throw error; // another process made it at the same time
  } finally {
    await client.end();
  }
}

/**
 * The starter stops the server, and so does the last user of a server whose starter is gone or left it to others. Both give up their shared lock
 * and try for the exclusive one: it is refused while another process uses the server, and while it is held nobody can
 * join. Sessions that hold no lock (a worker given the URL, psql) are counted; closed ones may take a moment to vanish.
 */
async function stop(home: Home, server: Server, log: (message: string) => void, native?: string): Promise<void> {
  hold(server.presence, true);
  let presence = server.presence;
  try {
    if (!server.started && (await starterLives(home))) return;
    const lost = await presence.query('SELECT 1').then(
      () => false,
      () => true,
    );
    if (lost) presence = await connect(home, server.port, 'pawl:presence');
    await presence.query('SELECT pg_advisory_unlock_shared($1)', [useLock]);
    const locked = await presence.query<{ ok: boolean }>('SELECT pg_try_advisory_lock($1) AS ok', [useLock]);
    const others = locked.rows[0]?.ok === true ? await countOthers(presence) : 1;
    if (others > 0) {
      await rm(join(home.path, 'starter'), { force: true }); // the last of them stops it
      return log('the embedded database goes on running: others are connected to it');
    }
    const { pgCtl } = await findBinaries(home, native);
    // Without -w: pg_ctl waits for the pid file, which the next starter may write before pg_ctl looks again.
    const ended = await runAs(home.account, pgCtl, ['stop', '-D', home.dataDir, '-m', 'fast', '-W']);
    if (ended.code !== 0 || !(await dies(server.pid))) log(`the embedded database did not stop: ${ended.output}`);
  } catch (error) {
    if (await isAlive(server.pid)) log(`the embedded database was left running: ${describeThrown(error)}`);
  } finally {
    await presence.end().catch(() => {});
  }
}

async function dies(pid: number): Promise<boolean> {
  const deadline = Date.now() + answerMs;
  while (await isAlive(pid)) {
    if (Date.now() > deadline) return false;
    await delay(pauseMs / 5);
  }
  return true;
}

async function countOthers(client: pg.Client): Promise<number> {
  const deadline = Date.now() + 1_000;
  for (;;) {
    const found = await client.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    );
    const others = found.rows[0]?.n ?? 0;
    if (others === 0 || Date.now() > deadline) return others;
    await delay(pauseMs);
  }
}

/** Notes who has to stop the server, in place of whoever started it before. */
async function recordStarter(home: Home): Promise<void> {
  const draft = join(home.path, `starter-${randomBytes(4).toString('hex')}`);
  await writeFile(draft, `${process.pid} ${await birthOf(process.pid)}\n`, { flag: 'wx', mode: 0o600 });
  await rename(draft, join(home.path, 'starter'));
}

async function starterLives(home: Home): Promise<boolean> {
  const [pid, born] = (await readFile(join(home.path, 'starter'), 'utf8').catch(() => '')).trim().split(' ');
  return pid !== undefined && (await isAlive(Number(pid))) && born === (await birthOf(Number(pid)));
}

/** Whether the presence connection keeps this process alive: only while it is spoken on. */
function hold(client: pg.Client, on: boolean): void {
  const socket = client as pg.Client & { ref(): void; unref(): void };
  if (on) socket.ref();
  else socket.unref();
}

/** The server answers, but not to us: waiting does not help. */
function isRefusal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code !== undefined && /^28/.test(error.code);
}

function unreachable(home: Home, why: string, cause?: unknown): PawlError {
  const message = `The embedded Postgres in ${home.path} does not answer: ${why}\nIts log is ${join(home.path, 'server.log')}.`;
  return new PawlError('database_unreachable', `${message} Set DATABASE_URL to use a Postgres of your own.`, { cause });
}
