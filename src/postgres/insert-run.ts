/**
 * Accepts a run: the run row, its task, its first step and its first event, in one statement that takes the agent's limits
 * from the registry. It inserts nothing for an unknown agent, nor for a key that names a run already.
 */
import type pg from 'pg';
import { PawlError } from '../core/errors.js';
import type { NewRun } from '../core/view.js';
import type { Dispatch } from '../ports.js';

const insertSql = `
with a as (
  -- Of the versions that a live worker serves the newest; of none served, the newest.
  select listing from pawl.agents g where name = $2
  order by exists (
    select 1 from pawl.workers w where w.state = 'live' and g.name || '@' || g.version = any(w.serves)
  ) desc, registered_at desc, version limit 1
), r as (
  insert into pawl.runs (
    id, agent, model, language, llm_name, llm_timeout_ms, llm_attempts, status, deadline_at, max_steps, max_turns, deadline_ms, on_limit,
    next_seq, open_steps, suspended_steps, steps_used, last_event, input_is_text, input_hash, key, tenant, tags)
  select $1, $2, $3, coalesce(listing->>'language', 'en'), coalesce($3, listing->>'model'), (listing->>'llmTimeoutMs')::int, (listing->>'llmAttempts')::int, 'pending',
    now() + coalesce($8::bigint, (listing#>>'{limits,deadlineMs}')::bigint) * interval '1 millisecond',
    coalesce($6::int, (listing#>>'{limits,maxSteps}')::int), coalesce($7::int, (listing#>>'{limits,maxTurns}')::int),
    coalesce($8::bigint, (listing#>>'{limits,deadlineMs}')::bigint), coalesce($9, listing#>>'{limits,onLimit}'),
    2, 1, 0, 1, 1, $10, $11, $4, $5, $12::jsonb
  from a
  on conflict (tenant, agent, key) where key is not null do nothing
  returning id, llm_name, llm_timeout_ms, llm_attempts
), s as (
  insert into pawl.steps (
    run_id, seq, kind, name, queue, status, due_at, dispatch, attempt, failures, crashes, claims, suspect, unknown, deferrals,
    max_attempts, timeout_ms, sequential, queued_at)
  select id, 1, 'llm', llm_name, 'llm', 'pending', now() + $13::bigint * interval '1 millisecond', 1, 0, 0, 0, 0, false, false, 0,
    llm_attempts, llm_timeout_ms, false, now()
  from r
), m as (
  insert into pawl.messages (run_id, seq, pos, body)
  select id, 0, 0, $14 from r
), e as (
  insert into pawl.events (run_id, id, type, at) select id, 1, 'run.created', now() from r
)
select (select count(*)::int from a) as known, (select id from r) as id`;

/** Null when the run's key is taken. */
export async function insertRun(
  pool: pg.Pool,
  run: NewRun,
  input: { task: string; isText: boolean; inputHash: string },
): Promise<{ id: string; created: boolean; dispatches: Dispatch[] } | null> {
  const { rows } = await pool.query<{ known: number; id: string | null }>({
    name: 'pawl-insert-run',
    text: insertSql,
    values: [
      run.id,
      run.agent,
      run.model,
      run.key,
      run.tenant ?? '',
      run.limits.maxSteps ?? null,
      run.limits.maxTurns ?? null,
      run.limits.deadlineMs ?? null,
      run.limits.onLimit ?? null,
      input.isText,
      input.inputHash,
      JSON.stringify(run.tags),
      run.delayMs,
      JSON.stringify({ role: 'user', content: input.task }),
    ],
  });
  const answer = rows[0];
  if (answer === undefined || answer.known === 0) {
    throw new PawlError(
      'unknown_agent',
      `no worker has registered an agent named ${JSON.stringify(run.agent)}; start a worker whose config defines it`,
    );
  }
  if (answer.id === null) return null;
  const dispatches = run.delayMs > 0 ? [] : [{ queue: 'llm', runId: answer.id, seq: 1, dispatch: 1 }];
  return { id: answer.id, created: true, dispatches };
}
