/** The texts of steps are stored once, and read as they were written: by claims, by rules, by every door, and of older rows. */
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Outcome } from '../../src/core/outcome.js';
import { recordOutcome } from '../../src/core/record.js';
import type { Store } from '../../src/ports.js';
import { createPool } from '../../src/postgres/pool.js';
import { createReads } from '../../src/postgres/reads.js';
import { eventsOf } from '../../src/postgres/step-events.js';
import { createStore } from '../../src/postgres/store.js';
import { askedRun, asks, call, fails, listing, says, value } from '../support/scenario.js';
import { createTestDatabase } from '../support/services.js';

/** What JSON writes in several ways, or not as it stands. */
const awkward = 'a "b" \\ \\u0041 \u0001\t\n\u2028 ü 😀 {"c": 1.0} ';
const args = `{ "text" : ${JSON.stringify(awkward)}, "n": 1.00 }`;
let pool: pg.Pool;
let url: string;

beforeAll(async () => {
  ({ url } = await createTestDatabase());
  pool = createPool({ url, max: 3, applicationName: 'pawl step texts test' });
  await pool.query(`insert into pawl.agents (name, version, listing) values ('helper', 'v1', $1)`, [
    JSON.stringify(listing),
  ]);
  await pool.query(
    `insert into pawl.workers (id, host, pid, role, serves, knows) values ('w', 'here', 1, 'all', '{helper@v1}', 9)`,
  );
});
afterAll(() => pool.end());

async function startRun(store: Store, id: string): Promise<void> {
  await store.createRuns([askedRun(id)]);
}

async function perform(store: Store, runId: string, seq: number, outcome: Outcome) {
  const serves = new Map([['helper', 'v1']]);
  const request = { runId, seq, dispatch: 1, token: randomUUID(), workerId: 'w', serves, takesSuspect: false };
  const claimed = await store.claim(request);
  if (!claimed.claimed) throw new Error(`the claim of step ${seq} was refused: ${claimed.refusal}`);
  const { run, step, now } = claimed;
  const rule = { seq, token: request.token, outcome, attemptsMade: 0, claimed: step };
  await store.change(runId, { seqs: [seq] }, (draft) => recordOutcome(draft, rule), {
    receipt: request.token,
    known: { run, step, now },
  });
  return step;
}

/** A call with awkward arguments, answered awkwardly, by two processes that take turns: none knows what the other did. */
async function playRun(id: string): Promise<string | null> {
  const [one, other] = [createStore(pool), createStore(pool)];
  await startRun(one, id);
  await perform(one, id, 1, asks(call('look', { arguments: args })));
  const { input } = await perform(other, id, 2, value(awkward));
  await perform(one, id, 3, says(awkward));
  return input;
}

async function seen(id: string) {
  const reads = createReads(pool);
  const [steps, events] = await Promise.all([reads.steps(id), reads.events(id, 0, 100)]);
  const told = events.filter(({ type }) => type === 'step.completed').map(({ data }) => [data.input, data.output]);
  const locked = await createStore(pool).change(id, { seqs: [1, 2, 3] }, (draft) =>
    draft.all().map(({ input, output }) => [input, output]),
  );
  return { shown: steps.map(({ input, output }) => [input, output]), told, locked: locked?.value };
}

const whole = {
  shown: [
    [null, null],
    [JSON.parse(args), awkward],
    [null, awkward],
  ],
  told: [
    [null, null],
    [args, awkward],
    [null, awkward],
  ],
  locked: [
    [null, null],
    [args, awkward],
    [null, awkward],
  ],
};

it('are read byte for byte by who claims the call, by rules and by every door', async () => {
  expect(await playRun('run_bytes')).toBe(args);
  expect(await seen('run_bytes')).toEqual(whole);
});

it('stand in the messages and nowhere else', async () => {
  await playRun('run_once');
  const { rows } = await pool.query(`select input, output from pawl.steps where run_id = 'run_once'`);
  expect(rows).toEqual([1, 2, 3].map(() => ({ input: null, output: null })));
});

it('are read from the step where an older version wrote them there', async () => {
  await playRun('run_old');
  await pool.query(`update pawl.steps set input = $1 where run_id = 'run_old' and seq = 2`, [args]);
  await pool.query(`update pawl.steps set output = $1 where run_id = 'run_old' and seq in (2, 3)`, [awkward]);
  expect(await seen('run_old')).toEqual(whole);
});

it('are told by an event, which the step keeps the number of, as by one that an older version wrote apart', async () => {
  const store = createStore(pool);
  await startRun(store, 'run_told');
  await perform(store, 'run_told', 1, asks(call('look'), call('look')));
  await perform(store, 'run_told', 2, fails({ retry: false, code: 'threw' }));
  await perform(store, 'run_told', 3, value('seen'));
  await perform(store, 'run_told', 4, says('done'));
  const told = await createReads(pool).events('run_told', 0, 100);
  const error = { code: 'threw', message: expect.any(String) };
  expect(told.map(({ id, type, seq, data: { calls, error } }) => [id, type, seq, calls, error])).toEqual([
    [1, 'run.created', null, undefined, undefined],
    [2, 'run.started', null, undefined, undefined],
    [3, 'step.completed', 1, 2, undefined],
    [4, 'step.completed', 2, undefined, error],
    [5, 'step.completed', 3, undefined, undefined],
    [6, 'step.completed', 4, undefined, undefined],
    [7, 'run.completed', null, undefined, undefined],
  ]);
  expect((await createReads(pool).events('run_told', 4, 2)).map(({ id }) => id)).toEqual([5, 6]);
  await pool.query(
    `insert into pawl.events select * from ${eventsOf(`'run_told'`)} e where type = 'step.completed' and seq < 3`,
  );
  await pool.query(`update pawl.steps set completed_event = null where run_id = 'run_told' and seq < 3`);
  expect(await createReads(pool).events('run_told', 0, 100)).toEqual(told);
});

it('let no program register that does not say what it knows', async () => {
  const old = pool.query(`insert into pawl.workers (id, host, pid, role, serves) values ('o', 'here', 1, 'all', '{}')`);
  await expect(old).rejects.toMatchObject({ code: '23502' });
});
