/** Each CHECK and UNIQUE of the schema refuses the state it is for, and none was forgotten here. */
import { getTableColumns } from 'drizzle-orm';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPool } from '../../src/postgres/pool.js';
import { functionOf, runRules, stepRules } from '../../src/postgres/row-rules.js';
import { runs, steps } from '../../src/postgres/schema.js';
import { createStore } from '../../src/postgres/store.js';
import { createTestDatabase } from '../support/services.js';

let pool: pg.Pool;

// One running run: a completed LLM step, a claimed call, a once call, a suspended call.
const soundRows = `
insert into pawl.workers (id, host, pid, role, serves, knows) values ('w', 'here', 1, 'all', '{helper@v1}', 9);
insert into pawl.runs (id, agent, language, llm_name, llm_timeout_ms, llm_attempts, status, max_steps, max_turns, on_limit, next_seq,
  open_steps, suspended_steps, steps_used, last_event, input_is_text, input_hash, started_at, key)
values ('r', 'helper', 'en', 'm', 1000, 4, 'running', 60, 25, 'finish', 5, 3, 1, 4, 1, true, 'h', now(), 'k');
insert into pawl.steps (run_id, seq, kind, name, queue, status, due_at, dispatch, claim_token, worker_id, claimed_at, claim_deadline,
  attempt, failures, crashes, claims, suspect, unknown, deferrals, max_attempts, timeout_ms, waiting_for, turn_seq, position, call_id,
  effect, sequential, input, queued_at, finished_at)
values
  ('r', 1, 'llm', 'm', 'llm', 'completed', now(), 1, gen_random_uuid(), 'w', now(), now(), 1, 0, 0, 0, false, false, 0, 4, 1000, null,
   null, null, null, null, false, null, now(), now()),
  ('r', 2, 'tool', 'look', 'tool', 'running', now(), 1, gen_random_uuid(), 'w', now(), now(), 1, 0, 0, 0, false, false, 0, 3, 1000, null,
   1, 1, 'c2', 'none', false, '{}', now(), null),
  ('r', 3, 'tool', 'pay', 'tool', 'pending', now(), 1, null, null, null, null, 0, 0, 0, 0, false, false, 0, 1, 1000, null,
   1, 2, 'c3', 'once', false, '{}', now(), null),
  ('r', 4, 'tool', 'look', 'tool', 'suspended', now(), 0, null, null, null, null, 0, 0, 0, 0, false, false, 0, 3, 1000, 'operator',
   1, 3, 'c4', 'none', false, '{}', now(), null);
insert into pawl.attempts (token, run_id, seq, attempt, worker_id, started_at, ended_at, ended_by, recorded)
values (gen_random_uuid(), 'r', 2, 1, 'w', now(), now(), 'crash', false);
insert into pawl.messages (run_id, seq, pos, body) values ('r', 0, 0, '{}');
insert into pawl.outputs (run_id, seq, body) values ('r', 1, 'whole');
insert into pawl.events (run_id, id, type, at) values ('r', 1, 'run.created', now());`;

const run = (set: string) => `update pawl.runs set ${set}`;
const step = (seq: number, set: string) => `update pawl.steps set ${set} where seq = ${seq}`;
const fact = (values: string) =>
  `insert into pawl.facts (owner, words, run_id, seq, scope, key, value) values ('', '', 'r', 1, ${values})`;
const final = `status = 'failed', reason = 'deadline', open_steps = 0, suspended_steps = 0`;

