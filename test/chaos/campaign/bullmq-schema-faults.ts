/** Faults of the queue where Postgres holds it: the tables of schema `bullmq` emptied, put back as they were, or dropped. */
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { between, type FaultMaker } from './faults.js';

const target = 'schema bullmq';

async function tables(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'bullmq' and tablename !~ 'migration|version'`,
  );
  return rows.map(({ name }) => name).join(', ');
}

/** What the queue needs to know; the rest is history. */
const kept = ['meta', 'job'];

export const bullmqSchemaFaults: FaultMaker[] = [
  {
    kind: 'queue_wiped',
    weight: 20,
    make: ({ postgres }) =>
      postgres.use(async (client) => {
        const { rows } = await client.query<{ jobs: number }>('select count(*)::int as jobs from bullmq.job');
        await client.query(`truncate ${await tables(client)} cascade`);
        return { target, details: { jobs: rows[0]?.jobs ?? 0 } };
      }),
  },
  {
    kind: 'queue_restored_old',
    weight: 8,
    make: ({ postgres, times, queues }, random) =>
      postgres.use(async (client) => {
        await client.query('drop schema if exists bullmq_old cascade');
        await client.query('create schema bullmq_old');
        for (const table of kept) await client.query(`create table bullmq_old.${table} as table bullmq.${table}`);
        const ageMs = 2 * between(random, times.awayMs);
        await delay(ageMs);
        await client.query('begin');
        await client.query(`truncate ${await tables(client)} cascade`);
        for (const table of kept) await client.query(`insert into bullmq.${table} table bullmq_old.${table}`);
        await client.query('commit');
        await queues.resumeAll();
        return { target, details: { ageMs } };
      }),
  },
  {
    kind: 'queue_dropped',
    weight: 2,
    make: ({ postgres }) =>
      postgres.use(async (client) => {
        await client.query('drop schema bullmq cascade');
        return { target };
      }),
  },
  {
    kind: 'queue_clients_killed',
    weight: 4,
    make: ({ postgres }) =>
      postgres.use(async (client) => {
        const { rowCount } = await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pawl queue'`,
        );
        return { target, details: { clients: rowCount } };
      }),
  },
];
