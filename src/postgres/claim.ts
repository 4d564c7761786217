/**
 * Claim and load: one guarded statement takes steps over, each fenced by its token, and returns what they need. It locks the
 * run rows first and tests them under the lock: behind a cancel that commits meanwhile it finds nothing. Claims that are
 * made at the same time go in one statement, which waits for nobody (`skip locked`); what it did not take is asked for
 * alone, and only then is the reason of a refusal looked up. What this process knows of a run is not loaded again.
 */
import type pg from 'pg';
import { isShown } from '../core/context.js';
import type { StoredMessage } from '../core/message.js';
import type { RunState } from '../core/run.js';
import type { StepState } from '../core/step.js';
import { noStops, type StoppedTool } from '../core/tool-stop.js';
import type { ClaimAnswer, ClaimRequest, Refusal } from '../ports.js';
import { gather } from './gather.js';
import { type MessageRow, type RunRow, readMessage, readRun, readStep, type StepRow } from './rows.js';
import { fromTheStart, type RunCache, readFrom } from './run-cache.js';
import { inputOf } from './step-texts.js';

/** Claims in one statement. */
const mostAtOnce = 100;

// The time it returns is rounded as the columns are, or it could lie before the claim's own.
// A step may be claimed this much before it is due: a queue's clock and the database's never agree to the millisecond.
// A claim whose loss is harmless does not wait for the disk: its record finds the step pending, and claims it as well. The
// claim of a `once` call is the intent and must be there before the call; that of a first step has begun the run.
// Rows are wide and batches join each with all, so no whole row is carried along: what a process must read of a run and a
// step it does not know becomes JSON where the row is at hand. The run's is that of its locked version.
// Postgres makes this ready whether or not there is a run for it, so claims of runs that have begun go without. A run that is not
// as it was known (a redrive takes its version away) is not taken, and asked for alone.
const beginSql = `, started as (
  update pawl.runs set
    status = 'running', started_at = coalesce(runs.started_at, clock_timestamp()),
    agent_version = coalesce(runs.agent_version, s.version),
    last_event = runs.last_event + case when runs.started_at is null then 1 else 0 end
  from s
  where runs.id = s.run_id and (s.run_started_at is null or s.agent_version is null)
    and (runs.started_at is null or runs.agent_version is null)
  returning runs.id, runs.started_at, runs.agent_version, runs.last_event, s.run_started_at as was_started_at
), told as (
  insert into pawl.events (run_id, id, type, at) select id, last_event, 'run.started', started_at from started
  where was_started_at is null
)`;

const startedSql = `(select row_to_json(t) from (
      select agent_version, started_at, last_event from started where started.id = s.run_id) t)`;

const claimSql = ({ locking, begins }: ClaimKind) => `
with r as materialized (
  select id, agent, agent_version, started_at, window_from, summary_seq, ($10::int[])[array_position($1::text[], id)] as read_from,
    case when writes is distinct from ($9::int[])[array_position($1::text[], id)] then row_to_json(runs) end as run
  from pawl.runs
  where id = any($1) and ending_at is null and pause_at is null and finished_at is null${begins ? '' : ' and started_at is not null'}
  order by id for no key update ${locking}
), s as (
  update pawl.steps s set
    status = 'running', claim_token = a.token, worker_id = $5, claimed_at = clock_timestamp(),
    claim_deadline = clock_timestamp() + s.timeout_ms * interval '1 millisecond',
    attempt = s.attempt + case when s.unknown or s.status = 'running' then 0 else 1 end,
    started_at = coalesce(s.started_at, clock_timestamp())
  from unnest($1::text[], $2::int[], $3::int[], $4::uuid[]) as a(run_id, seq, dispatch, token)
    join r on r.id = a.run_id
    join unnest($7::text[], $8::text[]) as v(agent, version)
      on v.agent = r.agent and (${begins ? 'r.agent_version is null or ' : ''}r.agent_version = v.version)
  where s.run_id = a.run_id and s.seq = a.seq and s.dispatch = a.dispatch
    and (
      (s.status = 'pending' and s.due_at <= clock_timestamp() + interval '50 milliseconds' and ($6 or not s.suspect))
      or (s.status = 'running' and s.claim_token = a.token)
    )
    and exists (select 1 from pawl.workers w where w.id = $5 and w.state = 'live')
  returning s.run_id, s.kind, s.effect, s.claim_token, s.attempt, s.claimed_at, s.claim_deadline, v.version, r.window_from, r.summary_seq, r.read_from,
    r.agent_version, r.started_at as run_started_at, r.run, case when r.run is not null then row_to_json(s) end as step,
    case when r.run is not null then ${inputOf('s')} end as input
)${begins ? beginSql : ''}
select
  s.claim_token as token, s.attempt,
  (extract(epoch from s.claimed_at) * 1000)::float8 as "claimedAt",
  (extract(epoch from s.claim_deadline) * 1000)::float8 as "deadlineAt",
  (extract(epoch from clock_timestamp()::timestamptz(3)) * 1000)::float8 as now,
  case when s.run is not null then json_build_object(
    'run', s.run, 'step', s.step, 'input', s.input,
    'started', ${begins ? startedSql : 'null'},
    'messages', (
      select json_agg(json_build_object('seq', m.seq, 'pos', m.pos, 'tokens', m.tokens, 'body', m.body) order by m.seq, m.pos)
      from pawl.messages m
      where s.kind = 'llm' and m.run_id = s.run_id
        and (m.seq >= greatest(s.window_from, s.read_from) or (m.seq = 0 and s.read_from < 0)
          or (m.seq = s.summary_seq and m.seq >= s.read_from)))) end as loaded,
  (select json_agg(json_build_object('tool', t.tool, 'agent', nullif(t.agent, ''), 'isOut', t.is_out)) from (
    select tool, agent, false as is_out from pawl.tool_stops
    union all select tool, agent, true from pawl.tool_outages where opened_at is not null) t) as stops,
  (select case when ${begins ? 'not exists (select 1 from started) and ' : ''}not exists (select 1 from s where s.effect = 'once')
    then set_config('synchronous_commit', 'off', true) end) as lasting
from s`;

