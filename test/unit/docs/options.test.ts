/** docs/options.md names every option that is known, and its defaults are those of the code. */
import { describe, expect, it } from 'vitest';
import { defineAgent } from '../../../src/core/agent.js';
import { defineConfig } from '../../../src/core/config.js';
import { defineTool } from '../../../src/core/tool.js';
import { page, section, tableRows } from './pages.js';

const rowsOf = (heading: string) => tableRows(section(page('docs/options.md'), heading));

/** What a definition says its options are when it is given one that is none. */
function known(define: (options: never) => unknown): string[] {
  try {
    define({ name: 'x', noSuchOption: 1 } as never);
  } catch (error) {
    return /The options are: (.*)$/.exec(String(error))?.[1]?.split(', ') ?? [];
  }
  return [];
}

const agent = defineAgent({ name: 'x', instructions: 'x' });
const judged = defineAgent({ name: 'x', instructions: 'x', mode: { reflect: { criteria: 'x' } } });
const tool = defineTool({ name: 'x', description: 'x', execute: () => 1 });

function defaultOf(of: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, name) => (at as Record<string, unknown> | null)?.[name], of);
}

describe.each([
  ['## defineAgent', defineAgent, ['limits', 'retry', 'context', 'loop'], { ...agent, mode: { reflect: judged.mode } }],
  ['## defineTool', defineTool, ['outage'], { ...tool, onUnknown: 'ask' }],
  ['## defineConfig', defineConfig, [], {}],
] as const)('docs/options.md, %s', (heading, define, nested, made) => {
  const rows = rowsOf(heading);

  it('names each option, and no other', () => {
    const flat = known(define as (options: never) => unknown);
    expect(flat.length).toBeGreaterThan(2);
    const leaves = flat.filter((name) => !(nested as readonly string[]).includes(name));
    const documented = rows.map(([name = '']) => name);
    expect(documented.filter((name) => !name.includes('.')).sort()).toEqual([...leaves].sort());
    for (const name of nested) {
      const inner = Object.keys(defaultOf(made, name) as object).map((one) => `${name}.${one}`);
      expect(documented.filter((one) => one.startsWith(`${name}.`)).sort()).toEqual(inner.sort());
    }
  });

  it('says the defaults of the code', () => {
    for (const [name = '', said = ''] of rows) {
      const actual = defaultOf(made, name);
      if (said === 'required') continue;
      if (/^[\d.]+$|^true$|^false$/.test(said)) expect(String(actual), name).toBe(said);
      else if (['number', 'boolean'].includes(typeof actual)) expect(said, name).toMatch(new RegExp(`\\b${actual}\\b`));
      else if (said === 'none' && name !== 'effect')
        expect([null, undefined, 0].includes(actual as null) || isEmpty(actual), name).toBe(true);
      else if (/^[a-z]+$/.test(said) && typeof actual === 'string') expect(actual, name).toBe(said);
    }
  });
});

/** No tools; words that are Pawl's own. */
function isEmpty(value: unknown): boolean {
  return (Array.isArray(value) && value.length === 0) || value === agent.words;
}
