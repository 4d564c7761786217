/**
 * Reads for the doors: one query a question, each built from the tables as they are, none of them used by a rule.
 */
import type pg from 'pg';
import { PawlError } from '../core/errors.js';
import type { Message } from '../core/message.js';
import type {
  AgentListing,
  EventView,
  RunFilter,
  RunPage,
  RunView,
  StepView,
  ToolListing,
  WaitingFor,
} from '../core/view.js';
import type { Reads } from '../ports.js';
import { asPawlError } from './pool.js';
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
import { eventsOf } from './step-events.js';
import { inputOf, outputOf, stepsOfRun } from './step-texts.js';

interface ListedRun extends RunRow {
  input_is_text: boolean;
  key: string | null;
  lane: string | null;
  parent_id: string | null;
  tags: Record<string, string>;
  task: string | null;
  waits: { kind: WaitingFor['kind']; step: number; detail: string | null } | null;
}

const runSql = `
select r.*, m.body as task, w.waits
from pawl.runs r
left join pawl.messages m on m.run_id = r.id and m.seq = 0 and m.pos = 0
left join lateral (
  select json_build_object('kind', s.waiting_for, 'step', s.seq, 'detail', s.wait_detail) as waits from pawl.steps s
  where r.status = 'suspended' and s.run_id = r.id and s.status = 'suspended' and s.waiting_for <> 'step'
  order by s.seq limit 1
) w on true`;

export function createReads(pool: pg.Pool): Reads {
  async function rows<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    try {
      return (await pool.query<Row>(text, values)).rows;
    } catch (error) {
      throw asPawlError(error);
    }
  }

  return {
    async run(id) {
      const [row] = await rows<ListedRun>(`${runSql} where r.id = $1`, [id]);
      return row === undefined ? null : viewRun(row);
    },
    async runs(filter) {
      const found = await rows<ListedRun>(...listQuery(filter));
      return page(found, filter.limit);
    },
    async steps(runId) {
      const found = await rows<StepRow>(stepsOfRun, [runId]);
      return found.map(viewStep);
    },
    async attempts(runId) {
      return (
        await rows<AttemptRow>('select * from pawl.attempts where run_id = $1 order by seq, attempt, ended_at', [runId])
      ).map(readAttempt);
    },
    async messages(runId) {
      return (
        await rows<MessageRow>('select seq, pos, tokens, body from pawl.messages where run_id = $1 order by seq, pos', [
          runId,
        ])
      ).map(readMessage);
    },
    async events(runId, after, limit) {
      const found = await rows<EventRow>(
        `select e.id, e.type, e.at, e.seq, e.data, s.kind, s.name, s.attempt,
           case when e.type = 'step.completed' then ${inputOf('s')} end as input,
           case when e.type = 'step.completed' then ${outputOf('s')} end as output
         from ${eventsOf('$1')} e left join pawl.steps s on s.run_id = e.run_id and s.seq = e.seq
         where e.id > $2 order by e.id limit $3`,
        [runId, after, limit],
      );
      return found.map(viewEvent);
    },
    async fullOutput(runId, seq) {
      const [row] = await rows<{ body: string }>('select body from pawl.outputs where run_id = $1 and seq = $2', [
        runId,
        seq,
      ]);
      return row?.body ?? null;
    },
    async agents() {
      const found = await rows<AgentRow>(
        `select distinct on (name) listing, registered_at from pawl.agents order by name, registered_at desc, version`,
      );
      return found.map(viewAgent);
    },
    async tools() {
      const found = await rows<{ name: string; agent: string; tool: ToolListing }>(
        `select tool->>'name' as name, a.name as agent, tool from (
           select distinct on (name) name, listing from pawl.agents order by name, registered_at desc, version
         ) a, jsonb_array_elements(a.listing->'tools') as tool order by 1, 2`,
      );
      const tools = new Map<string, ToolListing>();
      for (const { name, agent, tool } of found) {
        const known = tools.get(name);
        if (known === undefined) tools.set(name, { ...tool, agents: [agent], disabledFor: [], outFor: [] });
        else known.agents.push(agent);
      }
      const stops = await rows<{ tool: string; agent: string; is_out: boolean }>(
        `select tool, agent, false as is_out from pawl.tool_stops
         union all select tool, agent, true from pawl.tool_outages where opened_at is not null order by 1, 2`,
      );
      for (const { tool, agent, is_out: isOut } of stops) {
        const listing = tools.get(tool);
        if (isOut) listing?.outFor.push(agent);
        if (isOut || listing === undefined || listing.disabledFor === 'all') continue;
        if (agent === '') listing.disabledFor = 'all';
        else listing.disabledFor.push(agent);
      }
      return [...tools.values()];
    },
    async agent(name) {
      const [row] = await rows<AgentRow>(
        'select listing, registered_at from pawl.agents where name = $1 order by registered_at desc, version limit 1',
        [name],
      );
      return row === undefined ? null : viewAgent(row);
    },
  };
}

