/**
 * Which account the server runs as, and how its programs are run. Postgres refuses root, so under root it runs as an
 * unprivileged account; otherwise as whoever runs Pawl. Never changes an account or the rights of an existing folder.
 */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PawlError } from '../core/errors.js';

/** `undefined` stands for "the account Pawl itself runs as". */
export type Account = { uid: number; gid: number } | undefined;

/** How a program ended: `code` is null when it could not be run at all; `output` is stdout, then stderr. */
export interface Ended {
  code: number | null;
  output: string;
}

/**
 * A small environment of our own: no PG* variable, preloaded library or foreign locale of the caller's reaches the server,
 * and its messages stay in English, which the recovery rules read.
 */
export function serverEnv(): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH ?? '', LC_ALL: 'C' };
  if (process.platform !== 'win32') env.PATH += ':/usr/bin:/bin';
  for (const name of ['SystemRoot', 'TEMP', 'TMP']) if (process.env[name] !== undefined) env[name] = process.env[name];
  return env;
}

/** Runs a program to its end as `account`. Its working folder is `/`: the caller's may be closed to that account. */
export function runAs(account: Account, file: string, args: readonly string[]): Promise<Ended> {
  const options = { cwd: process.platform === 'win32' ? undefined : '/', env: serverEnv(), ...account };
  return new Promise((resolve) => {
    try {
      execFile(file, [...args], { ...options, maxBuffer: 4 << 20 }, (error, stdout, stderr) => {
        const output = `${stdout}${stderr}`.trim();
        if (error === null) return resolve({ code: 0, output });
        resolve({ code: typeof error.code === 'number' ? error.code : null, output: output || error.message });
      });
    } catch (thrown) {
      resolve({ code: null, output: String(thrown) });
    }
  });
}

/**
 * Under root: the owner of existing data, else the owner of the project (so that `sudo` leaves data its user can use),
 * else `nobody`. An account must be known to the system by name, or initdb refuses it.
 */
export async function chooseAccount(dataDir: string): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined;
  const data = await ownerOf(dataDir);
  if (data !== undefined && data.uid !== 0) return data;
  const owner = await nearestOwner(dirname(dataDir));
  if (owner.uid !== 0 && (await runAs(undefined, 'id', ['-un', String(owner.uid)])).code === 0) return owner;
  const uid = await runAs(undefined, 'id', ['-u', 'nobody']);
  const gid = await runAs(undefined, 'id', ['-g', 'nobody']);
  if (uid.code === 0 && gid.code === 0) return { uid: Number(uid.output), gid: Number(gid.output) };
  throw new PawlError(
    'database_unreachable',
    'The embedded Postgres cannot run as root, and this system has no account "nobody" to run it as. ' +
      'Run Pawl as another user, or set DATABASE_URL to a Postgres of your own.',
  );
}

async function ownerOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found && { uid: found.uid, gid: found.gid };
}

async function nearestOwner(path: string): Promise<{ uid: number; gid: number }> {
  const found = await ownerOf(path);
  if (found !== undefined) return found;
  const parent = dirname(path);
  return parent === path ? { uid: 0, gid: 0 } : nearestOwner(parent);
}
