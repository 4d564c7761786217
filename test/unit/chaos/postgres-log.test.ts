/** When a Postgres ended itself is read from its log. */
import { expect, it } from 'vitest';
import { panicsIn } from '../../chaos/campaign/postgres-log.js';

const at = (time: string) => Date.parse(`2026-11-30T${time}Z`);

it('tells of each panic and of when Postgres was back, and of nothing that was done to it', () => {
  const log = `2026-11-30 17:58:10.298 UTC [41] LOG:  database system is ready to accept connections
2026-11-30 17:58:10.400 UTC [41] LOG:  received immediate shutdown request
2026-11-30 17:58:10.410 UTC [41] LOG:  database system is ready to accept connections
2026-11-30 17:58:10.520 UTC [66] PANIC:  could not write to file "pg_wal/xlogtemp.66": No space left on device
2026-11-30 17:58:10.520 UTC [66] STATEMENT:  select 'PANIC:  none'
2026-11-30 17:58:10.521 UTC [67] PANIC:  could not write to file "pg_wal/xlogtemp.67": No space left on device
2026-11-30 17:58:10.524 UTC [41] LOG:  client backend (PID 66) was terminated by signal 6: Aborted
2026-11-30 17:58:10.600 UTC [70] FATAL:  the database system is in recovery mode
2026-11-30 17:58:11.000 UTC [41] LOG:  database system is ready to accept connections
2026-11-30 17:59:00.000 UTC [80] PANIC:  could not fsync file "base/1/2": Input/output error
`;
  expect(panicsIn(log)).toEqual([
    {
      at: at('17:58:10.520'),
      backAt: at('17:58:11.000'),
      says: 'could not write to file "pg_wal/xlogtemp.66": No space left on device',
    },
    { at: at('17:59:00.000'), backAt: null, says: 'could not fsync file "base/1/2": Input/output error' },
  ]);
});
