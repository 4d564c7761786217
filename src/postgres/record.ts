/**
 * Records: what a worker's rules make of the state that a claim returned, written without a lock held while the rule works.
 * Records of different runs that are made at the same time go in one statement, one row a run, each fenced by itself: the
 * run's counter of writes must stand where the state was read, and the step must be the claim's. The statement waits for
 * nobody (`skip locked`). What it did not write is for the caller to make again under the run's lock (store.ts).
 */
import { getTableColumns, type Table } from 'drizzle-orm';
import type pg from 'pg';
import { type Changes, Draft, NeedsOpenSteps } from '../core/draft.js';
import type { StepState } from '../core/step.js';
import type { Dispatch, KnownState } from '../ports.js';
import { gather } from './gather.js';
import { rowWriter } from './row-text.js';
import { type StepRow, writeAttempt, writeRun } from './rows.js';
import type { RunCache } from './run-cache.js';
import { runs, steps } from './schema.js';
import { writeStepOnce } from './step-texts.js';
import { attemptColumns, learn, list, movedColumns, runColumns, stepColumns, textsOf, words } from './write.js';

/** Records in one statement, and characters of its parameters after which no more are added. */
const mostAtOnce = 100;
const mostChars = 1_000_000;

/** Of the run row, what such a record does not change: it is written under the lock. See `isNarrow`. */
const underLock = words(
  'ending_status ending_reason ending_error_code ending_error_message ending_at pause_at deadline_at agent_version llm_name max_steps max_turns max_tokens max_cost_usd deadline_ms',
);
/** Of a step that was planned just now: nothing has happened to it. */
const untouched = words(
  'claim_token worker_id claimed_at claim_deadline input_tokens cached_input_tokens output_tokens cost_usd usage_estimated shown_attempts started_at',
);
const zeros = words('attempt failures crashes claims deferrals');
const falses = words('suspect unknown');

/** Of a step that has its outcome, all that its record changes of it: nearly every record is one like that. */
const outcomeKeys = words('name status suspect unknown output error note usage completedEvent finishedAt');
const ofOutcome = words(
  'name status suspect unknown output error_code error_message note input_tokens cached_input_tokens output_tokens cost_usd usage_estimated completed_event finished_at',
);

// Whatever column a later version adds is written too.
const ofRuns = runColumns.filter((name) => !underLock.includes(name));
const ofPlanned = stepColumns.filter((name) => ![...untouched, ...zeros, ...falses].includes(name));
const runText = rowWriter(ofRuns);
const outcomeText = rowWriter(ofOutcome);
const stepText = rowWriter(movedColumns);
const plannedText = rowWriter(ofPlanned);

function typed(table: Table, names: readonly string[]): string {
  const types = new Map(Object.values(getTableColumns(table)).map((column) => [column.name, column.getSQLType()]));
  return names.map((name) => `${name} ${types.get(name)}`).join(', ');
}

// The guard reads its few columns from arrays, and what is written looks up its JSON row by key: joined, a wide row would be
// carried through every pair of a batch. `$5` to `$9`: run, step, token, dispatch, count of writes of each record.
// Where a claim was lost with the server's memory, a record with all columns of the step is also the claim.
// The steps are joined to what names both the run and the seq: given a run from elsewhere, Postgres may read all its steps for one.
const recordSql = (ofStep: readonly string[], more: string) => `
with asked as materialized (
  select r.id, n.seq, n.token, n.dispatch from unnest($5::text[], $6::int[], $7::uuid[], $8::int[], $9::int[]) as n(id, seq, token, dispatch, writes)
    join pawl.runs r on r.id = n.id and r.writes = n.writes
  order by r.id for no key update of r skip locked
), guard as materialized (
  select a.id, a.seq from asked a join pawl.steps s on s.run_id = a.id and s.seq = a.seq
  where s.claim_token = a.token or (${ofStep === movedColumns} and s.status = 'pending' and s.dispatch = a.dispatch)
  for no key update of s
), run_moved as (
  update pawl.runs r set (${list(ofRuns)}) = (
    select ${list(ofRuns)} from json_to_recordset($1::json) as n(id text, ${typed(runs, ofRuns)}) where n.id = r.id)
  from guard where r.id = guard.id
), moved as (
  update pawl.steps s set (${list(ofStep)}) = (
    select ${list(ofStep)} from json_to_recordset($2::json) as v(run_id text, ${typed(steps, ofStep)})
    where v.run_id = s.run_id)
  from guard where s.run_id = guard.id and s.seq = guard.seq
), planned as (
  insert into pawl.steps (${list([...ofPlanned, ...zeros, ...falses])})
  select ${list([...ofPlanned, ...zeros.map(() => '0'), ...falses.map(() => 'false')])}
  from json_to_recordset($3::json) as v(${typed(steps, ofPlanned)}) where run_id = any(array(select id from guard))
), said as (
  insert into pawl.messages (run_id, seq, pos, tokens, body)
  select * from json_to_recordset($4::json) as v(run_id text, seq int, pos int, tokens int, body text)
  where run_id = any(array(select id from guard))
)${more}
select id from guard`;

