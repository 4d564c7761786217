/**
 * Steps, messages and events in partitions by the hash of their run: everything the engine does with them names the run, so a
 * statement touches one partition. Keys to other tables are left out, since a partitioned table's rows are dropped whole.
 */
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { openMigrated } from '../peers/pawl.js';
import type { Stage } from './trial.js';

const tables = ['messages', 'events', 'steps'];
const partitions = 8;

export async function tryPartitions({ databaseUrl, redisUrl, play, say }: Stage): Promise<void> {
  await migrate(databaseUrl);
  const setting = { databaseUrl, redisUrl, concurrency: 50 };
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    for (const table of tables) await partition(client, table);
    const rate = await play((work) => openMigrated({ ...setting, work }, redisUrl));
    const { rows } = await client.query<{ used: number }>(
      `select count(*)::int as used from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'pawl' and c.relkind = 'r' and c.relname like 'steps\\_part\\_%' and pg_relation_size(c.oid) > 0`,
    );
    say(
      `works with ${tables.join(', ')} in ${partitions} partitions each: ${rate} steps/s; ${rows[0]?.used} partitions of steps hold rows`,
    );
  } finally {
    await client.end();
  }
}

/** The table anew under its own name, with all its columns, checks and indexes, and no foreign keys from it or to it. */
async function partition(client: pg.Client, table: string): Promise<void> {
  await client.query(`alter table pawl.${table} rename to ${table}_whole`);
  await client.query(`create table pawl.${table} (like pawl.${table}_whole including all) partition by hash (run_id)`);
  for (let n = 0; n < partitions; n++) {
    await client.query(
      `create table pawl.${table}_part_${n} partition of pawl.${table} for values with (modulus ${partitions}, remainder ${n})`,
    );
  }
  await client.query(`drop table pawl.${table}_whole cascade`);
}
