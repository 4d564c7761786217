/**
 * Accepts runs, one or many: the run rows, their tasks, first steps and first events, in one statement that takes each
 * agent's limits from the registry. It inserts nothing for an unknown agent, nor for a key that names a run already.
 */
import type pg from 'pg';
import type { NewRun } from '../core/view.js';

export interface Inserted {
  made: ReadonlySet<string>;
  waiting: ReadonlySet<string>;
  busy: ReadonlySet<string>;
  agents: ReadonlySet<string>;
}

/** A run to be accepted, with its task as the model gets it. */
export interface TaskedRun extends NewRun {
  task: string;
  inputHash: string;
}

// Rows go in by the order of their keys: of two callers with the same keys one waits, never each for the other. Of two rows
// with one key the first wins.
const insertSql = `
with asked as (
  select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::int[], $8::bigint[], $9::text[], $10::boolean[],
    $11::text[], $12::text[], $13::bigint[], $14::text[], $15::bigint[], $16::float8[], $17::text[]
  ) with ordinality
    as t (id, agent, model, key, tenant, max_steps, max_turns, deadline_ms, on_limit, input_is_text, input_hash, tags, delay_ms, task, max_tokens, max_cost_usd, thread_id, n)
), a as (
  -- Of the versions that a live worker serves the newest; of none served, the newest.
  select distinct on (name) name, listing from pawl.agents g where name in (select agent from asked)
  order by name, exists (
    select 1 from pawl.workers w where w.state = 'live' and g.name || '@' || g.version = any(w.serves)
  ) desc, registered_at desc, version
), threaded as (
  -- The caller holds the locks of the threads: nobody else starts a run in them meanwhile.
  select q.id, q.thread_id is not null and (
      exists (select 1 from pawl.runs x where x.tenant = q.tenant and x.thread_id = q.thread_id and x.finished_at is null)
      or exists (select 1 from asked e where e.tenant = q.tenant and e.thread_id = q.thread_id and e.n < q.n)) as busy
  from asked q
), turns as (
  select q.id, busy and coalesce(listing->>'busyThread', 'wait') = 'refuse' as refused, q.thread_id is not null and (busy or q.delay_ms > 0) as waits
  from asked q join threaded using (id) join a on a.name = q.agent
), priced as (
  -- Of the first call: what is always sent, the task at a token for three bytes, and an answer. The price is that of the agent's
  -- own model.
  select q.id, i as reserve_input, o as reserve_output,
    case when q.model is null or q.model = listing->>'model' then
      (i * (listing#>>'{price,input}')::float8 + o * (listing#>>'{price,output}')::float8) / 1e6 end as reserve_usd
  from asked q join a on a.name = q.agent, lateral (
    select coalesce((listing#>>'{reserve,inputTokens}')::int, 0) + octet_length(q.task) / 3 as i,
      coalesce((listing#>>'{reserve,outputTokens}')::int, 0) as o
  ) t
), r as (
  insert into pawl.runs (
    id, agent, model, language, llm_name, llm_timeout_ms, llm_attempts, status, deadline_at, max_steps, max_turns, max_tokens, max_cost_usd,
    deadline_ms, on_limit, reserve_input, reserve_output, reserve_usd, next_seq, open_steps, suspended_steps, steps_used, last_event, input_is_text, input_hash, key, tenant, tags, thread_id, holds_thread)
  select q.id, q.agent, q.model, coalesce(listing->>'language', 'en'), coalesce(q.model, listing->>'model'),
    (listing->>'llmTimeoutMs')::int, (listing->>'llmAttempts')::int, case when waits then 'suspended' else 'pending' end,
    now() + coalesce(q.deadline_ms, (listing#>>'{limits,deadlineMs}')::bigint) * interval '1 millisecond',
    coalesce(q.max_steps, (listing#>>'{limits,maxSteps}')::int), coalesce(q.max_turns, (listing#>>'{limits,maxTurns}')::int),
    coalesce(q.max_tokens, (listing#>>'{limits,maxTokens}')::bigint),
    coalesce(q.max_cost_usd, (listing#>>'{limits,maxCostUsd}')::float8),
    coalesce(q.deadline_ms, (listing#>>'{limits,deadlineMs}')::bigint), coalesce(q.on_limit, listing#>>'{limits,onLimit}'),
    reserve_input, reserve_output, reserve_usd, 2, 1, waits::int, 1,
    case when waits then 3 else 1 end, q.input_is_text, q.input_hash, q.key, q.tenant, q.tags::jsonb, q.thread_id,
    q.thread_id is not null and not waits
  from asked q join a on a.name = q.agent join priced p on p.id = q.id join turns t on t.id = q.id and not t.refused
  order by q.tenant, q.agent, q.key, q.n
  on conflict (tenant, agent, key) where key is not null do nothing
  returning id, llm_name, llm_timeout_ms, llm_attempts, thread_id, suspended_steps > 0 as waits
), s as (
  insert into pawl.steps (
    run_id, seq, kind, name, queue, status, due_at, dispatch, attempt, failures, crashes, claims, suspect, unknown, deferrals,
    max_attempts, timeout_ms, sequential, queued_at, waiting_for, wait_detail)
  select id, 1, 'llm', llm_name, 'llm', case when waits then 'suspended' else 'pending' end,
    now() + delay_ms * interval '1 millisecond', case when waits then 0 else 1 end, 0, 0, 0, 0, false, false, 0,
    llm_attempts, llm_timeout_ms, false, now(), case when waits then 'slot' end, case when waits then r.thread_id end
  from r join asked using (id)
), m as (
  insert into pawl.messages (run_id, seq, pos, body)
  select id, 0, 0, task from r join asked using (id)
), e as (
  insert into pawl.events (run_id, id, type, seq, at, data)
  select id, 1, 'run.created', null::int, now(), null from r
  union all select id, 2, 'step.suspended', 1, now(), json_build_object('waitingFor', 'slot', 'detail', thread_id)::text from r where waits
  union all select id, 3, 'run.suspended', null, now(), null from r where waits
)
select array(select id from r) as ids, array(select id from r where waits) as waiting,
  array(select id from turns where refused) as busy, array(select name from a) as known`;