const toldSql = `, told as (
  insert into pawl.events (run_id, id, type, seq, at, data)
  select * from json_to_recordset($10::json) as v(run_id text, id int, type text, seq int, at timestamptz, data text)
  where run_id = any(array(select id from guard))
)`;

const seldomSql = `, archived as (
  insert into pawl.attempts (${list(attemptColumns)})
  select ${list(attemptColumns)} from json_populate_recordset(null::pawl.attempts, $11::json)
  where run_id = any(array(select id from guard))
), kept as (
  insert into pawl.outputs (run_id, seq, body)
  select * from json_to_recordset($12::json) as v(run_id text, seq int, body text)
  where run_id = any(array(select id from guard))
), learned as (
  ${learn('from json_to_recordset($13::json)')} and v.run_id = any(array(select id from guard))
)`;

// Postgres makes every part of a statement ready, whether or not it has rows: what is seldom needed has statements of its own.
const whole = { name: 'pawl-record-whole', text: recordSql(movedColumns, toldSql + seldomSql), parts: 8 };
const plain = [
  { name: 'pawl-record', text: recordSql(ofOutcome, ''), parts: 4 },
  { name: 'pawl-record-told', text: recordSql(ofOutcome, toldSql), parts: 5 },
];

export interface ClaimedRecord<T> {
  known: KnownState;
  rule: (draft: Draft) => T;
}

type Written<T> = { value: T; dispatches: Dispatch[] } | null;

interface Waiting {
  record: ClaimedRecord<unknown>;
  answer(written: Written<unknown>): void;
  fail(error: unknown): void;
}

/** A record whose rule has run, with its parts of the statement's parameters. */
interface Made extends Waiting {
  changes: Changes;
  value: unknown;
  fence: Fence;
  /** As outcomes are written; of a step that got none, and in a batch with such a one, all its columns are. */
  parts: string[];
  step: StepRow;
  isOutcome: boolean;
}

/** What must still hold of the claimed step for the record to be written. */
interface Fence {
  seq: number;
  token: string | null;
  dispatch: number;
}

/** Writes a record, or answers null where it must be made under the lock. `lane` sends one batch at a time. */
export function createRecords({ lane, cache }: { lane: pg.Pool; cache: RunCache }) {
  const batches = gather<Waiting, Made>({
    take: (queue) => takeBatch(queue, cache),
    send: (batch) => writeRecords(lane, cache, batch),
    fail({ changes, fail }, error) {
      // Written or not: only the database knows.
      cache.forget(changes.run.id);
      fail(error);
    },
  });
  return <T>(record: ClaimedRecord<T>) =>
    new Promise<Written<T>>((answer, fail) => batches.add({ record, answer: answer as Waiting['answer'], fail }));
}

/** At most one record a run: the next is made of what this one leaves. */
function takeBatch(queue: Waiting[], cache: RunCache): Made[] {
  const taken = new Set<string>();
  const batch: Made[] = [];
  const left: Waiting[] = [];
  let chars = 0;
  for (const waiting of queue) {
    const { id } = waiting.record.known.run;
    if (taken.has(id) || batch.length === mostAtOnce || chars > mostChars) left.push(waiting);
    else {
      const made = make(waiting, cache);
      if (made === null) continue;
      batch.push(made);
      chars += made.parts.reduce((sum, part) => sum + part.length, 0);
    }
    taken.add(id);
  }
  queue.splice(0, queue.length, ...left);
  return batch;
}