const refused: [constraint: string, statement: string][] = [
  ['instance_is_one_row', `insert into pawl.instance (one_row, id) values (false, 'other')`],
  ['instance_pkey', `insert into pawl.instance (id) values ('other')`],
  ['workers_state', `update pawl.workers set state = 'asleep', ended_at = now()`],
  ['workers_end', `update pawl.workers set state = 'dead'`],
  ['workers_end', `update pawl.workers set ended_at = now()`],
  ['runs_status', run(`status = 'waiting', open_steps = 0, suspended_steps = 0`)],
  ['runs_reason', run(`reason = 'bad luck'`)],
  ['runs_on_limit', run(`on_limit = 'explode'`)],
  ['runs_budgets', run(`max_tokens = 0`)],
  ['runs_budgets', run(`max_cost_usd = 0`)],
  ['runs_reserve', run(`reserve_input = -1`)],
  ['runs_conduct_is_an_object', run(`conduct = '[1]'`)],
  // A running run has a step that may move; a suspended one has only suspended ones; a final one has none open.
  ['runs_steps_match_status', run(`suspended_steps = 3`)],
  ['runs_steps_match_status', run(`suspended_steps = -1`)],
  ['runs_steps_match_status', run(`status = 'pending', open_steps = 0, suspended_steps = 0`)],
  ['runs_steps_match_status', run(`status = 'suspended'`)],
  ['runs_steps_match_status', run(`status = 'suspended', open_steps = 0, suspended_steps = 0`)],
  ['runs_steps_match_status', run(`status = 'completed', finished_at = now()`)],
  ['runs_end', run(final)],
  ['runs_end', run(`finished_at = now()`)],
  ['runs_final_is_not_ending', run(`${final}, finished_at = now(), pause_at = now()`)],
  [
    'runs_final_is_not_ending',
    run(`${final}, finished_at = now(), ending_at = now(), ending_status = 'failed', ending_reason = 'deadline'`),
  ],
  ['runs_ending_is_whole', run(`ending_at = now()`)],
  ['runs_ending_is_whole', run(`ending_at = now(), ending_status = 'failed'`)],
  ['runs_ending_is_whole', run(`ending_reason = 'deadline'`)],
  ['runs_failed_has_reason', run(`status = 'failed', open_steps = 0, suspended_steps = 0, finished_at = now()`)],
  ['facts_scope', fact(`'world', 'k', 'v'`)],
  [
    'facts_vector',
    `insert into pawl.facts (scope, owner, key, value, words, run_id, seq, vector) values ('agent', '', 'k', 'v', '', 'r', 1, '')`,
  ],
  ['facts_sizes', fact(`'tenant', '', 'v'`)],
  ['facts_sizes', fact(`'tenant', 'k', ''`)],
  ['facts_sizes', fact(`'tenant', 'k', repeat('v', 2001)`)],
  ['runs_thread_is_held', run('holds_thread = true')],
  ['runs_thread_is_held', run(`${final}, finished_at = now(), thread_id = 't', holds_thread = true`)],
  ['runs_thread_length', run(`thread_id = ''`)],
  ['runs_thread_length', run(`thread_id = repeat('t', 256)`)],
  ['runs_key_length', run(`key = ''`)],
  ['runs_key_length', run(`key = repeat('k', 256)`)],
  ['steps_kind', step(1, `kind = 'thought'`)],
  ['steps_status', step(3, `status = 'failed'`)],
  ['steps_effect', step(2, `effect = 'twice'`)],
  ['steps_waiting_for', step(4, `waiting_for = 'godot'`)],
  ['steps_suspended_names_its_wait', step(4, `waiting_for = null`)],
  ['steps_suspended_names_its_wait', step(3, `waiting_for = 'limit'`)],
  [
    'steps_claim_matches_status',
    step(2, `claim_token = null, worker_id = null, claimed_at = null, claim_deadline = null`),
  ],
  ['steps_claim_matches_status', step(2, `status = 'pending'`)],
  ['steps_claim_matches_status', step(2, `status = 'suspended', waiting_for = 'limit'`)],
  ['steps_claim_is_whole', step(2, `worker_id = null`)],
  ['steps_claim_is_whole', step(1, `claim_deadline = null`)],
  ['steps_end', step(1, `finished_at = null`)],
  ['steps_end', step(3, `finished_at = now()`)],
  ['steps_tool_is_whole', step(2, `call_id = null`)],
  ['steps_tool_is_whole', step(2, `kind = 'llm'`)],
  ['steps_tool_is_whole', step(1, `kind = 'tool'`)],
  ['steps_dead_says_why', step(2, `status = 'dead', finished_at = now()`)],
  ['steps_once_has_one_attempt', step(3, `max_attempts = 2`)],
  ['steps_unknown_is_once', step(2, `unknown = true`)],
  ['steps_unknown_is_once', step(1, `unknown = true`)],
  ...['dispatch', 'attempt', 'failures', 'crashes', 'claims'].map((count): [string, string] => [
    'steps_counts',
    step(2, `${count} = -1`),
  ]),
  ['steps_counts', step(4, `seq = 0`)],
  [
    'tool_outages_trial',
    `insert into pawl.tool_outages (agent, tool, failed, calls, runs, since_at, opened_at, trials)
      values ('a', 't', 1, 1, '{}', now(), now(), 0)`,
  ],
  ['attempts_ended_by', `update pawl.attempts set ended_by = 'boredom'`],
  // One outcome per step, one step per call, one message per place, one run per key (I1, I9).
  ['steps_run_id_seq_pk', step(4, `seq = 3`)],
  ['steps_one_per_call', step(4, `position = 2`)],
  ['messages_run_id_seq_pos_pk', `insert into pawl.messages (run_id, seq, pos, body) values ('r', 0, 0, '{}')`],
  ['events_run_id_id_pk', `insert into pawl.events (run_id, id, type, at) values ('r', 1, 'again', now())`],
  ['attempts_pkey', `insert into pawl.attempts select * from pawl.attempts`],
  [
    'runs_key',
    `insert into pawl.runs select (r).* from (select (jsonb_populate_record(r, '{"id":"other"}')) as r from pawl.runs r) x`,
  ],
];

