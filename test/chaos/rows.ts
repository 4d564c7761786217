/** All that Postgres holds of one run, read by one statement and so at one instant, as the checker wants it. */
import type pg from 'pg';
import { eventsOf } from '../../src/postgres/step-events.js';
import { inputOf, outputOf } from '../../src/postgres/step-texts.js';

export interface RunRow {
  id: string;
  status: string;
  reason: string | null;
  output: string | null;
  next_seq: number;
  open_steps: number;
  suspended_steps: number;
  last_event: number;
  finished_at: string | null;
}

export interface StepRow {
  seq: number;
  kind: string;
  queue: string;
  status: string;
  dispatch: number;
  attempt: number;
  effect: string | null;
  unknown: boolean;
  claim_token: string | null;
  worker_id: string | null;
  waiting_for: string | null;
  idempotency_key: string | null;
  turn_seq: number | null;
  position: number | null;
  output: string | null;
  error_code: string | null;
  /** Milliseconds that a pending step has been due for. */
  due_for_ms: number;
  worker_lives: boolean;
}

export interface AttemptRow {
  token: string;
  seq: number;
  ended_by: string;
  recorded: boolean;
  error_code: string | null;
  late_note: string | null;
}

export interface MessageRow {
  seq: number;
  pos: number;
  body: string;
}

export interface EventRow {
  id: number;
  type: string;
  seq: number | null;
  at: string;
  data: unknown;
}

export interface Rows {
  run: RunRow;
  steps: StepRow[];
  attempts: AttemptRow[];
  messages: MessageRow[];
  events: EventRow[];
}

const rowsSql = `
select row_to_json(r) as run,
  (select json_agg(s order by s.seq) from (
     select s.*, ${inputOf('s')} as input, ${outputOf('s')} as output, extract(epoch from clock_timestamp() - s.due_at) * 1000 as due_for_ms,
       exists (select 1 from pawl.workers w where w.id = s.worker_id and w.state = 'live') as worker_lives
     from pawl.steps s where s.run_id = r.id) s) as steps,
  (select coalesce(json_agg(a order by a.seq, a.ended_at, a.token), '[]') from pawl.attempts a where a.run_id = r.id) as attempts,
  (select coalesce(json_agg(m order by m.seq, m.pos), '[]') from pawl.messages m where m.run_id = r.id) as messages,
  (select coalesce(json_agg(e order by e.id), '[]') from ${eventsOf('r.id')} e) as events
from pawl.runs r where r.id = $1`;

export async function readRows(pool: pg.Pool, runId: string): Promise<Rows> {
  // Asked again and again: by a name it is planned once a connection.
  const { rows } = await pool.query<Rows>({ name: 'rows', text: rowsSql, values: [runId] });
  if (rows[0] === undefined) throw new Error(`run ${runId} is lost`);
  return rows[0];
}

/**
 * What may never change again: outcomes, messages and archived attempts, their late notes apart, and of a final run all the
 * rest. Steps still open are left out: claims may come and go.
 */
export function recordedPart({ run, steps, messages, events, attempts }: Rows): string {
  const isFinal = run.finished_at !== null;
  return JSON.stringify({
    run: isFinal ? run : run.id,
    steps: steps
      .filter(({ status }) => isFinal || status === 'completed')
      .map(({ due_for_ms: _, worker_lives: __, ...step }) => step),
    messages,
    events: isFinal ? events : [],
    attempts: attempts.map(({ late_note: _, ...attempt }) => attempt),
  });
}
