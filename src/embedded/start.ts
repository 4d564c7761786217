import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { describeThrown, PawlError } from '../core/errors.js';
import { type Binaries, findBinaries } from './binaries.js';
import { adviceOn, ensureCluster, readPassword } from './cluster.js';
import { type Home, openHome } from './home.js';
import { connect, findPostmaster, launch } from './postmaster.js';
import { enter, hold, recordStarter, type Server, stopServer } from './presence.js';

/** How long a live server may take to answer (it may be replaying its log), and how long a vanishing one is waited for. */
const answerMs = 60_000;
const retryMs = 20_000;
const pauseMs = 50;

export interface EmbeddedOptions {
  /** The project's `.pawl` folder; made when missing. */
  dir: string;
  log?: (message: string) => void;
  /** Server settings beside the usual ones, as `-c` takes them. */
  settings?: Record<string, string>;
  /** Another copy of the npm package's `native` folder. */
  native?: string;
  /** For a process that lives long: a server that dies under it is started again, at the same URL. */
  revive?: boolean;
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

export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const log = options.log ?? (() => {});
  const home = await openHome(options.dir, log);
  let server = (await attach(home)) ?? (await attachOrStart(home, options, log));
  const password = await readPassword(home.dataDir);
  const createDatabase = async (name: string): Promise<string> => {
    await ensureDatabase(home, server.port, name);
    return `postgres://pawl:${password}@127.0.0.1:${server.port}/${encodeURIComponent(name)}`;
  };
  let stopped: Promise<void> | undefined;
  let reviving: Promise<void> = Promise.resolve();
  const stop = (): Promise<void> => {
    stopped ??= reviving.then(() => stopServer(home, server, log, options.native));
    return stopped;
  };
  const watch = (): void => {
    void server.ended.then(() => {
      if (stopped === undefined) reviving = revive();
    });
  };
  const revive = async (): Promise<void> => {
    try {
      server = await reviveServer(home, server, options, log);
      hold(server.presence, false);
      watch();
    } catch (error) {
      log(`the embedded database died and could not be started again: ${describeThrown(error)}`);
    }
  };
  try {
    const url = await createDatabase('pawl');
    hold(server.presence, false);
    if (options.revive === true) watch();
    return {
      url,
      started: server.started,
      pid: server.pid,
      dataDir: home.dataDir,
      home: home.path,
      createDatabase,
      stop,
    };
  } catch (error) {
    await stop();
    throw unreachable(home, describeThrown(error), error);
  }
}

/** Joins the server that runs; waits for one that is still starting. Undefined when none runs. */
async function attach(home: Home): Promise<Server | undefined> {
  const deadline = Date.now() + answerMs;
  for (;;) {
    const found = await findPostmaster(home.dataDir);
    if (found === undefined) return undefined;
    try {
      return { ...found, started: false, ...(await enter(home, found.port)) };
    } catch (error) {
      if (Date.now() > deadline || isRefusal(error)) throw unreachable(home, describeThrown(error), error);
    }
    await delay(pauseMs);
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

/** After the presence was cut off: joins the server if it lives on, or if another process was faster; else starts it. */
async function reviveServer(
  home: Home,
  lost: Server,
  options: EmbeddedOptions,
  log: (message: string) => void,
): Promise<Server> {
  const deadline = Date.now() + retryMs;
  const found = await joinOrStart(); // again where it was killed once more while it began
  if (found.pid === lost.pid) return { ...found, started: lost.started };
  log('the embedded database died and was started again');
  if (found.port !== lost.port) {
    log(`it has another port now, as ${lost.port} was taken: what was connected to it must be started again`);
  }
  return found;

  async function joinOrStart(): Promise<Server> {
    try {
      return (await attach(home)) ?? (await attachOrStart(home, options, log));
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(pauseMs * 5);
      return joinOrStart();
    }
  }
}

/** Launches a server and waits until it answers; returns what it said when it ended instead. */
async function start(home: Home, binaries: Binaries, settings: Record<string, string>): Promise<Server | string> {
  const launched = await launch(home, binaries, settings);
  const deadline = Date.now() + answerMs;
  for (;;) {
    if (launched.exited()) return (await launched.said()) || 'the server ended without a word';
    try {
      const entered = await enter(home, launched.port);
      await recordStarter(home);
      return { pid: launched.pid, port: launched.port, started: true, ...entered };
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

/** The server answers, but not to us: waiting does not help. */
function isRefusal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code !== undefined && /^28/.test(error.code);
}

function unreachable(home: Home, why: string, cause?: unknown): PawlError {
  const message = `The embedded Postgres in ${home.path} does not answer: ${why}\nIts log is ${join(home.path, 'server.log')}.`;
  return new PawlError('database_unreachable', `${message} ${adviceOn(why)}`, { cause });
}
