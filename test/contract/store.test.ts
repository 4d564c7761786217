/** The Store's and the Watch's contracts on Postgres. The fake's run is in test/unit, since it needs no service. */
import { setTimeout as delay } from 'node:timers/promises';
import { createPool } from '../../src/postgres/pool.js';
import {
  type AttemptRow,
  type MessageRow,
  type RunRow,
  readAttempt,
  readMessage,
  readRun,
  readStep,
  type StepRow,
} from '../../src/postgres/rows.js';
import { eventsOf } from '../../src/postgres/step-events.js';
import { stepsOfRun } from '../../src/postgres/step-texts.js';
import { createStore } from '../../src/postgres/store.js';
import { createWatch } from '../../src/postgres/watch.js';
import { createWorkers } from '../../src/postgres/workers.js';
import { quietLog } from '../support/quiet-log.js';
import { createTestDatabase } from '../support/services.js';
import { storeContract } from './store.js';
import type { StoreWorld } from './store-world.js';
import { watchContract } from './watch.js';

const timesOf: Record<string, string[]> = {
  runs: ['created_at', 'started_at', 'finished_at', 'deadline_at', 'pause_at', 'ending_at'],
  steps: ['due_at', 'claimed_at', 'claim_deadline', 'queued_at', 'started_at', 'finished_at'],
  workers: ['beat_at', 'beat_before_at', 'started_at', 'ended_at'],
  attempts: ['started_at', 'ended_at'],
  agents: ['registered_at'],
};

async function openWorld(): Promise<StoreWorld> {
  const { url } = await createTestDatabase();
  const pool = createPool({ url, max: 10, applicationName: 'pawl store contract' });
  return {
    store: createStore(pool),
    watch: createWatch(pool),
    workers: createWorkers(pool, { url, everyMs: 100, slots: 10, log: quietLog }),
    async pass(ms) {
      for (const [table, columns] of Object.entries(timesOf)) {
        const older = columns.map((column) => `${column} = ${column} - $1 * interval '1 millisecond'`);
        await pool.query(`update pawl.${table} set ${older.join(', ')}`, [ms]);
      }
    },
    moment: () => delay(20),
    async rows(runId) {
      const of = async <Row extends object>(what: string) =>
        (await pool.query<Row>(`select * from pawl.${what}`, [runId])).rows;
      const [run] = await of<RunRow>('runs where id = $1');
      if (run === undefined) throw new Error(`there is no run ${runId}`);
      const { rows: events } = await pool.query<{ id: number; type: string }>(
        `select id, type from ${eventsOf('$1')} e order by id`,
        [runId],
      );
      return {
        run: readRun(run),
        steps: (await pool.query<StepRow>(stepsOfRun, [runId])).rows.map(readStep),
        messages: (await of<MessageRow>('messages where run_id = $1 order by seq, pos')).map(readMessage),
        attempts: (
          await of<AttemptRow & { late_note: string | null }>('attempts where run_id = $1 order by ended_at, token')
        ).map((row) => ({ ...readAttempt(row), lateNote: row.late_note })),
        eventTypes: events.map((event) => event.type),
        eventIds: events.map((event) => event.id),
      };
    },
    close: () => pool.end(),
  };
}

storeContract('Postgres', openWorld);
watchContract('Postgres', openWorld);
