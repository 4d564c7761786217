#!/usr/bin/env node
// The `pawl` command. An installed package carries no sources and runs the compiled files. A clone runs its sources through
// tsx, so that nothing has to be built; where `npm run build` was run and nothing has changed since, it runs the compiled
// files as well, which start in a third of the time.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = join(root, 'src');
const compiled = join(root, 'dist', 'cli', 'main.js');

function isCompiled() {
  if (!existsSync(sources)) return true;
  const builtAt = statSync(compiled, { throwIfNoEntry: false })?.mtimeMs;
  if (builtAt === undefined) return false;
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' });
  return files.every((file) => statSync(join(sources, file)).mtimeMs < builtAt);
}

if (isCompiled()) await import('../dist/cli/main.js');
else {
  await import('tsx');
  await import('../src/cli/main.ts');
}
