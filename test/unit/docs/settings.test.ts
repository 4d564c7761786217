/** The README's table of variables and .env.example name what src/config.ts reads, with its defaults. */
import { describe, expect, it } from 'vitest';
import { readSettings } from '../../../src/config.js';
import { page, section, tableRows } from './pages.js';

function readNames(): string[] {
  const [, schema = ''] = /^const schema = z\.object\(\{\n([\s\S]*?)^\}\);$/m.exec(page('src/config.ts')) ?? [];
  return [...schema.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name);
}

const documented = new Map(
  tableRows(section(page('README.md'), '## Configuration')).map(([name = '', value = '']) => [name, value]),
);
const example = new Map(
  [...page('.env.example').matchAll(/^# (?:example: )?([A-Z][A-Z0-9_]+)=(.*)$/gm)].map(([line, name = '', value]) => [
    name,
    { value, isDefault: !line.startsWith('# example') },
  ]),
);

describe('the variables of the environment', () => {
  it('are the same in the README, in .env.example and in the code', () => {
    const names = readNames().sort();
    expect(names.length).toBeGreaterThan(15);
    expect([...documented.keys()].sort()).toEqual(names);
    expect([...example.keys()].sort()).toEqual(names);
  });

  it('have the documented defaults', () => {
    const { settings } = readSettings({});
    const defaults = {
      OPENAI_MODEL: settings.openai.model,
      PAWL_CONCURRENCY: settings.concurrency,
      PAWL_SHUTDOWN_MS: settings.shutdownMs,
      PAWL_HEARTBEAT_MS: settings.heartbeatMs,
      PAWL_DEATH_MS: settings.deathMs,
      PAWL_LOG_LEVEL: settings.logLevel,
      PAWL_HOST: settings.host,
      PAWL_PORT: settings.port,
    };
    for (const [name, value] of Object.entries(defaults)) {
      expect(documented.get(name)?.replaceAll('`', '').split(',')[0], name).toBe(String(value));
      expect(example.get(name), name).toEqual({ value: String(value), isDefault: true });
    }
  });

  it('shown as examples or defaults can be used as they are', () => {
    const given = Object.fromEntries([...example].map(([name, { value }]) => [name, value]));
    const { warnings } = readSettings(given);
    expect(warnings).toEqual([]);
  });
});