function listQuery(filter: RunFilter): [string, unknown[]] {
  const where: string[] = [];
  const values: unknown[] = [];
  const add = (text: (place: string) => string, value: unknown) => {
    values.push(value);
    where.push(text(`$${values.length}`));
  };
  if (filter.agent !== undefined) add((place) => `r.agent = ${place}`, filter.agent);
  if (filter.status !== undefined) add((place) => `r.status = any(${place})`, [filter.status].flat());
  if (filter.reason !== undefined) add((place) => `r.reason = ${place}`, filter.reason);
  if (filter.tag !== undefined) add((place) => `r.tags @> ${place}::jsonb`, JSON.stringify(filter.tag));
  if (filter.since !== undefined) add((place) => `r.created_at >= ${place}`, filter.since);
  if (filter.cursor !== undefined) {
    const { at, id } = readCursor(filter.cursor);
    values.push(at, id);
    where.push(`(r.created_at, r.id) < ($${values.length - 1}, $${values.length})`);
  }
  values.push(filter.limit + 1);
  const condition = where.length === 0 ? '' : ` where ${where.join(' and ')}`;
  return [`${runSql}${condition} order by r.created_at desc, r.id desc limit $${values.length}`, values];
}

function page(found: ListedRun[], limit: number): RunPage {
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  const next = found.length > limit && last !== undefined ? writeCursor(last) : null;
  return { data: shown.map(viewRun), page: { next } };
}

function writeCursor(row: ListedRun): string {
  return Buffer.from(JSON.stringify([new Date(row.created_at).toISOString(), row.id])).toString('base64url');
}

function readCursor(cursor: string): { at: string; id: string } {
  try {
    const [at, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [unknown, unknown];
    if (typeof at === 'string' && typeof id === 'string' && !Number.isNaN(Date.parse(at))) return { at, id };
  } catch {}
  throw new PawlError('usage', `cursor ${JSON.stringify(cursor)} is none that a list returned`);
}

function viewRun(row: ListedRun): RunView {
  const run = readRun(row);
  const task = row.task === null ? null : (JSON.parse(row.task) as Message).content;
  return {
    id: run.id,
    agent: run.agent,
    agentVersion: run.agentVersion,
    status: run.status,
    reason: run.reason,
    waitingFor: row.waits,
    input: row.input_is_text || task === null ? task : JSON.parse(task),
    output: run.output !== null && run.outputIsJson ? JSON.parse(run.output) : run.output,
    error: run.error,
    steps: run.stepsUsed,
    turns: run.turnsUsed,
    usage: run.usage,
    limits: run.limits,
    tags: row.tags,
    key: row.key,
    tenant: run.tenant,
    lane: row.lane,
    threadId: run.threadId,
    parentId: row.parent_id,
    createdAt: run.createdAt.toISOString(),
    startedAt: run.startedAt?.toISOString() ?? null,
    finishedAt: run.finishedAt?.toISOString() ?? null,
  };
}

function viewStep(row: StepRow): StepView {
  const step = readStep(row);
  return {
    seq: step.seq,
    kind: step.kind,
    name: step.name,
    status: step.status,
    attempt: step.attempt,
    crashes: step.crashes,
    effect: step.effect,
    waitingFor: step.waitingFor,
    input: step.input === null ? null : JSON.parse(step.input),
    output: step.output,
    error: step.error,
    note: step.note,
    usage: step.usage,
    queuedAt: step.queuedAt.toISOString(),
    startedAt: step.startedAt?.toISOString() ?? null,
    finishedAt: step.finishedAt?.toISOString() ?? null,
    worker: step.claim?.workerId ?? null,
  };
}

interface EventRow {
  id: number;
  type: string;
  at: Date;
  seq: number | null;
  data: string | null;
  kind: string | null;
  name: string | null;
  attempt: number | null;
  input: string | null;
  output: string | null;
}

function viewEvent(row: EventRow): EventView {
  const data = row.data === null ? {} : (JSON.parse(row.data) as Record<string, unknown>);
  const step = row.seq === null ? {} : { kind: row.kind, name: row.name, attempt: row.attempt };
  const outcome = row.type === 'step.completed' ? { input: row.input, output: row.output } : {};
  return { id: row.id, type: row.type, at: row.at.toISOString(), seq: row.seq, data: { ...step, ...outcome, ...data } };
}

interface AgentRow {
  listing: AgentListing;
  registered_at: Date;
}

function viewAgent(row: AgentRow): AgentListing {
  return { ...row.listing, registeredAt: row.registered_at.toISOString() };
}
