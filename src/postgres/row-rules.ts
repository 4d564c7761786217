/**
 * What must hold of each row of runs and of steps, by the names that a refusal gives. They stand in one function a table,
 * which the table's CHECK calls: Postgres reads and plans every CHECK anew for each statement that writes a row, and that of
 * twenty-seven was a good part of what a lone record cost. The functions are in the migrations; a test holds them to this
 * file.
 */
import { sql } from 'drizzle-orm';
import { check, type PgColumn } from 'drizzle-orm/pg-core';
import { onLimits, reasons, runStatuses } from '../core/run.js';
import { effects, stepKinds, stepStatuses, waitKinds } from '../core/step.js';

export interface RowRules {
  table: string;
  /** By name, true or null in a sound row. The first that is broken, in the order of the names, is the one that is named. */
  rules: Readonly<Record<string, string>>;
}

export const oneOf = (column: string, values: readonly string[]) =>
  `${column} in (${values.map((value) => `'${value}'`).join(', ')})`;

export const runRules: RowRules = {
  table: 'runs',
  rules: {
    runs_budgets: '(max_tokens is null or max_tokens > 0) and (max_cost_usd is null or max_cost_usd > 0)',
    runs_conduct_is_an_object: `conduct is null or conduct like '{%}'`,
    runs_end: `(status in ('completed', 'failed', 'cancelled')) = (finished_at is not null)`,
    runs_ending_is_whole:
      '(ending_at is null) = (ending_status is null) and (ending_at is null) = (ending_reason is null)',
    runs_failed_has_reason: `status not in ('failed', 'cancelled') or reason is not null`,
    runs_final_is_not_ending: 'finished_at is null or (ending_at is null and pause_at is null)',
    runs_key_length: 'key is null or length(key) between 1 and 255',
    runs_on_limit: oneOf('on_limit', onLimits),
    runs_reason: `reason is null or ${oneOf('reason', reasons)}`,
    runs_reserve: 'reserve_input >= 0 and reserve_output >= 0 and (reserve_usd is null or reserve_usd >= 0)',
    runs_status: oneOf('status', runStatuses),
    runs_steps_match_status: `case
      when status in ('pending', 'running') then open_steps > suspended_steps and suspended_steps >= 0
      when status = 'suspended' then open_steps = suspended_steps and open_steps > 0
      else open_steps = 0 and suspended_steps = 0 end`,
    runs_thread_is_held: 'not holds_thread or (thread_id is not null and finished_at is null)',
    runs_thread_length: 'thread_id is null or length(thread_id) between 1 and 255',
  },
};

export const stepRules: RowRules = {
  table: 'steps',
  rules: {
    steps_claim_is_whole: 'num_nulls(claim_token, worker_id, claimed_at, claim_deadline) in (0, 4)',
    steps_claim_matches_status: `case
      when status = 'running' then claim_token is not null
      when status in ('pending', 'suspended') then claim_token is null
      else true end`,
    steps_counts: 'seq > 0 and dispatch >= 0 and attempt >= 0 and failures >= 0 and crashes >= 0 and claims >= 0',
    steps_dead_says_why: `status <> 'dead' or error_code is not null`,
    steps_effect: `effect is null or ${oneOf('effect', effects)}`,
    steps_end: `(status in ('completed', 'dead', 'cancelled')) = (finished_at is not null)`,
    steps_kind: oneOf('kind', stepKinds),
    steps_once_has_one_attempt: `effect is distinct from 'once' or max_attempts = 1`,
    steps_status: oneOf('status', stepStatuses),
    steps_suspended_names_its_wait: `(status = 'suspended') = (waiting_for is not null)`,
    steps_tool_is_whole: `(kind = 'tool') = (num_nulls(turn_seq, position, call_id, effect) = 0)`,
    steps_unknown_is_once: `not unknown or effect is not distinct from 'once'`,
    steps_waiting_for: `waiting_for is null or ${oneOf('waiting_for', waitKinds)}`,
  },
};

/** The CHECK of a table: its columns that the rules read, handed to the function that holds them. */
export function checkRows({ table, rules }: RowRules, columns: Readonly<Record<string, PgColumn>>) {
  const names = readBy(rules, columns).map(({ name }) => name);
  return check(`${table}_are_sound`, sql.raw(`pawl.${table}_are_sound(${names.join(', ')})`));
}

/** The function as a migration makes it: refuses a row that breaks a rule as a CHECK of that name would. */
export function functionOf({ table, rules }: RowRules, columns: Readonly<Record<string, PgColumn>>): string {
  const given = readBy(rules, columns).map((column) => `"${column.name}" ${column.getSQLType()}`);
  const cases = Object.entries(rules).map(([name, rule]) => `    when not (${rule}) then '${name}'`);
  return `CREATE OR REPLACE FUNCTION "pawl"."${table}_are_sound"(${given.join(', ')}) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
declare
  broken constant text := case
${cases.join('\n')}
  end;
begin
  if broken is null then return true; end if;
  raise check_violation using schema = 'pawl', table = '${table}', constraint = broken,
    message = format('new row for relation "${table}" violates check constraint "%s"', broken);
end $$;`;
}

function readBy(rules: RowRules['rules'], columns: Readonly<Record<string, PgColumn>>): PgColumn[] {
  const text = Object.values(rules)
    .join(' ')
    .replaceAll(/'[^']*'/g, '');
  return Object.values(columns).filter(({ name }) => new RegExp(`\\b${name}\\b`).test(text));
}