beforeAll(async () => {
  const { url } = await createTestDatabase();
  pool = createPool({ url, max: 2, applicationName: 'pawl schema test' });
  await pool.query(soundRows);
});
afterAll(() => pool.end());

it.each(refused)('%s refuses: %s', async (constraint, statement) => {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const error: { code?: string; constraint?: string } = await client.query(statement).then(
      () => ({}),
      (thrown: { code?: string; constraint?: string }) => thrown,
    );
    expect(error.constraint).toBe(constraint);
    expect(error.code).toMatch(/^(23514|23505)$/);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

it('leaves no CHECK untried', async () => {
  const { rows } = await pool.query<{ name: string }>(
    `select conname as name from pg_constraint where contype = 'c' and connamespace = 'pawl'::regnamespace`,
  );
  const tried = new Set(refused.map(([constraint]) => constraint));
  const rules = [runRules, stepRules].flatMap((of) => Object.keys(of.rules));
  const checks = rows.map(({ name }) => name).filter((name) => !/^(runs|steps)_are_sound$/.test(name));
  expect([...checks, ...rules].filter((name) => !tried.has(name))).toEqual([]);
  expect(checks.length + 2).toBe(rows.length);
});

it.each([
  [runRules, runs],
  [stepRules, steps],
])('holds $table to the rules of row-rules.ts', async (rules, table) => {
  const { rows } = await pool.query<{ is: string }>(
    `select prosrc as is from pg_proc where pronamespace = 'pawl'::regnamespace and proname = $1`,
    [`${rules.table}_are_sound`],
  );
  expect(rows.map(({ is }) => is)).toEqual([functionOf(rules, getTableColumns(table)).split('$$')[1]]);
});

it('goes with its run: nothing of a deleted run is left', async () => {
  const client = await pool.connect();
  try {
    await client.query('begin; delete from pawl.runs');
    for (const table of ['steps', 'attempts', 'messages', 'events', 'outputs']) {
      expect((await client.query(`select 1 from pawl.${table}`)).rowCount).toBe(0);
    }
  } finally {
    await client.query('rollback');
    client.release();
  }
});

it('is named where a rule would write what a CHECK forbids', async () => {
  const broken = createStore(pool).change('r', { seqs: [2] }, (draft) => {
    for (const step of draft.all()) draft.edit(step).failures = -1;
  });
  await expect(broken).rejects.toMatchObject({
    code: 'invalid_input',
    message: expect.stringContaining('steps_counts'),
  });
});