/** Runs the rule. Null when that has settled the record: it is to be made under the lock, or the rule threw. */
function make(waiting: Waiting, cache: RunCache): Made | null {
  const { rule } = waiting.record;
  const known = freshest(waiting.record.known, cache);
  const draft = new Draft({ run: known.run, steps: [known.step], now: waiting.record.known.now });
  try {
    const value = rule(draft);
    draft.settle();
    const changes = draft.changes();
    const { seq, claim, dispatch } = known.step;
    const fence = { seq, token: claim?.token ?? null, dispatch };
    if (isNarrow(known, changes)) {
      const step = changes.changed[0] ?? known.step;
      const row = writeStepOnce(known.run.id, step, changes.messages);
      const isOutcome = changesOutcomeOnly(known.step, step);
      return { ...waiting, value, changes, fence, isOutcome, step: row, parts: partsOf(row, changes, draft.now) };
    }
    waiting.answer(null);
  } catch (error) {
    if (error instanceof NeedsOpenSteps) waiting.answer(null);
    else waiting.fail(error);
  }
  return null;
}

/** What siblings recorded since the claim is in the cache; else the claim's own state. */
function freshest(known: KnownState, cache: RunCache): Pick<KnownState, 'run' | 'step'> {
  const { run, step } = known;
  const kept = cache.get(run.id);
  const keptStep = kept?.steps.get(step.seq);
  const isNewer = kept !== undefined && kept.run.writes > run.writes;
  return isNewer && keptStep?.claim?.token === step.claim?.token && keptStep !== undefined
    ? { run: kept.run, step: keptStep }
    : known;
}

/** Whether the statement can write all that the rule changed. */
function isNarrow({ run: before, step }: Pick<KnownState, 'run' | 'step'>, { run, changed }: Changes): boolean {
  return (
    run.endingAs === null &&
    before.endingAs === null &&
    run.pauseAt === before.pauseAt &&
    run.deadlineAt === before.deadlineAt &&
    run.limits === before.limits &&
    run.agentVersion === before.agentVersion &&
    run.llmName === before.llmName &&
    changed.every(({ seq }) => seq === step.seq)
  );
}

/** Whatever a later version adds to a step counts as more. */
function changesOutcomeOnly(before: StepState, after: StepState): boolean {
  for (const key in after) {
    if (after[key as keyof StepState] !== before[key as keyof StepState] && !outcomeKeys.includes(key)) return false;
  }
  return after.status === 'completed';
}

/** The JSON parameters in the order of the statements: run, step, planned steps, messages; events; then what is seldom there. */
function partsOf(step: StepRow, changes: Changes, now: Date): string[] {
  const runId = changes.run.id;
  const { messages, outputs, facts, events } = textsOf(changes, now);
  const ofRun = (row: object) => JSON.stringify({ run_id: runId, ...row });
  return [
    runText(writeRun(changes.run), { id: runId }),
    outcomeText(step, { run_id: runId }),
    changes.planned.map((planned) => plannedText(writeStepOnce(runId, planned, changes.messages))).join(),
    messages.map(ofRun).join(),
    events.map(ofRun).join(),
    changes.attempts.map((attempt) => JSON.stringify(writeAttempt(runId, attempt))).join(),
    outputs.map(ofRun).join(),
    facts.map((fact) => JSON.stringify(fact)).join(),
  ];
}

async function writeRecords(lane: pg.Pool, cache: RunCache, batch: readonly Made[]): Promise<void> {
  const all = (texts: readonly (string | undefined)[]) => `[${texts.filter((text) => text !== '').join()}]`;
  const parameters = [0, 1, 2, 3, 4, 5, 6, 7].map((part) => all(batch.map(({ parts }) => parts[part])));
  const needed = parameters.findLastIndex((rows) => rows !== '[]') + 1;
  const isPlain = batch.every(({ isOutcome }) => isOutcome);
  const { name, text, parts } = (isPlain ? plain.find((statement) => statement.parts >= needed) : undefined) ?? whole;
  if (parts === whole.parts) {
    parameters[1] = all(batch.map(({ step }) => stepText(step, { run_id: step.run_id })));
  }
  const { rows } = await lane.query<{ id: string }>({
    ...{ name, text },
    values: [
      ...parameters.slice(0, 4),
      batch.map(({ changes }) => changes.run.id),
      batch.map(({ fence }) => fence.seq),
      batch.map(({ fence }) => fence.token),
      batch.map(({ fence }) => fence.dispatch),
      batch.map(({ changes }) => changes.run.writes),
      ...parameters.slice(4, parts),
    ],
  });
  const written = new Set(rows.map(({ id }) => id));
  for (const { changes, value, answer } of batch) {
    if (written.has(changes.run.id)) {
      cache.recorded(changes);
      answer({ value, dispatches: changes.dispatches });
    } else {
      cache.forget(changes.run.id);
      answer(null);
    }
  }
}
