/**
 * The Store on Postgres. `change` is the one way rows move besides the claim: it locks the run row, lets a rule of core
 * work on a draft, and writes what the rule changed. Locks are taken in one order everywhere: the run, then its steps.
 */
import type pg from 'pg';
import { Draft, NeedsOpenSteps } from '../core/draft.js';
import { PawlError } from '../core/errors.js';
import type { OutputPage } from '../core/read-output.js';
import type { Usage } from '../core/run.js';
import type { AttemptRecord } from '../core/step.js';
import type { Earlier } from '../core/thread.js';
import type { StepScope, Store, StoredResult } from '../ports.js';
import { createClaims } from './claim.js';
import { createRuns } from './create-runs.js';
import { noteToolFailure, tryTool } from './outages.js';
import { asPawlError, classifyFault, inTransaction, isThreadTaken } from './pool.js';
import { createRecall } from './recall.js';
import { createRecords } from './record.js';
import {
  type AttemptRow,
  type MessageRow,
  type RunRow,
  readAttempt,
  readMessage,
  readRun,
  readStep,
  type StepRow,
} from './rows.js';
import { RunCache } from './run-cache.js';
import { attempts, runs, steps } from './schema.js';
import { inputOf, outputOf } from './step-texts.js';
import { columnsOf, list, writeChanges } from './write.js';

