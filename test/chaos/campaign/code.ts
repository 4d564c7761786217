/**
 * The code that is tried, as plain JavaScript: worker processes start in a third of the time that they need with a loader,
 * and none of them sees a file that somebody changes during the campaign. `root` is the folder of a repository, ours or a
 * copy with a sabotage in it.
 */
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const here = fileURLToPath(new URL('../../../', import.meta.url));

export interface Code {
  folder: string;
  /** A program, by its name without extension. */
  program(name: 'worker' | 'world' | 'victim'): string;
  wrongClock: string;
  remove(): Promise<void>;
}

/**
 * `root` must lie where `node_modules` and package.json of the project are found from; the copy is made under it.
 * `folder`: where in it the programs stand.
 */
export async function compile(root: string = here, folder = 'test/chaos/campaign'): Promise<Code> {
  const out = join(root, '.pawl', 'chaos', `code-${process.pid}-${Date.now()}`);
  const sources = (await Promise.all(['src', folder].map((part) => filesIn(join(root, part))))).flat();
  for (const source of sources) {
    const target = join(out, relative(root, source));
    await mkdir(dirname(target), { recursive: true });
    if (!source.endsWith('.ts')) await cp(source, target);
    else await writeFile(target.replace(/\.ts$/, '.js'), transpile(await readFile(source, 'utf8')));
  }
  await symlink(join(root, 'migrations'), join(out, 'migrations'));
  const programs = join(out, folder);
  return {
    folder: out,
    program: (name) => join(programs, `${name}.js`),
    wrongClock: join(programs, 'wrong-clock.mjs'),
    remove: () => rm(out, { recursive: true, force: true }),
  };
}

function transpile(text: string): string {
  const compilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  };
  return ts.transpileModule(text, { compilerOptions }).outputText;
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.flatMap((entry) => {
    const isCode = /\.(ts|mjs|json|csv|sql)$/.test(entry.name) && !/\.test\.ts$/.test(entry.name);
    return entry.isFile() && isCode ? [join(entry.parentPath, entry.name)] : [];
  });
}
