/**
 * Writes what a draft changed, as one statement, for a run whose row the transaction has locked. Each part reads its rows
 * from one JSON parameter, so that the plan is prepared once whatever a step changes.
 */
import { getTableColumns, type Table } from 'drizzle-orm';
import { type Changes, completedType } from '../core/draft.js';
import type { StepState } from '../core/step.js';
import { writeAttempt, writeRun } from './rows.js';
import { attempts, runs, steps } from './schema.js';
import { writeStepOnce } from './step-texts.js';

/** Named one by one, since a prepared `select *` fails once a later migration adds a column. */
export const columnsOf = (table: Table) => Object.values(getTableColumns(table)).map((column) => column.name);

/** What acceptance or planning fixed about a row, and the claim's own column, are never changed by a rule. */
const fixedOfRun = words(
  'id agent model language llm_timeout_ms llm_attempts on_limit input_is_text input_hash key tenant lane thread_id parent_id tags created_at started_at',
);
const fixedOfStep = words(
  'run_id seq kind turn_seq position call_id effect sequential call_hash idempotency_key input queued_at',
);

export const runColumns = columnsOf(runs).filter((column) => !fixedOfRun.includes(column));
export const stepColumns = columnsOf(steps);
export const movedColumns = stepColumns.filter((column) => !fixedOfStep.includes(column));
export const attemptColumns = columnsOf(attempts).filter((column) => column !== 'late_note');

export function words(text: string): string[] {
  return text.split(' ');
}

export const list = (columns: readonly string[], prefix = '') =>
  columns.map((column) => `${prefix}${column}`).join(', ');

/** Writes facts, but for those that stand so already: their history holds changes only. */
export const learn = (from: string) => `insert into pawl.facts (tenant, scope, owner, key, value, words, run_id, seq)
  select v.tenant, v.scope, v.owner, v.key, v.value, v.words, v.run_id, v.seq
  ${from} as v(tenant text, scope text, owner text, key text, value text, words text, run_id text, seq int)
  where v.value is distinct from (
    select f.value from pawl.facts f
    where f.tenant = v.tenant and f.scope = v.scope and f.owner = v.owner and f.key = v.key order by f.id desc limit 1)`;

/**
 * The guard locks the run and finds that no rule has written since the state the draft was made of: then that state is
 * still the run's, the claim included, since whatever takes a claim away is a rule. Every part depends on the guard.
 */
const writeSql = `
with guard as materialized (
  select id as guarded from pawl.runs where id = $2 and writes = $9 for no key update
), run_moved as (
  update pawl.runs set (${list(runColumns)}) =
    (select ${list(runColumns)} from json_populate_record(null::pawl.runs, $1::json))
  where id in (select guarded from guard)
  returning id
), planned as (
  insert into pawl.steps (${list(stepColumns)})
  select ${list(stepColumns)} from guard, json_populate_recordset(null::pawl.steps, $3::json)
), moved as (
  update pawl.steps s set (${list(movedColumns)}) = row(${list(movedColumns, 'n.')})
  from guard, json_populate_recordset(null::pawl.steps, $4::json) n where s.run_id = guard.guarded and s.seq = n.seq
), said as (
  insert into pawl.messages (run_id, seq, pos, tokens, body)
  select $2, seq, pos, tokens, body from guard, json_populate_recordset(null::pawl.messages, $5::json)
), archived as (
  insert into pawl.attempts (${list(attemptColumns)})
  select ${list(attemptColumns)} from guard, json_populate_recordset(null::pawl.attempts, $6::json)
), kept as (
  insert into pawl.outputs (run_id, seq, body)
  select $2, seq, body from guard, json_populate_recordset(null::pawl.outputs, $7::json)
), learned as (
  ${learn('from guard, json_to_recordset($10::json)')}
), told as (
  insert into pawl.events (run_id, id, type, seq, at, data)
select $2, id, type, seq, at, data from guard, json_populate_recordset(null::pawl.events, $8::json)
)
select guarded from guard`;

/** Rows of a change that hold JSON as text. */
export function textsOf(changes: Changes, now: Date) {
  return {
    outputs: changes.outputs,
    facts: changes.facts.map((fact) => ({ tenant: changes.run.tenant ?? '', run_id: changes.run.id, ...fact })),
    messages: changes.messages.map(({ seq, pos, tokens, message }) => ({
      ...{ seq, pos, tokens },
      body: JSON.stringify(message),
    })),
    events: changes.events.flatMap(({ id, type, seq, data }) =>
      type === completedType
        ? []
        : [{ id, type, seq, at: now, data: Object.keys(data).length === 0 ? null : JSON.stringify(data) }],
    ),
  };
}

/** The prepared statement that writes the changes; `now` dates its events. */
export function writeChanges(changes: Changes, now: Date) {
  const runId = changes.run.id;
  const { messages, outputs, facts, events } = textsOf(changes, now);
  const write = (step: StepState) => writeStepOnce(runId, step, changes.messages);
  return {
    name: 'pawl-write',
    text: writeSql,
    values: [
      JSON.stringify(writeRun(changes.run)),
      runId,
      JSON.stringify(changes.planned.map(write)),
      JSON.stringify(changes.changed.map(write)),
      JSON.stringify(messages),
      JSON.stringify(changes.attempts.map((attempt) => writeAttempt(runId, attempt))),
      JSON.stringify(outputs),
      JSON.stringify(events),
      changes.run.writes,
      JSON.stringify(facts),
    ],
  };
}
