/** The test support itself: databases are separate, leaks are found, the shared suites know their backends. */
import { Redis } from 'ioredis';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { createTestDatabase, createTestRedis, queueBackends } from './services.js';

describe('a test database', () => {
  it('is dropped when its last client has gone', async () => {
    const database = await createTestDatabase({ empty: true });
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const found = await client.query('SELECT current_database() AS name');
    expect(found.rows).toEqual([{ name: database.name }]);
    await client.end();
    await database.drop();
  });

  it('names the client that was left open', async () => {
    const database = await createTestDatabase({ empty: true });
    const client = new pg.Client({ connectionString: database.url, application_name: 'forgetful' });
    client.on('error', () => {}); // the drop cuts it off
    await client.connect();
    await client.query('SELECT 41 + 1');
    await expect(database.drop()).rejects.toThrow(/1 connection.*left open:\s+forgetful, idle: SELECT 41 \+ 1/s);
    await client.end();
  });
});

describe.each(queueBackends().filter((backend) => backend === 'redis'))('a test database in %s', () => {
  it('is another one for each caller and is found to be in use', async () => {
    const [one, two] = [await createTestRedis(), await createTestRedis()];
    expect(one.url).not.toBe(two.url);
    const client = new Redis(one.url);
    await client.set('key', 'value');
    await expect(one.drop()).rejects.toThrow(/left open/);
    expect(await client.get('key')).toBeNull();
    await client.quit();
    await two.drop();
  });
});
