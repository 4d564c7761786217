#!/usr/bin/env node
// The `pawl` command. In a clone it runs the sources through tsx, so nothing has to be built; in an installed package,
// which carries no sources, it runs the compiled files.
import { existsSync } from 'node:fs';

if (existsSync(new URL('../src/cli/main.ts', import.meta.url))) {
  await import('tsx');
  await import('../src/cli/main.ts');
} else {
  await import('../dist/cli/main.js');
}
