/** `pawl doctor` on real services: a sound installation, and each thing that can be broken about it. */
import { afterAll, describe, expect, it } from 'vitest';
import type { Check } from '../../src/core/checkup.js';
import { createTestDatabase, createTestRedis, queueBackends } from '../support/services.js';
import { makeProject } from './command.js';

const config = `
import { defineAgent, defineConfig } from 'pawl';
export default defineConfig({ agents: [defineAgent({ name: 'tagger', model: 'gpt-4o-mini', instructions: 'Tag.' })] });`;

const project = makeProject({ 'pawl.config.ts': config, 'broken.config.ts': 'export default 7;' }, {});
afterAll(() => project.close());

async function check(environment: Record<string, string>): Promise<Map<string, Check>> {
  const { exit, out } = await project.pawl(['doctor', '-o', 'json'], {
    OPENAI_API_KEY: 'key-of-a-test',
    ...environment,
  });
  const { data } = JSON.parse(out) as { data: Check[] };
  expect(exit).toBe(data.some(({ state }) => state === 'bad') ? 1 : 0);
  return new Map(data.map((each) => [each.name, each]));
}

const bad = (checks: Map<string, Check>) => [...checks.values()].filter(({ state }) => state === 'bad');

describe('an installation', () => {
  it('that is sound has nothing bad, with the queue in Postgres', async () => {
    const { url } = await createTestDatabase();
    const checks = await check({ DATABASE_URL: url });
    expect(bad(checks)).toEqual([]);
    expect([...checks.keys()]).toEqual([
      ...['node', 'disk', 'config', 'agents', 'tools', 'database', 'connections', 'clock', 'migrations', 'queue'],
      ...['workers', 'due steps'],
    ]);
  });

  it.runIf(queueBackends().includes('redis'))('with Redis is told of it', async () => {
    const [database, redis] = [await createTestDatabase(), await createTestRedis()];
    const checks = await check({ DATABASE_URL: database.url, REDIS_URL: redis.url });
    expect(checks.get('queue')).toMatchObject({ state: 'ok', says: expect.stringMatching(/^Redis \d/) });
    expect(checks.get('eviction')).toMatchObject({ state: 'ok' });
    expect(checks.has('persistence')).toBe(true);
  });

  it('that is not migrated says so, and nothing of workers', async () => {
    const { url } = await createTestDatabase({ empty: true });
    const checks = await check({ DATABASE_URL: url });
    expect(bad(checks)).toMatchObject([{ name: 'migrations', fix: 'pawl migrate' }]);
    expect(checks.has('workers')).toBe(false);
  });

  it('whose services do not answer has a line for each, and everything else is looked at', async () => {
    const checks = await check({
      DATABASE_URL: 'postgres://pawl:secret@127.0.0.1:1/pawl',
      REDIS_URL: 'redis://:secret@127.0.0.1:1',
    });
    expect(bad(checks).map(({ name }) => name)).toEqual(['database', 'queue']);
    expect(checks.get('agents')).toMatchObject({ state: 'ok', says: 'tagger' });
    expect(JSON.stringify([...checks.values()])).not.toContain('secret');
  });

  it('without a key for its models says so', async () => {
    const { url } = await createTestDatabase();
    expect(bad(await check({ DATABASE_URL: url, OPENAI_API_KEY: '' }))).toMatchObject([
      { name: 'llm key', says: 'none for gpt-4o-mini' },
    ]);
  });

  it('whose config does not load says what is wrong with it', async () => {
    const { url } = await createTestDatabase();
    expect(bad(await check({ DATABASE_URL: url, PAWL_CONFIG: 'broken.config.ts' }))).toMatchObject([
      { name: 'config', says: expect.stringContaining('exports something else') },
    ]);
  });
});
