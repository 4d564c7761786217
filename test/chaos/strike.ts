/** Where a blow falls: one gap in the life of one step, and where that matters only once the step is dead. */
import pg from 'pg';
import type { Gap } from '../../src/engine/gaps.js';
import type { Delivery } from '../../src/ports.js';
import { type Case, isGap, targetSeq } from './cases.js';

export interface Strike {
  seq: number;
  gap: Gap;
  /** Only a delivery of the dead step, which is to fail, and none that came late while it lived. */
  whenDead: boolean;
}

/**
 * The gap between a death's record and its job's failure: for a model's death, which its own worker records, the one after
 * the record; for that of a tool step, which maintenance records, the one at the start of the delivery that is to fail.
 */
export function strikeOf({ kind, place }: Case): Strike {
  const seq = targetSeq(kind);
  if (isGap(place)) return { seq, gap: place, whenDead: false };
  const isTool = kind === 'idempotent' || kind === 'once';
  return { seq, gap: isTool ? 'before_claim' : 'after_record', whenDead: true };
}

export async function isStruck(strike: Strike, gap: Gap, delivery: Delivery, databaseUrl: string): Promise<boolean> {
  if (gap !== strike.gap || delivery.seq !== strike.seq) return false;
  return !strike.whenDead || (await isDead(databaseUrl, delivery));
}

async function isDead(databaseUrl: string, { runId, seq, dispatch }: Delivery): Promise<boolean> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'the checker' });
  await client.connect();
  try {
    const { rows } = await client.query(
      `select 1 from pawl.steps where run_id = $1 and seq = $2 and dispatch = $3 and status = 'dead'`,
      [runId, seq, dispatch],
    );
    return rows.length > 0;
  } finally {
    await client.end();
  }
}
