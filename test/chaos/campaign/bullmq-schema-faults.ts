/** Faults of the queue where Postgres holds it: the tables of schema `bullmq` emptied, put back as they were, or dropped. */
import { setTimeout as delay } from 'node:timers/promises';
import { replaceQueue } from '../replace-queue.js';
import { between, type FaultMaker } from './faults.js';

const target = 'schema bullmq';

/** What the queue needs to know; the rest is history. */
const kept = ['meta', 'job'];

export const bullmqSchemaFaults: FaultMaker[] = [
  {
    kind: 'queue_wiped',
    weight: 20,
    make: ({ postgres }) =>
      postgres.use(async (client) => {
        const { rows } = await client.query<{ jobs: number }>('select count(*)::int as jobs from bullmq.job');
        await replaceQueue(client);
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
        await replaceQueue(
          client,
          kept.map((table) => `insert into bullmq.${table} table bullmq_old.${table}`),
        );
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