/** `lanes`: connections of their own for the two hot statements, each of which goes out one at a time. */
export function createStore(pool: pg.Pool, lanes: { claims: pg.Pool; records: pg.Pool } | null = null): Store {
  const cache = new RunCache();
  const claim = createClaims({ pool, lane: lanes?.claims ?? pool, cache });
  const facts = createRecall(pool);
  const writeRecord = createRecords({ lane: lanes?.records ?? pool, cache });
  return {
    claim: (request) => answering(() => claim(request)),
    change: (runId, scope, rule, options) =>
      answering(async () => {
        const { known = null, receipt = null } = options ?? {};
        const changed = known === null ? null : await writeRecord({ known, rule });
        return changed ?? changeRun(pool, runId, scope, rule, receipt);
      }),
    createRuns: (runs) => answering(() => createRuns(pool, runs)),
    recall: (reader, asked) => answering(() => facts.recall(reader, asked)),
    factsToRank: (reader, asked) => answering(() => facts.factsToRank(reader, asked)),
    keepVectors: (model, vectors) => answering(() => facts.keepVectors(model, vectors)),
    earlierInThread: (runId) => answering(() => earlierInThread(pool, runId)),
    openingMessages: (runId) =>
      answering(async () => {
        const { rows } = await pool.query<MessageRow>(
          'select seq, pos, tokens, body from pawl.messages where run_id = $1 and seq <= 0 order by seq, pos',
          [runId],
        );
        return rows.map(readMessage);
      }),
    noteLate: (token, note, usage = null) =>
      answering(async () => {
        await pool.query(
          `update pawl.attempts set late_note = $2, input_tokens = coalesce($3, input_tokens),
             cached_input_tokens = coalesce($4, cached_input_tokens), output_tokens = coalesce($5, output_tokens),
             cost_usd = coalesce($6, cost_usd), usage_estimated = coalesce($7, usage_estimated)
           where token = $1 and late_note is null`,
          [token, note, ...usageColumns(usage)],
        );
      }),
    unsettledOnce: (runId, hashes) =>
      answering(async () => {
        const { rows } = await pool.query<{ call_hash: string; seq: number }>(
          `select call_hash, max(seq) as seq from pawl.steps
           where run_id = $1 and effect = 'once' and call_hash = any($2)
             and (unknown or status = 'dead' or (status = 'completed' and error_code is not null))
           group by call_hash`,
          [runId, hashes],
        );
        return new Map(rows.map((row) => [row.call_hash, row.seq]));
      }),
    readOutput: (runId, { step, offset, limit }) =>
      answering(async () => {
        const { rows } = await pool.query<OutputPage>(
          `select name, length(body) as total, substr(body, $3 + 1, $4) as text from (
             select s.name, coalesce(o.body, ${outputOf('s')}, '') as body from pawl.steps s left join pawl.outputs o using (run_id, seq)
             where s.run_id = $1 and s.seq = $2 and s.kind = 'tool' and s.status = 'completed') whole`,
          [runId, step, offset, limit],
        );
        return rows[0] ?? null;
      }),
    keptResult: (key) =>
      answering(async () => {
        const { rows } = await pool.query<{ body: string }>({
          name: 'pawl-kept-result',
          text: 'select body from pawl.tool_results where key = $1 and expires_at > clock_timestamp()',
          values: [key],
        });
        return rows[0]?.body ?? null;
      }),
    keepResult: (key, body, forMs) =>
      answering(async () => {
        await pool.query({
          name: 'pawl-keep-result',
          text: `insert into pawl.tool_results (key, body, expires_at)
            values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
            on conflict (key) do update set body = excluded.body, expires_at = excluded.expires_at`,
          values: [key, body, forMs],
        });
      }),
    stopTool: ({ tool, agent }) =>
      answering(async () => {
        const sql = 'insert into pawl.tool_stops (tool, agent) values ($1, $2) on conflict do nothing';
        return ((await pool.query(sql, [tool, agent ?? ''])).rowCount ?? 0) > 0;
      }),
    allowTool: ({ tool, agent }) =>
      answering(async () => {
        const { rowCount } = await pool.query(
          `with ended as (delete from pawl.tool_outages where tool = $1 and ($2::text is null or agent = $2))
           delete from pawl.tool_stops where tool = $1 and ($2::text is null or agent = $2)`,
          [tool, agent],
        );
        return (rowCount ?? 0) > 0;
      }),
    noteToolFailure: (failure) => answering(() => noteToolFailure(pool, failure)),
    tryTool: (agent, tool, rule) => answering(() => tryTool(pool, agent, tool, rule)),
    endOutage: (agent, tool) =>
      answering(async () => {
        await pool.query('delete from pawl.tool_outages where agent = $1 and tool = $2', [agent, tool]);
      }),
    toolResults: (runId, maxChars) =>
      answering(async () => {
        const { rows } = await pool.query<StoredResult>(
          `select name, arguments, text, error from (
             select *, sum(length(text)) over (order by seq desc) as so_far from (
               select s.seq, s.name, ${inputOf('s')} as arguments, coalesce(o.body, ${outputOf('s')}, '') as text, s.error_code as error
               from pawl.steps s left join pawl.outputs o using (run_id, seq)
               where s.run_id = $1 and s.kind = 'tool' and s.status = 'completed') t) r
           where so_far <= $2 order by seq`,
          [runId, maxChars],
        );
        return rows;
      }),
  };
}

async function earlierInThread(pool: pg.Pool, runId: string): Promise<Earlier | null> {
  const { rows } = await pool.query<Pick<RunRow, 'window_from' | 'digest_before' | 'summary_seq'> & MessagesRow>(
    `select e.window_from, e.digest_before, e.summary_seq, (
       select json_agg(json_build_object('seq', m.seq, 'pos', m.pos, 'tokens', m.tokens, 'body', m.body) order by m.seq, m.pos)
       from pawl.messages m
       where m.run_id = e.id and (m.seq in (0, e.summary_seq) or m.seq >= e.window_from)) as messages
     from pawl.runs r join pawl.runs e on e.tenant = r.tenant and e.thread_id = r.thread_id
     where r.id = $1 and e.id <> r.id and e.finished_at is not null and e.turns_used > 0
     order by e.finished_at desc, e.id desc limit 1`,
    [runId],
  );
  const [row] = rows;
  if (row === undefined) return null;
  const { window_from: windowFrom, digest_before: digestBefore, summary_seq: summarySeq, messages } = row;
  return { run: { windowFrom, digestBefore, summarySeq }, messages: (messages ?? []).map(readMessage) };
}

