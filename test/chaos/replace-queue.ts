/** Empties the queue where Postgres holds it, and fills it again with what is given. */
import type pg from 'pg';

const deadlock = '40P01';
const mostTries = 20;

/**
 * All of BullMQ's tables emptied, and `then` carried out, in one transaction. BullMQ's own functions lock the tables in
 * another order; of two that wait for each other the server ends one, and when it is this one it is asked again.
 */
export async function replaceQueue(database: Pick<pg.Client, 'query'>, then: readonly string[] = []): Promise<void> {
  const { rows } = await database.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'bullmq' and tablename !~ 'migration|version'`,
  );
  const empty = `truncate ${rows.map(({ name }) => name).join(', ')} cascade`;
  for (let tries = 1; ; tries++) {
    try {
      await database.query([empty, ...then].join('; '));
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== deadlock || tries === mostTries) throw error;
    }
  }
}
