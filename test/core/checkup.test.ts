/** What the doctor calls ok, what it wants looked at, and what it calls bad. */
import { describe, expect, it } from 'vitest';
import * as checkup from '../../src/core/checkup.js';

const database: checkup.DatabaseFacts = {
  ...{ version: 150_004, role: 'app', isReplica: false, mayWrite: true },
  ...{ connections: { used: 10, max: 97 }, clockAheadMs: 3, roundTripMs: 2 },
};
const worker = { id: 'worker_1', host: 'here', pid: 7, silentMs: 900, loopLagMs: 3 };
const work: checkup.WorkFacts = { workers: [worker], dueSteps: 0, oldestDueMs: null };
const states = (checks: checkup.Check[]) => checks.map(({ name, state }) => `${name} ${state}`);

describe('a check', () => {
  it.each([
    ['v20.20.2', 'ok'],
    ['v24.0.0', 'ok'],
    ['v20.18.9', 'bad'],
    ['v18.20.0', 'bad'],
  ])('of Node %s is %s', (version, state) => expect(checkup.checkNode(version).state).toBe(state));

  it.each([
    [50, 'bad'],
    [500, 'note'],
    [5_000, 'ok'],
    [50_000, 'ok'],
  ])('of %d MB free is %s', (mb, state) => expect(checkup.checkDisk('/srv', mb * 1024 * 1024).state).toBe(state));

  it('of a database names its version, where it is from, and the role', () => {
    expect(checkup.checkDatabase(database, 'DATABASE_URL').says).toBe('Postgres 15.4 (DATABASE_URL), as app');
  });

  it.each([
    ['too old', { version: 140_012 }, /Postgres 15 or newer/],
    ['a replica', { isReplica: true }, /primary/],
    ['closed to the role', { mayWrite: false }, /grant app/],
  ])('of a database that is %s is bad, with what to do', (_, given, fix) => {
    expect(checkup.checkDatabase({ ...database, ...given }, 'here')).toMatchObject({
      state: 'bad',
      fix: expect.stringMatching(fix),
    });
  });

  it('of connections is bad when another worker process would not fit', () => {
    expect(checkup.checkConnections({ used: 77, max: 97 }, 20).state).toBe('ok');
    expect(checkup.checkConnections({ used: 78, max: 97 }, 20).state).toBe('bad');
  });

  it('of the clock forgives the way to the database, and names the direction', () => {
    expect(checkup.checkClock({ ...database, clockAheadMs: 2_400, roundTripMs: 1_000 }).state).toBe('ok');
    expect(checkup.checkClock({ ...database, clockAheadMs: -5_000 }).says).toBe(
      'this machine is 5.0 s ahead of the database',
    );
    expect(checkup.checkClock({ ...database, clockAheadMs: 5_000 }).says).toContain('behind');
  });

  it('of workers is bad only where somebody waits for one', () => {
    expect(states(checkup.checkWork(work))).toEqual(['workers ok', 'due steps ok']);
    expect(states(checkup.checkWork({ ...work, workers: [] }))).toEqual(['workers note', 'due steps ok']);
    const waiting = { dueSteps: 3, oldestDueMs: 5_000 };
    expect(states(checkup.checkWork({ workers: [], ...waiting }))).toEqual(['workers bad', 'due steps ok']);
    const silent = { ...worker, silentMs: 20_000 };
    expect(checkup.checkWork({ workers: [silent], ...waiting })[0]).toMatchObject({
      state: 'bad',
      says: 'none alive; here:7 went silent',
    });
    expect(states(checkup.checkWork({ workers: [worker], dueSteps: 3, oldestDueMs: 61_000 }))).toEqual([
      'workers ok',
      'due steps bad',
    ]);
    expect(checkup.checkWork({ ...work, workers: [{ ...worker, loopLagMs: 9_000 }] })[0]).toMatchObject({
      state: 'note',
      says: expect.stringContaining('here:7 is blocked'),
    });
  });

  it('of Redis looks at its version, what it drops when full, and what it keeps', () => {
    const redis = { version: '7.0.15', policy: 'noeviction', persistence: 'aof' } as const;
    expect(states(checkup.checkRedis(redis))).toEqual(['queue ok', 'eviction ok', 'persistence ok']);
    const sorry = { version: '5.0.7', policy: 'allkeys-lru', persistence: 'none' } as const;
    expect(states(checkup.checkRedis(sorry))).toEqual(['queue bad', 'eviction bad', 'persistence note']);
    expect(states(checkup.checkRedis({ ...redis, policy: null, persistence: null }))).toEqual(['queue ok']);
  });

  it('of agents names the tools whose effect nobody declared', () => {
    const tools = [
      { name: 'look', effectDeclared: true },
      { name: 'pay', effectDeclared: false },
    ];
    expect(states(checkup.checkAgents([{ name: 'billing', tools: tools.slice(0, 1) }]))).toEqual([
      'agents ok',
      'tools ok',
    ]);
    expect(checkup.checkAgents([{ name: 'billing', tools }])[1]).toMatchObject({
      state: 'note',
      says: expect.stringMatching(/^pay: /),
    });
  });
});
