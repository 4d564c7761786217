/** The pages on errors, reasons, waits and the protocol say what the code says. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { errorCodes } from '../../../src/core/errors.js';
import { reasons } from '../../../src/core/run.js';
import { waitKinds } from '../../../src/core/step.js';
import { page, section, tableRows } from './pages.js';

describe('docs/errors.md', () => {
  it('lists the codes of the code, each with its exit status and meaning', () => {
    const documented = tableRows(section(page('docs/errors.md'), '# Errors and exit statuses'));
    const written = Object.entries(errorCodes).map(([code, { exit, means }]) => [code, String(exit), means]);
    expect(documented.map((cells) => cells.slice(0, 3))).toEqual(written);
    expect(documented.every((cells) => cells.length === 4 && cells[3] !== '')).toBe(true);
  });

  it('lists every exit status that an error can have', () => {
    const documented = tableRows(section(page('docs/errors.md'), '## Exit statuses')).map(([status]) => Number(status));
    for (const { exit } of Object.values(errorCodes)) expect(documented).toContain(exit);
  });
});

describe('docs/reasons.md', () => {
  it('lists the reasons of the code, in its order', () => {
    const documented = tableRows(section(page('docs/reasons.md'), '## Reasons'));
    expect(documented.map(([reason]) => reason)).toEqual([...reasons]);
  });

  it('lists the waits of the code, in its order', () => {
    const documented = tableRows(section(page('docs/reasons.md'), '## What a suspended run waits for'));
    expect(documented.map(([kind]) => kind)).toEqual([...waitKinds]);
  });
});

describe('docs/protocol.md', () => {
  it('lists the refusals of the code, in its order', () => {
    const [, union = ''] = /^export type Refusal =\n([\s\S]*?);$/m.exec(page('src/ports.ts')) ?? [];
    const refusals = [...union.matchAll(/'([a-z_]+)'/g)].map(([, refusal]) => refusal);
    const documented = tableRows(section(page('docs/protocol.md'), '## Deliveries'));
    expect(documented.map(([refusal]) => refusal)).toEqual(refusals);
  });

  it('lists every event that the code writes', () => {
    const documented = tableRows(section(page('docs/protocol.md'), '## Events')).flatMap(([names = '']) =>
      [...names.matchAll(/[a-z]+\.[a-z_]+/g)].map(([name]) => name),
    );
    const sources = ['src/core/', 'src/postgres/'].flatMap((folder) => {
      const root = new URL(`../../../${folder}`, import.meta.url);
      return readdirSync(root).map((file) => readFileSync(new URL(file, root), 'utf8'));
    });
    const written = sources.flatMap((text) =>
      [...text.matchAll(/'((?:run|step)\.[a-z_]+)'/g)].map(([, name = '']) => name),
    );
    const final = ['run.completed', 'run.failed', 'run.cancelled'];
    expect(documented.sort()).toEqual([...new Set([...written, ...final])].sort());
  });
});
