/**
 * The rows of tools that fail. They are touched by calls that failed and by trials, never by a call that went well, and locked
 * one at a time while the rule of core/outage.ts works.
 */
import type pg from 'pg';
import { countFailure, type Outage, type OutageRule, type ToolFailure, takeTrial } from '../core/outage.js';
import { inTransaction } from './pool.js';

interface OutageRow {
  failed: number;
  calls: number;
  runs: string[];
  since_at: Date;
  opened_at: Date | null;
  trial_at: Date | null;
  trials: number;
  now: Date;
}

const lockSql = `select failed, calls, runs, since_at, opened_at, trial_at, trials, clock_timestamp() as now
  from pawl.tool_outages where agent = $1 and tool = $2 for update`;

export async function noteToolFailure(pool: pg.Pool, failure: ToolFailure): Promise<boolean> {
  const { agent, tool } = failure;
  return inTransaction(pool, async (client) => {
    const fresh = await client.query<{ now: Date }>(
      `insert into pawl.tool_outages (agent, tool, failed, calls, runs, since_at, trials)
       values ($1, $2, 0, 0, '{}', clock_timestamp(), 0) on conflict (agent, tool) do nothing returning since_at as now`,
      [agent, tool],
    );
    const { rows } = await client.query<OutageRow>(lockSql, [agent, tool]);
    const row = rows[0];
    if (row === undefined) return false;
    const before = fresh.rowCount === 1 ? null : read(row);
    const after = countFailure(before, failure, row.now);
    await write(client, agent, tool, after);
    return after.openedAt !== null && before?.openedAt == null;
  });
}

export async function tryTool(pool: pg.Pool, agent: string, tool: string, rule: OutageRule): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<OutageRow>(lockSql, [agent, tool]);
    const row = rows[0];
    // Somebody has ended it meanwhile.
    if (row?.opened_at == null) return true;
    const after = takeTrial(read(row), rule, row.now);
    if (after !== null) await write(client, agent, tool, after);
    return after !== null;
  });
}

function read(row: OutageRow): Outage {
  const { failed, calls, runs, trials } = row;
  return { failed, calls, runs, trials, sinceAt: row.since_at, openedAt: row.opened_at, trialAt: row.trial_at };
}

async function write(client: pg.PoolClient, agent: string, tool: string, outage: Outage): Promise<void> {
  const { failed, calls, runs, sinceAt, openedAt, trialAt, trials } = outage;
  await client.query(
    `update pawl.tool_outages set failed = $3, calls = $4, runs = $5, since_at = $6, opened_at = $7, trial_at = $8, trials = $9
     where agent = $1 and tool = $2`,
    [agent, tool, failed, calls, runs, sinceAt, openedAt, trialAt, trials],
  );
}
