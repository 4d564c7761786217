/** What waits for whom: a claim behind a cancel that has not committed, and batches that wait for nobody. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createPool } from '../../src/postgres/pool.js';
import { createStore } from '../../src/postgres/store.js';
import { createWatch } from '../../src/postgres/watch.js';
import { askedRun, listing } from '../support/scenario.js';
import { createTestDatabase } from '../support/services.js';

let pool: pg.Pool;
let runs = 0;
let runId: string;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  pool = createPool({ url, max: 5, applicationName: 'pawl locks test' });
  await pool.query(`insert into pawl.agents (name, version, listing) values ('helper', 'v1', $1)`, [
    JSON.stringify(listing),
  ]);
  await pool.query(
    `insert into pawl.workers (id, host, pid, role, serves, knows) values ('w', 'here', 1, 'all', '{helper@v1}', 9)`,
  );
});
afterAll(() => pool.end());

beforeEach(async () => {
  runs += 1;
  runId = `run_${runs}`;
  await createStore(pool).createRuns([askedRun(runId)]);
});

/** A transaction of another process that holds the run's lock. */
async function holdingRun<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query('select 1 from pawl.runs where id = $1 for no key update', [runId]);
    return await work(client);
  } finally {
    await client.query('rollback');
    client.release();
  }
}

async function untilSomeoneWaits(): Promise<void> {
  for (;;) {
    const { rows } = await pool.query(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (rows.length > 0) return;
    await delay(5);
  }
}

const claim = () =>
  createStore(pool).claim({
    ...{ runId, seq: 1, dispatch: 1, token: randomUUID(), workerId: 'w' },
    ...{ serves: new Map([['helper', 'v1']]), takesSuspect: true },
  });

it('a claim that waited behind a cancel finds nothing (I11)', async () => {
  const claiming = await holdingRun(async (client) => {
    const claiming = claim();
    await untilSomeoneWaits();
    await client.query(
      `update pawl.runs set ending_at = now(), ending_status = 'cancelled', ending_reason = 'cancelled' where id = $1`,
      [runId],
    );
    await client.query('commit');
    return claiming;
  });
  expect(await claiming).toEqual({ claimed: false, refusal: 'ending' });
  const { rows } = await pool.query('select status, attempt from pawl.steps where run_id = $1', [runId]);
  expect(rows).toEqual([{ status: 'pending', attempt: 0 }]);
});

it('a claim that waited behind another claim of its step finds it claimed', async () => {
  const claiming = await holdingRun(async (client) => {
    const claiming = claim();
    await untilSomeoneWaits();
    await client.query(
      `update pawl.steps set status = 'running', claim_token = $2, worker_id = 'w', claimed_at = now(), claim_deadline = now()
       where run_id = $1`,
      [runId, randomUUID()],
    );
    await client.query('commit');
    return claiming;
  });
  expect(await claiming).toEqual({ claimed: false, refusal: 'claimed' });
});

it('a claim that waited behind a rescue of the sweep finds its dispatch stale', async () => {
  const claiming = await holdingRun(async (client) => {
    const claiming = claim();
    await untilSomeoneWaits();
    await client.query('update pawl.steps set dispatch = 2 where run_id = $1', [runId]);
    await client.query('commit');
    return claiming;
  });
  expect(await claiming).toEqual({ claimed: false, refusal: 'stale' });
});

it('raising dispatches passes over a run that another transaction holds, and does not wait', async () => {
  const watch = createWatch(pool);
  const step = { queue: 'llm', runId, seq: 1, dispatch: 1 };
  await holdingRun(async () => {
    expect(await watch.raiseDispatch([step])).toEqual([]);
  });
  expect(await watch.raiseDispatch([step])).toEqual([{ ...step, dispatch: 2 }]);
});

it('a record made from a known state writes nothing over a rule that committed while it waited', async () => {
  const store = createStore(pool);
  const claimed = await claim();
  if (!claimed.claimed) throw new Error('the step is free');
  let tries = 0;
  const recording = await holdingRun(async (client) => {
    const recording = store.change(
      runId,
      { seqs: [1] },
      (draft) => {
        tries += 1;
        draft.event(`pause seen: ${draft.run.pauseAt !== null}`, null);
        return draft.run.pauseAt !== null;
      },
      { known: claimed },
    );
    await untilSomeoneWaits();
    await client.query('update pawl.runs set pause_at = now(), writes = writes + 1 where id = $1', [runId]);
    await client.query('commit');
    return recording;
  });
  expect(await recording).toMatchObject({ value: true });
  expect(tries).toBe(2);
  const { rows } = await pool.query(`select type from pawl.events where run_id = $1 and type like 'pause%'`, [runId]);
  expect(rows).toEqual([{ type: 'pause seen: true' }]);
});