/**
 * Ids of the runs that were made, of those among them that wait for their thread and of those refused for it, and the names
 * that are agents. What is in none has a key that was taken.
 */
export async function insertRuns(client: Pick<pg.Pool, 'query'>, runs: readonly TaskedRun[]): Promise<Inserted> {
  const column = <T>(read: (run: TaskedRun) => T): T[] => runs.map(read);
  const { rows } = await client.query<{ ids: string[]; waiting: string[]; busy: string[]; known: string[] }>({
    name: 'pawl-insert-runs',
    text: insertSql,
    values: [
      column((run) => run.id),
      column((run) => run.agent),
      column((run) => run.model),
      column((run) => run.key),
      column((run) => run.tenant ?? ''),
      column((run) => run.limits.maxSteps ?? null),
      column((run) => run.limits.maxTurns ?? null),
      column((run) => run.limits.deadlineMs ?? null),
      column((run) => run.limits.onLimit ?? null),
      column((run) => typeof run.input === 'string'),
      column((run) => run.inputHash),
      column((run) => JSON.stringify(run.tags)),
      column((run) => run.delayMs),
      column((run) => JSON.stringify({ role: 'user', content: run.task })),
      column((run) => run.limits.maxTokens ?? null),
      column((run) => run.limits.maxCostUsd ?? null),
      column((run) => run.threadId),
    ],
  });
  const [found] = rows;
  return {
    made: new Set(found?.ids),
    waiting: new Set(found?.waiting),
    busy: new Set(found?.busy),
    agents: new Set(found?.known),
  };
}