interface ClaimKind {
  locking: 'skip locked' | '';
  /** Whether it may be the first claim of a run. */
  begins: boolean;
}

interface ClaimRow {
  token: string;
  attempt: number;
  claimedAt: number;
  deadlineAt: number;
  now: number;
  /** Null: there are none. */
  stops: StoppedTool[] | null;
  /** Null: the process knows the run as it still is. */
  loaded: {
    run: RunRow;
    step: StepRow;
    input: string | null;
    /** What this claim changed of the run; null: nothing. */
    started: Pick<RunRow, 'agent_version' | 'started_at' | 'last_event'> | null;
    messages: MessageRow[] | null;
  } | null;
}

interface Asked {
  request: ClaimRequest;
  answer(taken: ClaimAnswer | null): void;
  fail(error: unknown): void;
}

/** `lane`: where batches go, one at a time; `pool`: for what has to wait, or be explained. */
export function createClaims({ pool, lane, cache }: { pool: pg.Pool; lane: pg.Pool; cache: RunCache }) {
  const batches = gather<Asked>({
    take: takeAlike,
    async send(batch) {
      const taken = await claimSteps(
        lane,
        cache,
        batch.map(({ request }) => request),
        { locking: 'skip locked', begins: batch.some(({ request }) => !hasBegun(cache.get(request.runId)?.run)) },
      );
      for (const { request, answer } of batch) answer(taken.get(request.token) ?? null);
    },
    fail: ({ fail }, error) => fail(error),
  });

  return async function claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const taken = request.takesSuspect
      ? null
      : await new Promise<ClaimAnswer | null>((answer, fail) => batches.add({ request, answer, fail }));
    return taken ?? claimAlone(pool, cache, request);
  };
}

/** Claims under one registration, which serves the same; there are others only for a moment. */
function takeAlike(queue: Asked[]): Asked[] {
  const first = queue[0]?.request;
  let count = 0;
  for (const { request } of queue) {
    if (request.workerId !== first?.workerId || request.serves !== first.serves || count === mostAtOnce) break;
    count += 1;
  }
  return queue.splice(0, count);
}

async function claimAlone(pool: pg.Pool, cache: RunCache, request: ClaimRequest): Promise<ClaimAnswer> {
  const taken = (await claimSteps(pool, cache, [request], { locking: '', begins: true })).get(request.token);
  return taken ?? { claimed: false, refusal: await explainRefusal(pool, request) };
}

