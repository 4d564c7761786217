/**
 * What a step costs as its run grows: one long run alone, the time between its steps at several lengths, and for Pawl also
 * the bytes of Postgres's pages read and of its log written over forty steps at two lengths.
 */
import pg from 'pg';
import { loadPeer } from '../peers/index.js';
import { Work } from '../work.js';
import { checkWork } from './check.js';
import { median } from './numbers.js';
import type { GrowthTask } from './task.js';
import { gapsOf } from './throughput.js';

export interface Growth {
  /** The median time of the steps around each length. */
  points: { step: number; ms: number }[];
  bytes: { early: StepBytes; late: StepBytes } | null;
}

/** Of one step. */
export interface StepBytes {
  read: number;
  written: number;
}

const lengths = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
/** Steps over which bytes are summed up: whole turns, and enough of them to outweigh the heartbeat's. */
const stretch = 40;

export async function measureGrowth(task: GrowthTask): Promise<Growth> {
  const { databaseUrl, redisUrl, steps } = task;
  const peer = await loadPeer(task.peer);
  const work = new Work();
  const session = await peer.open({ databaseUrl, redisUrl, concurrency: 50, work });
  // Compiled and connected before the run that is looked at.
  const warmed = Array.from({ length: 40 }, (_, n) => `warm${n}`);
  await session.play(warmed, 20);
  const meter = task.peer.startsWith('pawl') ? await openMeter(databaseUrl) : null;
  const at = [50 - stretch / 2, 50 + stretch / 2, steps - stretch, steps];
  for (const step of at) if (meter !== null) work.before.set(step, () => meter.sample());
  work.times = [];
  await session.play(['long'], steps, 'each');
  const gaps = gapsOf(work.times);
  const played = [
    { runs: warmed, steps: 20 },
    { runs: ['long'], steps },
  ];
  await checkWork(session, work, played);
  await session.close();
  const bytes = await meter?.end();
  return {
    points: lengths.filter((length) => length <= steps).map((step) => pointAt(gaps, step)),
    bytes: bytes ?? null,
  };
}

/** Over the steps around a length: more of them later, where there are more. */
function pointAt(gaps: readonly number[], step: number): { step: number; ms: number } {
  const half = Math.min(50, Math.max(5, Math.floor(step / 4)));
  const from = Math.max(0, Math.min(step - half, gaps.length - 2 * half));
  return { step, ms: median(gaps.slice(from, from + 2 * half)) };
}

async function openMeter(databaseUrl: string) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query('create extension if not exists pg_stat_statements');
  const samples: StepBytes[] = [];
  return {
    // What maintenance looks at by the second belongs to no step, and would fall into one stretch and not the other.
    async sample(): Promise<void> {
      const { rows } = await client.query<{ read: string; written: string }>(
        `select sum(shared_blks_hit + shared_blks_read) * current_setting('block_size')::int as read,
                pg_current_wal_insert_lsn() - '0/0'::pg_lsn as written
           from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())
             and query ~ '^\\s*with (r|asked|guard) as materialized'`,
      );
      samples.push({ read: Number(rows[0]?.read), written: Number(rows[0]?.written) });
    },
    async end() {
      await client.end();
      const [a, b, c, d] = samples;
      if (a === undefined || b === undefined || c === undefined || d === undefined)
        throw new Error('steps were not seen');
      return { early: perStep(a, b), late: perStep(c, d) };
    },
  };
}

function perStep(from: StepBytes, to: StepBytes): StepBytes {
  return { read: (to.read - from.read) / stretch, written: (to.written - from.written) / stretch };
}
