import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findConfigFile } from '../../src/config-file.js';

// Module hooks belong to a process of their own: one child loads every file below, and says what became of each.
const child = fileURLToPath(new URL('./load-configs.ts', import.meta.url));
const root = mkdtempSync(join(tmpdir(), 'pawl-config-file-'));
afterAll(() => rmSync(root, { recursive: true }));

const config = `
import { z } from 'zod';
import { defineAgent, defineConfig, defineTool, permissionDenied } from 'pawl';
import { double } from './double.js';
import { limit } from './limit';
enum Name { Billing = 'billing' }
const charge = defineTool({
  name: 'charge',
  description: 'Charges a card',
  input: z.object({ cents: z.number().int() }),
  execute: async (args) => (args.cents > limit ? permissionDenied() : double(args.cents)),
});
const instructions: string = await Promise.resolve('Bill.');
export default defineConfig({ agents: [defineAgent({ name: Name.Billing, instructions, tools: [charge] })] });
`;
const beside = {
  'double.ts': 'export function double(n: number): number { return 2 * n; }',
  'limit.js': 'export const limit = 10_000;',
};
const working = ['plain', 'esm', 'cjs', 'with a space/配置'];
const broken: Record<string, string> = {
  'throws.ts': "const n: number = 1;\n\nthrow new Error('no licence');\nexport default n;",
  'throws-undefined.ts': 'throw undefined;',
  'syntax.ts': 'const n: = 1;',
  'no-default.ts': 'export const agents = [];',
  'plain-object.ts': 'export default { agents: [] };',
  'missing-package.ts': "import x from 'no-such-package-here'; export default x;",
  'missing-file.ts': "import x from './gone.js'; export default x;",
  'not-built.ts':
    "import { defineTool } from 'pawl';\nexport default\n defineTool({ name: 'a', description: 'x', approval: true, execute: () => 1 });",
};

interface Result {
  agents?: { name: string; model: string | null }[];
  /** Whether the config's Pawl is the copy that loaded it. */
  sameCopy?: boolean;
  code?: string;
  message?: string;
}

let results: Record<string, Result>;

function write(file: string, content: string): string {
  const path = join(root, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

beforeAll(() => {
  for (const folder of working) {
    write(join(folder, 'pawl.config.ts'), config);
    for (const [name, content] of Object.entries(beside)) write(join(folder, name), content);
  }
  write('esm/package.json', '{"type":"module"}');
  write('cjs/package.json', '{"type":"commonjs"}');
  write(
    'js/pawl.config.js',
    config.replace(/enum.*\n/, "const Name = { Billing: 'billing' };\n").replace(': string', ''),
  );
  for (const [name, content] of Object.entries(beside)) write(join('js', name), content);
  for (const [name, content] of Object.entries(broken)) write(join('broken', name), content);
  const files = [
    ...working.map((folder) => join(folder, 'pawl.config.ts')),
    'js/pawl.config.js',
    ...Object.keys(broken).map((name) => join('broken', name)),
    'broken',
    'gone/pawl.config.ts',
  ];
  const answer = execFileSync(process.execPath, ['--import', import.meta.resolve('tsx'), child, root, ...files], {
    encoding: 'utf8',
    cwd: root,
  });
  results = JSON.parse(answer);
}, 60_000);

describe('a config', () => {
  it.each([...working.map((folder) => `${folder}/pawl.config.ts`), 'js/pawl.config.js'])(
    'loads from %s with the running copy of Pawl, whatever its folder says of modules',
    (file) => {
      expect(results[file]).toEqual({ agents: [{ name: 'billing', model: 'default-model' }], sameCopy: true });
    },
  );

  it.each<[string, string, RegExp]>([
    ['throws.ts', 'config_invalid', /throws\.ts cannot be loaded \(throws\.ts, line 3\): no licence$/],
    ['throws-undefined.ts', 'config_invalid', /cannot be loaded: threw undefined$/],
    ['syntax.ts', 'config_invalid', /syntax\.ts:1:9: ERROR: Unexpected "="/],
    ['no-default.ts', 'config_invalid', /has no default export; end it with: export default defineConfig/],
    ['plain-object.ts', 'config_invalid', /exports something else by default; end it with/],
    ['missing-package.ts', 'config_invalid', /install it there: cd .*broken && npm install no-such-package-here/],
    ['missing-file.ts', 'config_invalid', /Cannot find module .*gone\.js/],
    ['not-built.ts', 'not_built', /not-built\.ts \(not-built\.ts, line 3\): tool "a": approval is not built/],
  ])('in %s is refused by file, line and fix', (name, code, message) => {
    const result = results[`broken/${name}`];
    expect(result?.code).toBe(code);
    expect(result?.message).toMatch(message);
  });

  it('that is a folder or not there is refused by name', () => {
    expect(results.broken?.message).toMatch(/broken is a folder; PAWL_CONFIG names a file/);
    expect(results['gone/pawl.config.ts']?.message).toMatch(/there is no file .*gone\/pawl\.config\.ts; create it/);
  });

  it('is found under its usual names, or the one given', () => {
    expect(findConfigFile(null, join(root, 'js'))).toBe(join(root, 'js/pawl.config.js'));
    expect(findConfigFile(null, join(root, 'broken'))).toBeNull();
    expect(findConfigFile('my.ts', root)).toBe(join(root, 'my.ts'));
  });
});
