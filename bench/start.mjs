// The door of the bench: installs its own packages at the first use, then runs main.ts, scale/main.ts or judgement/main.ts through tsx.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const installed = `${here}node_modules/.package-lock.json`;

function isInstalled() {
  const wanted = [`${here}package.json`, `${here}package-lock.json`].map((file) => statSync(file).mtimeMs);
  return existsSync(installed) && statSync(installed).mtimeMs >= Math.max(...wanted);
}

if (!isInstalled()) {
  const { dependencies } = JSON.parse(readFileSync(`${here}package.json`, 'utf8'));
  console.error(
    `bench: installing its own packages into bench/node_modules, once (${Object.keys(dependencies).join(', ')})`,
  );
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: here,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (status !== 0) process.exit(status ?? 1);
}

// Measurements load what users install: compiled.mjs.
const built = spawnSync('npm', ['run', '--silent', 'build'], {
  cwd: `${here}..`,
  stdio: ['ignore', 2, 2],
  shell: process.platform === 'win32',
});
if (built.status !== 0) process.exit(built.status ?? 1);

const [first, ...rest] = process.argv.slice(2);
const given =
  first === 'scale' || first === 'judgement' ? [`${first}/main.ts`, ...rest] : ['main.ts', ...process.argv.slice(2)];
const { status } = spawnSync(
  process.execPath,
  ['--import', 'tsx', ...given.map((word, n) => (n === 0 ? here + word : word))],
  {
    stdio: 'inherit',
  },
);
process.exit(status ?? 1);
