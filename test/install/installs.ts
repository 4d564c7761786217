/**
 * What a user does with the packed package: packs it, makes an empty folder, installs into it, runs commands there. npm
 * takes what it can from its cache; the versions of what Pawl depends on are those of this clone's lock file.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const clone = fileURLToPath(new URL('../../', import.meta.url));

export interface Ended {
  exit: number | null;
  out: string;
  err: string;
}

export interface Running {
  /** Resolves when the text has been written to stderr; rejects when the command ends before. */
  says(text: string): Promise<void>;
  /** As a terminal's Ctrl-C: to the command and whatever it started. */
  interrupt(): Promise<Ended>;
}

/** Nothing of this run's own settings reaches the commands, but where npm finds its registry and its cache. */
const ownSettings =
  /^(npm_(?!config_(cache|registry|userconfig)$)|PAWL_|OPENAI_|DATABASE_URL$|REDIS_URL$|NODE_|VITEST)/i;
const cleanEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => name === 'NODE_EXTRA_CA_CERTS' || !ownSettings.test(name)),
);

const folders = new Set<string>();
const running = new Set<ChildProcess>();

/** An empty folder that every account may enter, as the embedded Postgres of root does. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'pawl-install-'));
  folders.add(folder);
  chmodSync(folder, 0o755);
  return folder;
}

/** The clone as git has it, in a folder of its own; without its packages. */
export function copyClone(): string {
  const folder = makeFolder();
  const parts = ['bin', 'data', 'migrations', 'src', 'package.json', 'package-lock.json', '.npmrc', 'tsconfig.json'];
  for (const part of [...parts, 'tsconfig.build.json', 'README.md', 'CHANGELOG.md', 'LICENSE', 'drizzle.config.ts']) {
    cpSync(join(clone, part), join(folder, part), { recursive: true });
  }
  return folder;
}

/** Packs a copy of the clone, so that this one's dist stays as it is. */
export async function pack(): Promise<{ tarball: string; bytes: number; files: string[] }> {
  const folder = copyClone();
  symlinkSync(join(clone, 'node_modules'), join(folder, 'node_modules'));
  const { out } = await mustSucceed('npm', ['pack', '--json', '--silent'], folder);
  const packed: unknown = JSON.parse(out.slice(out.search(/^[[{]/m)));
  // An array up to npm 11, an object by package name after it.
  const [only] = Object.values(packed as Record<string, { filename: string; size: number; files: { path: string }[] }>);
  if (only === undefined) throw new Error(`npm packed nothing: ${out}`);
  return { tarball: join(folder, only.filename), bytes: only.size, files: only.files.map(({ path }) => path) };
}

/** Installs the package into an empty folder of somebody's, whose files are the ones given. */
export async function installInto(files: Record<string, string>, tarball: string, flags: string[]): Promise<string> {
  const folder = makeFolder();
  const lock = JSON.parse(readFileSync(join(clone, 'package-lock.json'), 'utf8'));
  const packages: [string, { dev?: boolean }][] = Object.entries(lock.packages);
  const known = packages.filter(([path, { dev }]) => path !== '' && dev !== true);
  writeFileSync(join(folder, 'package.json'), '{}');
  writeFileSync(
    join(folder, 'package-lock.json'),
    JSON.stringify({ lockfileVersion: 3, requires: true, packages: Object.fromEntries([['', {}], ...known]) }),
  );
  await mustSucceed('npm', ['install', ...quietly, ...flags, tarball], folder);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

export const quietly = ['--prefer-offline', '--no-audit', '--no-fund'];

export async function mustSucceed(program: string, args: string[], folder: string): Promise<Ended> {
  const ended = await run(program, args, folder);
  if (ended.exit === 0) return ended;
  throw new Error(`${program} ${args.join(' ')} ended with ${ended.exit}:\n${ended.err}${ended.out}`);
}

export function run(program: string, args: string[], folder: string, env: Record<string, string> = {}): Promise<Ended> {
  return begin(program, args, folder, env).ended;
}

export function start(program: string, args: string[], folder: string, env: Record<string, string> = {}): Running {
  const { child, ended, says } = begin(program, args, folder, env);
  const interrupt = (): Promise<Ended> => {
    signalGroup(child, 'SIGINT');
    return ended;
  };
  return { says, interrupt };
}

function begin(program: string, args: string[], cwd: string, env: Record<string, string>) {
  const child = spawn(program, args, {
    cwd,
    env: { ...cleanEnv, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  running.add(child);
  let [out, err] = ['', ''];
  const heard: (() => void)[] = [];
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
    for (const check of heard) check();
  });
  const ended = once(child, 'close').then(([exit]: (number | null)[]): Ended => {
    running.delete(child);
    for (const check of heard) check();
    return { exit: exit ?? null, out, err };
  });
  const says = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (err.includes(text)) resolve();
        else if (!running.has(child)) reject(new Error(`it ended without saying ${text}:\n${err}${out}`));
      };
      heard.push(check);
      check();
    });
  return { child, ended, says };
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined) process.kill(-child.pid, signal);
}

/** After each file: ends what still runs, removes the folders. */
export async function clear(): Promise<void> {
  for (const child of running) {
    const gone = once(child, 'close');
    signalGroup(child, 'SIGKILL');
    await gone;
  }
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  folders.clear();
}
