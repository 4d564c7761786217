/** The heartbeat of a worker on a real Postgres, from its thread. */

import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPool } from '../../src/postgres/pool.js';
import { createWorkers } from '../../src/postgres/workers.js';
import { quietLog } from '../support/quiet-log.js';
import { createTestDatabase } from '../support/services.js';

let url: string;
let pool: pg.Pool;

beforeAll(async () => {
  ({ url } = await createTestDatabase());
  pool = createPool({ url, max: 2, applicationName: 'pawl heart test' });
});
afterAll(() => pool.end());

it('a worker whose goodbye is answered late is not told that it was declared dead, though its heart beats meanwhile', async () => {
  const workers = createWorkers(answeringLate(50), { url, everyMs: 1, slots: 4, log: quietLog });
  const heart = await workers.register({ id: 'worker_1', host: 'here', pid: 1, role: 'steps', agents: [] });
  const verdicts: string[] = [];
  heart.onDeclaredDead(() => verdicts.push('dead'));
  await beats('worker_1');
  await heart.stop(2_000);
  expect(verdicts).toEqual([]);
  const { rows } = await pool.query('select id, state from pawl.workers');
  expect(rows).toEqual([{ id: 'worker_1', state: 'stopped' }]);
});

/** The pool, whose replies are on their way for a while. */
function answeringLate(ms: number): pg.Pool {
  const query = async (text: string, values?: unknown[]) => {
    const answer = await pool.query(text, values);
    await delay(ms);
    return answer;
  };
  return Object.assign(Object.create(pool), { query }) as pg.Pool;
}

async function beats(id: string): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ beat: number }>('select beat::int from pawl.workers where id = $1', [id]);
    if ((rows[0]?.beat ?? 0) >= 3) return;
  }
}