interface MessagesRow {
  messages: MessageRow[] | null;
}

function usageColumns(usage: Usage | null): unknown[] {
  if (usage === null) return [null, null, null, null, null];
  return [usage.inputTokens, usage.cachedInputTokens, usage.outputTokens, usage.costUsd, usage.estimated];
}

/** Repeats what the database asks to repeat, and turns every other fault into a PawlError. */
async function answering<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (classifyFault(error) === 'repeat' && tries < 10) continue;
      if (isThreadTaken(error))
        throw new PawlError('conflict', 'another run has the thread: this one waits for its turn', { cause: error });
      if (classifyFault(error) === 'guilty')
        throw new PawlError('invalid_input', `Postgres refuses the values: ${String(error)}`, { cause: error });
      throw asPawlError(error);
    }
  }
}

async function changeRun<T>(
  pool: pg.Pool,
  runId: string,
  scope: StepScope,
  rule: (draft: Draft) => T,
  receipt: string | null,
) {
  return inTransaction(pool, async (client) => {
    // The clock is read after the lock is held, so that times written under it never run backwards.
    const locked = await client.query<RunRow>({
      name: 'pawl-lock-run',
      text: `select ${columnsOf(runs)} from pawl.runs where id = $1 for no key update`,
      values: [runId],
    });
    const row = locked.rows[0];
    if (row === undefined) return null;
    const now = await readClock(client);
    const inScope = await loadSteps(client, runId, scope);
    const isOnStep = inScope.some((step) => step.claim?.token === receipt);
    const loaded = { run: readRun(row), now, receipt: isOnStep ? null : await loadReceipt(client, receipt) };
    let draft = new Draft({ ...loaded, steps: inScope });
    let value: T;
    try {
      value = settled(draft, rule);
    } catch (error) {
      if (!(error instanceof NeedsOpenSteps)) throw error;
      draft = new Draft({ ...loaded, steps: await loadSteps(client, runId, 'open', scope) });
      value = settled(draft, rule);
    }
    const changes = draft.changes();
    if (!changes.isEmpty) await client.query(writeChanges(changes, draft.now));
    return { value, dispatches: changes.dispatches };
  });
}

function settled<T>(draft: Draft, rule: (draft: Draft) => T): T {
  const value = rule(draft);
  draft.settle();
  return value;
}

async function readClock(client: pg.PoolClient): Promise<Date> {
  const { rows } = await client.query<{ now: Date }>({
    name: 'pawl-clock',
    text: 'select clock_timestamp()::timestamptz(3) as now',
  });
  return rows[0]?.now ?? new Date(Number.NaN);
}

const rowColumns = list(columnsOf(steps).filter((column) => column !== 'input' && column !== 'output'));

async function loadSteps(client: pg.PoolClient, runId: string, scope: StepScope, also?: StepScope) {
  const seqs = [scope, also].flatMap((part) => (typeof part === 'object' ? [...part.seqs] : []));
  const statuses =
    scope === 'open'
      ? ['pending', 'running', 'suspended']
      : scope === 'revivable'
        ? ['pending', 'running', 'suspended', 'dead', 'cancelled']
        : [];
  const { rows } = await client.query<StepRow>({
    name: 'pawl-load-steps',
    text: `select ${rowColumns}, ${inputOf('s')} as input, ${outputOf('s')} as output from pawl.steps s
      where run_id = $1 and (seq = any($2::int[]) or status = any($3::text[])) order by seq for no key update`,
    values: [runId, seqs, statuses],
  });
  return rows.map(readStep);
}

async function loadReceipt(client: pg.PoolClient, token: string | null): Promise<AttemptRecord | null> {
  if (token === null) return null;
  const { rows } = await client.query<AttemptRow>({
    name: 'pawl-receipt',
    text: `select ${columnsOf(attempts)} from pawl.attempts where token = $1`,
    values: [token],
  });
  return rows[0] === undefined ? null : readAttempt(rows[0]);
}
