/**
 * Who uses the server, and who stops it. Every process that uses it holds a lock in it, so that nobody stops it under
 * another and nobody joins while it is being stopped; what is left running by its starter is stopped by its last user.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { describeThrown } from '../core/errors.js';
import { runAs } from './account.js';
import { birthOf, isAlive } from './alive.js';
import { findBinaries } from './binaries.js';
import type { Home } from './home.js';
import { connect } from './postmaster.js';

/** Held shared by every user of the server for as long as it uses it; taken exclusively by whoever stops it. */
const useLock = 0x7061776c;
const pauseMs = 20;
/** How long a server told to stop may take, and a session that was just closed to vanish. */
const stopMs = 60_000;
const vanishMs = 1_000;

export interface Server {
  pid: number;
  port: number;
  started: boolean;
  /** The connection that shows others that this process uses the server. */
  presence: pg.Client;
  /** Resolves when that connection has ended, whoever ended it. */
  ended: Promise<void>;
}

/** Connects and takes the shared lock. A server that is being stopped never grants it: it cuts the connection instead. */
export async function enter(home: Home, port: number): Promise<Pick<Server, 'presence' | 'ended'>> {
  const client = await connect(home, port, 'pawl:presence');
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  try {
    await client.query('SELECT pg_advisory_lock_shared($1)', [useLock]);
    return { presence: client, ended };
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

/**
 * The starter stops the server, and so does the last user of a server whose starter is gone or left it to others. Both give up their shared lock
 * and try for the exclusive one: it is refused while another process uses the server, and while it is held nobody can
 * join. Sessions that hold no lock (a worker given the URL, psql) are counted; closed ones may take a moment to vanish.
 */
export async function stopServer(
  home: Home,
  server: Server,
  log: (message: string) => void,
  native?: string,
): Promise<void> {
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
  const deadline = Date.now() + stopMs;
  while (await isAlive(pid)) {
    if (Date.now() > deadline) return false;
    await delay(pauseMs);
  }
  return true;
}

async function countOthers(client: pg.Client): Promise<number> {
  const deadline = Date.now() + vanishMs;
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
export async function recordStarter(home: Home): Promise<void> {
  const draft = join(home.path, `starter-${randomBytes(4).toString('hex')}`);
  await writeFile(draft, `${process.pid} ${await birthOf(process.pid)}\n`, { flag: 'wx', mode: 0o600 });
  await rename(draft, join(home.path, 'starter'));
}

async function starterLives(home: Home): Promise<boolean> {
  const [pid, born] = (await readFile(join(home.path, 'starter'), 'utf8').catch(() => '')).trim().split(' ');
  return pid !== undefined && (await isAlive(Number(pid))) && born === (await birthOf(Number(pid)));
}

/** Whether the presence connection keeps this process alive: only while it is spoken on. */
export function hold(client: pg.Client, on: boolean): void {
  const socket = client as pg.Client & { ref(): void; unref(): void };
  if (on) socket.ref();
  else socket.unref();
}
