/**
 * Runs the tests on other versions of Node, which npm fetches: `npm run test:node -- 20 22 24`. What follows `--` goes to
 * vitest, such as `-- --project unit`. Processes that tests start run on the same version. Says at the end how each fared.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { delimiter, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const args = process.argv.slice(2);
const split = args.findIndex((arg) => !/^\d+(\.\d+){0,2}$/.test(arg));
const versions = split < 0 ? args : args.slice(0, split);
const given = split < 0 ? [] : args.slice(split).filter((arg) => arg !== '--');
const vitestArgs = given.length > 0 ? given : ['--project', 'unit', '--project', 'services'];
if (versions.length === 0) {
  process.stderr.write('name the versions, such as: npm run test:node -- 20 22 24\n');
  process.exit(2);
}

const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
const results = versions.map((version) => {
  const node = programOf(version);
  const exact = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();
  process.stdout.write(`\n== Node ${exact}\n`);
  const began = performance.now();
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}` };
  const { status } = spawnSync(node, [vitest, 'run', ...vitestArgs], { stdio: 'inherit', env });
  return { exact, passed: status === 0, seconds: Math.round((performance.now() - began) / 1_000) };
});

process.stdout.write('\n');
for (const { exact, passed, seconds } of results) {
  process.stdout.write(`Node ${exact}: ${passed ? 'passed' : 'FAILED'}, ${seconds} s\n`);
}
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1;

/** npm has Node itself as a package, which it keeps in its cache. */
function programOf(version: string): string {
  const told = execFileSync('npx', ['--yes', '--package', `node@${version}`, 'node', '-p', 'process.execPath'], {
    encoding: 'utf8',
  });
  return told.trim();
}
