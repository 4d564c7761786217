/**
 * What becomes of each run that is to be accepted: made, found by its key, or refused. Never waits for a run another
 * caller is making for longer than that takes; the statement itself is insert-run.ts.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { PawlError } from '../core/errors.js';
import type { NewRun } from '../core/view.js';
import type { Acceptance } from '../ports.js';
import { type Inserted, insertRuns, type TaskedRun } from './insert-run.js';
import { inTransaction } from './pool.js';

/** In the order given. */
export async function createRuns(pool: pg.Pool, runs: readonly NewRun[]): Promise<Acceptance[]> {
  if (runs.length === 0) return [];
  const tasked = runs.map(withTask);
  const { made, waiting, busy, agents } = await insert(pool, tasked);
  const owners = await findOwners(
    pool,
    tasked.filter((run) => !made.has(run.id) && agents.has(run.agent)),
  );
  return tasked.map((run) => {
    if (made.has(run.id)) {
      const dispatches =
        run.delayMs > 0 || waiting.has(run.id) ? [] : [{ queue: 'llm', runId: run.id, seq: 1, dispatch: 1 }];
      return { id: run.id, created: true, dispatches };
    }
    if (!agents.has(run.agent)) return { refused: unknownAgent(run.agent) };
    const owner = owners.get(keyOf(run));
    if (owner === undefined) return { refused: busy.has(run.id) ? threadBusy(run) : ownerGone(run) };
    if (owner.input_hash !== run.inputHash) return { refused: keyConflict(run, owner.id) };
    return { id: owner.id, created: false, dispatches: [] };
  });
}

/** Runs of threads are made under the locks of those, in one order, so that of two made at once one sees the other. */
async function insert(pool: pg.Pool, runs: readonly TaskedRun[]): Promise<Inserted> {
  const threads = runs.flatMap(({ tenant, threadId }) =>
    threadId === null ? [] : [JSON.stringify([tenant, threadId])],
  );
  if (threads.length === 0) return insertRuns(pool, runs);
  return inTransaction(pool, async (client) => {
    await client.query(
      `select pg_advisory_xact_lock(lock) from (
         select distinct hashtextextended(thread, 0) as lock from unnest($1::text[]) as thread order by lock) as locks`,
      [threads],
    );
    return insertRuns(client, runs);
  });
}

function withTask(run: NewRun): TaskedRun {
  const task = typeof run.input === 'string' ? run.input : JSON.stringify(run.input);
  return { ...run, task, inputHash: createHash('sha256').update(task).digest('base64url') };
}

interface Owner {
  id: string;
  input_hash: string;
}

/** The runs that have these keys, by what `keyOf` makes of them. */
async function findOwners(pool: pg.Pool, runs: readonly TaskedRun[]): Promise<Map<string, Owner>> {
  if (runs.length === 0) return new Map();
  const { rows } = await pool.query<Owner & { tenant: string; agent: string; key: string }>(
    `select id, input_hash, tenant, agent, key from pawl.runs
     where (tenant, agent, key) in (select * from unnest($1::text[], $2::text[], $3::text[]))`,
    [runs.map(({ tenant }) => tenant ?? ''), runs.map(({ agent }) => agent), runs.map(({ key }) => key)],
  );
  return new Map(rows.map((row) => [keyOf(row), row]));
}

function keyOf({ tenant, agent, key }: Pick<NewRun, 'tenant' | 'agent' | 'key'>): string {
  return JSON.stringify([tenant ?? '', agent, key]);
}

function unknownAgent(agent: string): PawlError {
  return new PawlError(
    'unknown_agent',
    `no worker has registered an agent named ${JSON.stringify(agent)}; start a worker whose config defines it`,
  );
}

/** Deleted between the statement that met it and the one that looked for it. */
function ownerGone({ key }: NewRun): PawlError {
  return new PawlError('conflict', `the run with the key ${JSON.stringify(key)} has just been deleted; start it again`);
}

function threadBusy({ threadId, agent }: NewRun): PawlError {
  const thread = JSON.stringify(threadId);
  return new PawlError(
    'conflict',
    `the thread ${thread} has a run that is not at its end, and runs of ${agent} do not wait (busyThread): start it again later`,
  );
}

function keyConflict(run: NewRun, owner: string): PawlError {
  return new PawlError(
    'key_conflict',
    `the key ${JSON.stringify(run.key)} belongs to run ${owner}, which has another input`,
  );
}
