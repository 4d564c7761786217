/**
 * Claim and load: one guarded statement takes a step over, fenced by its token, and returns what the step needs. It locks
 * the run row first and tests it under the lock: behind a cancel that commits meanwhile it finds nothing. Only when it
 * took nothing is the reason looked up.
 */
import type pg from 'pg';
import type { ClaimAnswer, ClaimRequest, Refusal } from '../ports.js';
import { type MessageRow, type RunRow, readMessage, readRun, readStep, type StepRow } from './rows.js';

// The time it returns is rounded as the columns are, or it could lie before the claim's own.
// A step may be claimed this much before it is due: a queue's clock and the database's never agree to the millisecond.
const claimSql = `
with r as (
  select * from pawl.runs
  where id = $1 and ending_at is null and pause_at is null and finished_at is null
  for no key update
), served as (
  select v.version from r, unnest($7::text[], $8::text[]) as v(agent, version)
  where v.agent = r.agent and (r.agent_version is null or r.agent_version = v.version)
), s as (
  update pawl.steps s set
    status = 'running', claim_token = $4, worker_id = $5, claimed_at = clock_timestamp(),
    claim_deadline = clock_timestamp() + s.timeout_ms * interval '1 millisecond',
    attempt = s.attempt + case when s.unknown or s.status = 'running' then 0 else 1 end,
    started_at = coalesce(s.started_at, clock_timestamp())
  from r, served
  where s.run_id = r.id and s.seq = $2 and s.dispatch = $3
    and (
      (s.status = 'pending' and s.due_at <= clock_timestamp() + interval '50 milliseconds' and ($6 or not s.suspect))
      or (s.status = 'running' and s.claim_token = $4)
    )
    and exists (select 1 from pawl.workers w where w.id = $5 and w.state = 'live')
  returning s.*
), started as (
  update pawl.runs set
    status = 'running', started_at = coalesce(runs.started_at, clock_timestamp()),
    agent_version = coalesce(runs.agent_version, served.version),
    last_event = runs.last_event + case when runs.started_at is null then 1 else 0 end
  from s, served where runs.id = s.run_id and (runs.started_at is null or runs.agent_version is null)
  returning runs.id, runs.started_at, runs.agent_version, runs.last_event, (select started_at from r) as was_started_at
), told as (
  insert into pawl.events (run_id, id, type, at) select id, last_event, 'run.started', started_at from started
  where was_started_at is null
)
select
  row_to_json(r)::text as run, row_to_json(s)::text as step,
  coalesce(started.agent_version, r.agent_version) as agent_version,
  coalesce(started.started_at, r.started_at) as started_at,
  coalesce(started.last_event, r.last_event) as last_event,
  clock_timestamp()::timestamptz(3) as now,
  (select json_agg(json_build_object('seq', m.seq, 'pos', m.pos, 'tokens', m.tokens, 'body', m.body) order by m.seq, m.pos)
   from pawl.messages m
   where s.kind = 'llm' and m.run_id = r.id and (m.seq = 0 or m.seq >= r.window_from)) as messages
from s cross join r left join started on true`;

interface ClaimRow {
  run: string;
  step: string;
  agent_version: string | null;
  started_at: Date;
  last_event: number;
  now: Date;
  messages: MessageRow[] | null;
}

export async function claimStep(pool: pg.Pool, request: ClaimRequest): Promise<ClaimAnswer> {
  const { rows } = await pool.query<ClaimRow>({
    name: 'pawl-claim',
    text: claimSql,
    values: [
      request.runId,
      request.seq,
      request.dispatch,
      request.token,
      request.workerId,
      request.takesSuspect,
      [...request.serves.keys()],
      [...request.serves.values()],
    ],
  });
  const row = rows[0];
  if (row === undefined) return { claimed: false, refusal: await explainRefusal(pool, request) };
  const run = readRun({
    ...(JSON.parse(row.run) as RunRow),
    status: 'running',
    agent_version: row.agent_version,
    started_at: row.started_at,
    last_event: row.last_event,
  });
  const step = readStep(JSON.parse(row.step) as StepRow);
  return { claimed: true, run, step, messages: (row.messages ?? []).map(readMessage), now: row.now };
}

interface RefusalRow {
  dispatch: number;
  status: string;
  suspect: boolean;
  is_due: boolean;
  is_ending: boolean;
  agent: string;
  agent_version: string | null;
  worker_lives: boolean;
}

async function explainRefusal(pool: pg.Pool, request: ClaimRequest): Promise<Refusal> {
  const { rows } = await pool.query<RefusalRow>({
    name: 'pawl-refusal',
    text: `select s.dispatch, s.status, s.suspect, s.due_at <= clock_timestamp() + interval '50 milliseconds' as is_due,
        r.ending_at is not null as is_ending, r.agent, r.agent_version,
        exists (select 1 from pawl.workers w where w.id = $3 and w.state = 'live') as worker_lives
      from pawl.steps s join pawl.runs r on r.id = s.run_id where s.run_id = $1 and s.seq = $2`,
    values: [request.runId, request.seq, request.workerId],
  });
  const row = rows[0];
  if (row === undefined || row.dispatch !== request.dispatch) return 'stale';
  switch (row.status) {
    case 'completed':
    case 'cancelled':
      return 'done';
    case 'dead':
    case 'suspended':
      return row.status;
    case 'running':
      return 'claimed';
  }
  if (!row.worker_lives) return 'worker_dead';
  if (row.is_ending) return 'ending';
  const version = request.serves.get(row.agent);
  if (version === undefined || (row.agent_version !== null && row.agent_version !== version)) return 'not_served';
  if (!row.is_due) return 'not_due';
  if (row.suspect && !request.takesSuspect) return 'suspect_slot';
  // It moved between the two statements; whoever moved it dispatches it again.
  return 'stale';
}
