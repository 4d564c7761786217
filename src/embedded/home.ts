/**
 * Where the server's files live: `<dir>/postgres` when the server's account can reach it, else a folder of its own under
 * /var/tmp named by the project path's hash (a 0700 folder above closes the project to that account). Only folders made
 * here are ever given an owner or a mode; a user's own are left as they are.
 */
import { createHash } from 'node:crypto';
import { chmod, chown, lstat, mkdir, realpath, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PawlError } from '../core/errors.js';
import { type Account, chooseAccount, runAs } from './account.js';

export interface Home {
  path: string;
  dataDir: string;
  account: Account;
}

/** Finds the home of the project's database, or makes one. `dir` is the project's `.pawl` folder. */
export async function openHome(dir: string, log: (message: string) => void): Promise<Home> {
  const project = await makeDir(dir);
  const inside = join(project, 'postgres');
  const account = await chooseAccount(join(inside, 'data'));
  const outside = outsidePath(project, account);
  const home = (path: string): Home => ({ path, dataDir: join(path, 'data'), account });

  if (await exists(join(inside, 'data'))) {
    const obstacle = await whyUnusable(inside, account);
    if (obstacle === undefined) return home(inside);
    throw new PawlError(
      'database_unreachable',
      `The embedded database in ${inside} cannot be used: ${obstacle}. Run Pawl as the user who made it, move that ` +
        'folder away to begin with an empty database, or set DATABASE_URL.',
    );
  }
  if (!(await exists(join(outside, 'data'))) && (await makeHome(inside, account)) === undefined) return home(inside);
  const obstacle = await makeHome(outside, account);
  if (obstacle !== undefined) {
    throw new PawlError(
      'database_unreachable',
      `The embedded Postgres found no folder it can use: neither ${inside} nor ${outside} (${obstacle}). ` +
        'Set DATABASE_URL to a Postgres of your own.',
    );
  }
  await leaveNote(project, outside, log);
  return home(outside);
}

/** Makes `.pawl` where it is missing; under root a new one goes to the owner of the folder it stands in. */
async function makeDir(dir: string): Promise<string> {
  const path = resolve(dir);
  try {
    const made = await mkdir(path, { recursive: true });
    if (made !== undefined && process.getuid?.() === 0) {
      const parent = await lstat(dirname(made));
      for (let each = path; each.length >= made.length; each = dirname(each)) await chown(each, parent.uid, parent.gid);
    }
    return await realpath(path);
  } catch {
    return path; // a read-only project: the home goes outside
  }
}

function outsidePath(project: string, account: Account): string {
  const uid = account?.uid ?? process.getuid?.() ?? 0;
  const base = process.platform === 'win32' ? tmpdir() : '/var/tmp';
  return join(base, `pawl-${uid}-${createHash('sha256').update(project).digest('hex').slice(0, 16)}`);
}

/** Makes the folder and checks it; takes it away again when it turns out unusable. Returns what is wrong with it. */
async function makeHome(path: string, account: Account): Promise<string | undefined> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
    return isThere ? whyForeign(path, account) : String(error);
  }
  await chmod(path, 0o700);
  if (account !== undefined) await chown(path, account.uid, account.gid);
  const obstacle = await whyUnusable(path, account);
  if (obstacle !== undefined) await rmdir(path).catch(() => {});
  return obstacle;
}

/** As whyUnusable, for a folder another starter may have made a moment ago and not yet handed to the account. */
async function whyForeign(path: string, account: Account): Promise<string | undefined> {
  const deadline = Date.now() + 500;
  for (;;) {
    const obstacle = await whyUnusable(path, account);
    if (obstacle === undefined || account === undefined || Date.now() > deadline) return obstacle;
    await delay(20);
  }
}

/**
 * Checks as the server's own account, not by computing from modes: ACLs, mounts and file systems without modes decide too.
 * Someone else's folder, link or wider mode is refused, as anyone may create names under /var/tmp.
 */
async function whyUnusable(path: string, account: Account): Promise<string | undefined> {
  if (!isBearable(path)) return 'its path holds a character that the Postgres programs cannot bear';
  const found = await lstat(path).catch((error: unknown) => String(error));
  if (typeof found === 'string') return found;
  if (!found.isDirectory()) return 'it is not a folder';
  if (process.platform === 'win32') return undefined;
  const uid = account?.uid ?? process.getuid?.();
  if (found.uid !== uid) return `it belongs to uid ${found.uid}, not to ${uid}`;
  if ((found.mode & 0o777) !== 0o700) return `its mode is ${(found.mode & 0o777).toString(8)}, not 700`;
  const probe = await runAs(account, '/bin/sh', ['-c', 'cd "$1" && : >.probe-$$ && rm .probe-$$', 'sh', path]);
  return probe.code === 0 ? undefined : `uid ${uid} cannot write there: ${probe.output.split('\n')[0]}`;
}

/** initdb starts its siblings through a shell and puts their paths between double quotes as they are. */
export function isBearable(path: string): boolean {
  return process.platform === 'win32' || !/[\r\n"$`\\]/.test(path);
}

async function leaveNote(project: string, outside: string, log: (message: string) => void): Promise<void> {
  const text =
    `The embedded database of this project lives in\n  ${outside}\n` +
    'because the account that runs it cannot use this folder. Delete that folder (with the server stopped) to begin\n' +
    'anew. The system may clear it after some weeks without use; set DATABASE_URL for data that must stay.\n';
  log(`the embedded database lives in ${outside}, as its account cannot use ${project}`);
  await writeFile(join(project, 'where-the-database-is.txt'), text).catch(() => {});
}

/** A folder closed to us may well hold data: only a plain "no such file" counts as absent. */
async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR'));
  }
}
