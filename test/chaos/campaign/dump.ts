/** Writes the tables out, as they were at one instant. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventsOf } from '../../../src/postgres/step-events.js';
import { tables } from './evidence.js';
import type { PostgresService } from './postgres-service.js';

const everyEvent = `(select e.* from pawl.runs r cross join lateral ${eventsOf('r.id')} e)`;

export async function dumpTables(folder: string, postgres: PostgresService): Promise<void> {
  await postgres.use(async (client) => {
    await client.query('begin isolation level repeatable read read only');
    for (const table of tables) {
      const from = table === 'events' ? everyEvent : `pawl.${table}`;
      const { rows } = await client.query<{ row: string }>(`select row_to_json(t)::text as row from ${from} t`);
      await writeFile(join(folder, 'tables', `${table}.jsonl`), rows.map(({ row }) => `${row}\n`).join(''));
    }
    await client.query('commit');
  });
}
