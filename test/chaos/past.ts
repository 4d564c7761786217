/**
 * The past comes back: every job there ever was is delivered once more, and every claim that is over records late. None of
 * it may change what is recorded (I2, I4, I6), whether the run goes on or is final. For a run that goes on, the caller holds
 * its workers still meanwhile.
 */
import type pg from 'pg';
import { recordOutcome } from '../../src/core/record.js';
import { createStore } from '../../src/postgres/store.js';
import type { Dashboard } from './dashboard.js';
import { type Rows, readRows, recordedPart } from './rows.js';

const deliveredWithinLooks = 600;

export async function bringBackThePast(pool: pg.Pool, dashboard: Dashboard, runId: string): Promise<string[]> {
  const before = await readRows(pool, runId);
  const when = before.run.finished_at === null ? 'a run that goes on' : 'a final run';
  const changed = async () => recordedPart(await readRows(pool, runId)) !== recordedPart(before);
  await dashboard.deliverAgain(jobsOfThePast(before), deliveredWithinLooks);
  if (await changed()) return [`I2: old jobs changed ${when}`];
  await recordLate(pool, before);
  if (await changed()) return [`I4: late records changed ${when}`];
  const unnoted = (await readRows(pool, runId)).attempts.some(({ late_note }) => late_note === null);
  return unnoted ? ['I4: a late record left no note on its attempt'] : [];
}

/** All but the jobs that are to move the run from here on. */
function jobsOfThePast({ run, steps }: Rows) {
  return steps.flatMap(({ seq, queue, status, dispatch }) => {
    const isOpen = status === 'pending' || status === 'running' || status === 'suspended';
    const last = isOpen ? dispatch - 1 : dispatch;
    return Array.from({ length: last }, (_, index) => ({ queue, runId: run.id, seq, dispatch: index + 1 }));
  });
}

/** Under each token that was archived, and under each that completed its step. */
async function recordLate(pool: pg.Pool, { run, steps, attempts }: Rows): Promise<void> {
  const store = createStore(pool);
  const archived = attempts.map(({ token, seq }) => ({ token, seq }));
  const completed = steps.flatMap(({ claim_token: token, seq, status }) =>
    status === 'completed' && token !== null ? [{ token, seq }] : [],
  );
  for (const { token, seq } of [...archived, ...completed]) {
    const outcome = { kind: 'tool_value', value: { text: 'too late', tokens: 2, full: null } } as const;
    const request = { seq, token, outcome, attemptsMade: 0 };
    await store.change(run.id, { seqs: [seq] }, (draft) => recordOutcome(draft, request), { receipt: token });
    await store.noteLate(token, 'returned late: tool_value');
  }
}
