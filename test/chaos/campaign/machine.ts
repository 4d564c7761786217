/** Where and of what a campaign was: the machine, and the commit of the code that was tried. */
import { execFile } from 'node:child_process';
import { cpus, release, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Meta } from './evidence.js';

const run = promisify(execFile);
const here = fileURLToPath(new URL('../../../', import.meta.url));

export function machineOf(postgres: string, redis: string | null): Meta['machine'] {
  const [first] = cpus();
  return {
    cpus: cpus().length,
    cpu: first?.model ?? 'unknown',
    memoryMb: Math.round(totalmem() / 2 ** 20),
    os: `${type()} ${release()}`,
    node: process.version,
    postgres,
    redis,
  };
}

/** With a `+` at its end when files of the code differ from it. */
export async function commitOf(root: string = here): Promise<string> {
  const git = (...args: string[]) => run('git', ['-C', root, ...args]).then(({ stdout }) => stdout.trim());
  try {
    const changed = await git('status', '--porcelain', '--', 'src', 'migrations', 'test/chaos');
    return `${await git('rev-parse', '--short=12', 'HEAD')}${changed === '' ? '' : '+'}`;
  } catch {
    return 'unknown';
  }
}
