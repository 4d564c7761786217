/**
 * The code that is tried, each program with all that it imports in a few files of plain JavaScript: a process that is killed
 * soon starts in a third of the time that it needs with a loader, and none of them sees a file that somebody changes during
 * the campaign. `root` is the folder of a repository, ours or a copy with a sabotage in it.
 */
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = fileURLToPath(new URL('../../../', import.meta.url));

export interface Code {
  folder: string;
  /** A program, by its name without extension. */
  program(name: string): string;
  wrongClock: string;
  remove(): Promise<void>;
}

const campaign = 'test/chaos/campaign';
const clock = 'wrong-clock.mjs';
/** Started as a thread, from beside whoever starts it. */
const thread = 'src/postgres/beat-thread.mjs';
/** Parts of packages that may be missing, and are done without then. */
const optional = ['msgpackr-extract', 'pg-native'];
/** For packages that are not written as modules. */
const banner = `import { createRequire as requireFrom } from 'node:module';
const [require, __filename, __dirname] = [requireFrom(import.meta.url), import.meta.filename, import.meta.dirname];`;

/** `root` must lie where `node_modules` of the project is found from; the programs are made under it. */
export async function compile(
  root: string = here,
  programs: readonly string[] = [`${campaign}/worker.ts`, `${campaign}/world.ts`],
): Promise<Code> {
  const chaos = join(root, '.pawl', 'chaos');
  await mkdir(chaos, { recursive: true });
  const out = await mkdtemp(join(chaos, 'code-'));
  // The thread and the migrations are found from here by the same paths as from the sources that name them.
  const place = join(out, 'src', 'postgres');
  await mkdir(place, { recursive: true });
  await build({
    entryPoints: [...programs, thread].map((path) => join(root, path)),
    outdir: place,
    entryNames: '[name]',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // What is loaded when it is needed stays apart.
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: optional,
    banner: { js: banner },
    // Errors are told apart by the names of their classes.
    keepNames: true,
    logLevel: 'error',
  });
  await cp(join(root, campaign, clock), join(out, clock));
  await symlink(join(root, 'migrations'), join(out, 'migrations'));
  return {
    folder: out,
    program: (name) => join(place, `${name}.mjs`),
    wrongClock: join(out, clock),
    remove: () => rm(out, { recursive: true, force: true }),
  };
}
