/**
 * What maintenance looks for, one query a question. Everything is found by status, never by an id or a time watermark,
 * since a long transaction commits rows that are older than the ones already seen.
 */
import type pg from 'pg';
import type { Dispatch, HeldClaim, Watch } from '../ports.js';
import { asPawlError } from './pool.js';

const heldColumns = `s.run_id as "runId", s.seq, s.claim_token as token, s.worker_id as "workerId"`;
const dispatchColumns = `s.queue, s.run_id as "runId", s.seq, s.dispatch`;

export function createWatch(pool: pg.Pool): Watch {
  async function rows<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    try {
      return (await pool.query<Row>(text, values)).rows;
    } catch (error) {
      throw asPawlError(error);
    }
  }

  return {
    async breathe() {
      // A write, since a server that only reads must count as a gap. Any row will do.
      const [row] = await rows<{ now: Date }>(
        'update pawl.instance set queue_epoch = queue_epoch returning clock_timestamp()::timestamptz(3) as now',
      );
      return row?.now ?? new Date(Number.NaN);
    },
    liveWorkers: () => rows(`select id, beat from pawl.workers where state = 'live'`),
    async declareDead(workerId, beat) {
      const declared = await rows(
        `update pawl.workers set state = 'dead', ended_at = now() where id = $1 and beat = $2 and state = 'live' returning id`,
        [workerId, beat],
      );
      return declared.length === 1;
    },
    claimsOfDeadWorkers: (limit) =>
      rows<HeldClaim>(
        `select ${heldColumns}, w.state = 'stopped' as stopped from pawl.steps s join pawl.workers w on w.id = s.worker_id
         where s.status = 'running' and w.state <> 'live' limit $1`,
        [limit],
      ),
    // Two beats that began after the claim: the second took its list after the first had been answered.
    droppedClaims: (limit) =>
      rows<HeldClaim>(
        `select ${heldColumns} from pawl.steps s join pawl.workers w on w.id = s.worker_id
         where s.status = 'running' and w.state = 'live' and s.claimed_at < w.beat_before_at
           and not s.claim_token = any(w.tokens) and not s.claim_token = any(w.tokens_before) limit $1`,
        [limit],
      ),
    overdueClaims: (graceMs, limit) =>
      rows<HeldClaim>(
        `select ${heldColumns} from pawl.steps s
         where s.status = 'running' and s.claim_deadline < now() - $1 * interval '1 millisecond' limit $2`,
        [graceMs, limit],
      ),
    dueSteps: (overdueMs, after, limit) =>
      rows(
        `select ${dispatchColumns}, s.due_at as "dueAt" from pawl.steps s
         where s.status = 'pending' and s.due_at < now() - $1 * interval '1 millisecond'
           and ($2::timestamptz is null or (s.due_at, s.run_id, s.seq) > ($2, $3, $4))
         order by s.due_at, s.run_id, s.seq limit $5`,
        [overdueMs, after?.dueAt ?? null, after?.runId ?? '', after?.seq ?? 0, limit],
      ),
    unshownDeaths: (limit) =>
      rows<Dispatch>(
        `select ${dispatchColumns} from pawl.steps s
         where s.status = 'dead' and s.shown_attempts is null and s.finished_at < now() - interval '2 seconds' limit $1`,
        [limit],
      ),
    async raiseDispatch(steps) {
      if (steps.length === 0) return [];
      return rows<Dispatch>(
        // Only runs free at once: a batch that waits for one run's lock while it holds another's could deadlock.
        `with free as (
           select id from pawl.runs where id in (select "runId" from json_to_recordset($1::json) as d("runId" text))
           order by id for no key update skip locked
         )
         update pawl.steps s set dispatch = s.dispatch + 1
         from free, json_to_recordset($1::json) as d("runId" text, seq int, dispatch int)
         where free.id = d."runId" and s.run_id = d."runId" and s.seq = d.seq and s.dispatch = d.dispatch
           and (s.status = 'pending' or (s.status = 'dead' and s.shown_attempts is null))
         returning ${dispatchColumns}`,
        [JSON.stringify(steps)],
      );
    },
    async runsPastDeadline(limit) {
      const found = await rows<{ id: string }>(
        `select id from pawl.runs
         where deadline_at is not null and finished_at is null and ending_at is null
           and now() >= deadline_at - case when on_limit = 'finish' then least(llm_timeout_ms, deadline_ms / 5) else 0 end
               * interval '1 millisecond'
           and (on_limit <> 'suspend' or exists (
             select 1 from pawl.steps s where s.run_id = runs.id and s.status = 'pending'))
           and (on_limit <> 'finish' or finishing_as is distinct from 'deadline' or now() >= deadline_at)
         limit $1`,
        [limit],
      );
      return found.map((row) => row.id);
    },
    async runsServedAgain(limit) {
      const found = await rows<{ id: string }>(
        `select distinct r.id from pawl.steps s join pawl.runs r on r.id = s.run_id
         where s.status = 'suspended' and s.waiting_for = 'worker' and exists (
           select 1 from pawl.workers w where w.state = 'live' and (
             r.agent || '@' || r.agent_version = any(w.serves)
             or (r.agent_version is null and exists (select 1 from unnest(w.serves) v where split_part(v, '@', 1) = r.agent))))
         limit $1`,
        [limit],
      );
      return found.map((row) => row.id);
    },
    async runsAwaitingThread(limit) {
      const found = await rows<{ id: string }>(
        `select distinct on (r.tenant, r.thread_id) r.id from pawl.steps s join pawl.runs r on r.id = s.run_id
         where s.status = 'suspended' and s.waiting_for = 'slot' and s.due_at <= now()
           and r.ending_at is null and r.pause_at is null and not exists (
             select 1 from pawl.runs h where h.tenant = r.tenant and h.thread_id = r.thread_id and h.holds_thread)
         order by r.tenant, r.thread_id, r.created_at, r.id limit $1`,
        [limit],
      );
      return found.map((row) => row.id);
    },
    async isServed(agent, version) {
      const found = await rows(
        `select 1 from pawl.workers w, unnest(w.serves) v
         where w.state = 'live' and (v = $1 || '@' || $2 or ($2::text is null and split_part(v, '@', 1) = $1)) limit 1`,
        [agent, version],
      );
      return found.length > 0;
    },
    async queueEpoch() {
      const [row] = await rows<{ queue_epoch: number }>('select queue_epoch from pawl.instance');
      return row?.queue_epoch ?? 0;
    },
    async raiseQueueEpoch(from) {
      const raised = await rows(
        'update pawl.instance set queue_epoch = queue_epoch + 1 where queue_epoch = $1 returning 1',
        [from],
      );
      return raised.length === 1;
    },
    async sweepWorkers() {
      await rows(
        `delete from pawl.workers w where w.state <> 'live' and w.ended_at < now() - interval '1 day'
           and not exists (select 1 from pawl.steps s where s.worker_id = w.id and s.status = 'running')`,
      );
    },
    async sweepResults(limit) {
      const swept = await rows(
        `delete from pawl.tool_results where key in (
           select key from pawl.tool_results where expires_at < now() order by expires_at limit $1 for update skip locked)
         returning 1`,
        [limit],
      );
      await rows(
        `delete from pawl.tool_outages where opened_at is null and since_at < now() - interval '1 hour'
           or trial_at < now() - interval '1 day'`,
      );
      return swept.length;
    },
  };
}
