/** Every command that breaks things by hand prints its options, and begins nothing where one is not among them. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const { scripts } = JSON.parse(await readFile(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> };
const commands = Object.entries(scripts).flatMap(([name, script]) => {
  const [, file] = /^tsx (test\/(?:chaos|interleavings)\/\S+)$/.exec(script) ?? [];
  return file === undefined ? [] : [[name, file] as const];
});

describe('npm run', () => {
  it.each(commands)('%s reads its options by its name', async (name, file) => {
    const text = await readFile(`${root}${file}`, 'utf8');
    expect(text).toMatch(new RegExp(`readOptions\\(\\{\\s*name: 'npm run ${name} --'`));
  });

  it('chaos:check -- --help prints how it is used, and what is no option is refused', async () => {
    const typed = (word: string) =>
      run(process.execPath, ['--import', 'tsx', 'test/chaos/campaign/check/main.ts', word], { cwd: root }).catch(
        (failed: unknown) => failed,
      );
    const [help, refused] = await Promise.all([typed('--help'), typed('--nothing')]);
    expect(help).toMatchObject({ stdout: expect.stringContaining('usage: npm run chaos:check -- FOLDER'), stderr: '' });
    expect(refused).toMatchObject({
      code: 64,
      stderr: 'there is no option --nothing; `npm run chaos:check -- --help` prints what there is\n',
    });
  });
});