/** The claims that were taken, by token. */
async function claimSteps(
  pool: pg.Pool,
  cache: RunCache,
  requests: readonly ClaimRequest[],
  kind: ClaimKind,
): Promise<Map<string, ClaimAnswer>> {
  const [first] = requests;
  if (first === undefined) return new Map();
  const known = requests.map((request) => knownFor(cache, request));
  const begun = requests.map(({ runId }) => beginningOf(cache, runId));
  const { rows } = await pool.query<ClaimRow>({
    name: kind.locking === '' ? 'pawl-claim' : kind.begins ? 'pawl-claims-first' : 'pawl-claims',
    text: claimSql(kind),
    values: [
      requests.map(({ runId }) => runId),
      requests.map(({ seq }) => seq),
      requests.map(({ dispatch }) => dispatch),
      requests.map(({ token }) => token),
      first.workerId,
      first.takesSuspect,
      [...first.serves.keys()],
      [...first.serves.values()],
      writesKnown(requests, known),
      begun.map(({ readFrom }) => readFrom),
    ],
  });
  const byToken = new Map(rows.map((row) => [row.token, row]));
  const taken = new Map<string, ClaimAnswer>();
  requests.forEach((request, index) => {
    const row = byToken.get(request.token);
    if (row === undefined) return;
    const claim =
      row.loaded === null ? recall(request, row, known[index] ?? null) : read(row, row.loaded, begun[index] ?? nothing);
    if (row.loaded !== null) cache.loaded(claim.run, claim.step.kind === 'llm' ? claim.messages : null);
    cache.claimed(request.runId, claim.step);
    taken.set(request.token, claim);
  });
  return taken;
}

function hasBegun(run: RunState | undefined): boolean {
  return run !== undefined && run.startedAt !== null && run.agentVersion !== null;
}

const nothing: Beginning = { readFrom: fromTheStart, messages: [] };

type Claimed = Extract<ClaimAnswer, { claimed: true }>;

interface Known {
  run: RunState;
  step: StepState;
  messages: StoredMessage[];
}

/** All that the claim needs of a run, as it was when the process last recorded or claimed a step of it; null: not known. */
function knownFor(cache: RunCache, { runId, seq }: ClaimRequest): Known | null {
  const known = cache.get(runId);
  const step = known?.steps.get(seq);
  if (known === undefined || step === undefined) return null;
  if (step.kind === 'tool') return { run: known.run, step, messages: [] };
  const isWhole = known.messages !== null && !known.isBehind;
  return isWhole ? { run: known.run, step, messages: [...(known.messages ?? [])] } : null;
}

/** For each request the count of writes at which all that the batch asks of its run is known; -1: not all of it is. */
function writesKnown(requests: readonly ClaimRequest[], known: readonly (Known | null)[]): number[] {
  const unknown = new Set(requests.filter((_, index) => known[index] === null).map(({ runId }) => runId));
  return requests.map(({ runId }, index) => (unknown.has(runId) ? -1 : (known[index]?.run.writes ?? -1)));
}

/**
 * The messages that a process knows of a run which others have gone on with, and the turn from which on it has to read: since
 * messages are only added, at the end, what is before the last turn that it knows is all there.
 */
function beginningOf(cache: RunCache, runId: string): Beginning {
  const known = cache.get(runId);
  return { readFrom: readFrom(known), messages: known?.messages ?? [] };
}

interface Beginning {
  readFrom: number;
  /** Those of the turn to read from, and later ones, may be among them. */
  messages: readonly StoredMessage[];
}

function read(row: ClaimRow, loaded: NonNullable<ClaimRow['loaded']>, begun: Beginning): Claimed {
  const run = readRun({ ...loaded.run, status: 'running', ...loaded.started });
  const step = readStep({ ...loaded.step, input: loaded.input });
  const isKnown = ({ seq }: StoredMessage) => seq < begun.readFrom && isShown(seq, run);
  const added = (loaded.messages ?? []).map(readMessage);
  return {
    claimed: true,
    run,
    step,
    messages: step.kind === 'llm' ? [...begun.messages.filter(isKnown), ...added] : [],
    stops: row.stops ?? noStops,
    now: new Date(row.now),
  };
}

/** What is known, with what the claim changed. */
function recall({ dispatch, token, workerId }: ClaimRequest, row: ClaimRow, known: Known | null): Claimed {
  if (known === null) throw new Error('a claim returned nothing of a run that this process does not know');
  const startedAt = new Date(row.claimedAt);
  const step: StepState = {
    ...known.step,
    status: 'running',
    dispatch,
    claim: { token, workerId, startedAt, deadlineAt: new Date(row.deadlineAt) },
    attempt: row.attempt,
    startedAt: known.step.startedAt ?? startedAt,
  };
  return {
    claimed: true,
    run: known.run,
    step,
    messages: known.messages,
    stops: row.stops ?? noStops,
    now: new Date(row.now),
  };
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
