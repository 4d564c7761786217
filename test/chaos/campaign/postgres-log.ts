/**
 * What the log of a Postgres tells of its own crashes: it ends itself by a PANIC where it cannot go on, as on a full disk, and
 * comes back by its log's recovery, or when it is started again. Nobody broke it then, and it is as after an immediate restart.
 */
export interface Panic {
  /** Milliseconds since 1970. */
  at: number;
  /** When it took connections again; null: it did not. */
  backAt: number | null;
  says: string;
}

const line = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] (PANIC|LOG): {2}(.*)$/;
const ready = 'database system is ready to accept connections';

/** Of several processes that panic before it is back, the first. */
export function panicsIn(log: string): Panic[] {
  const panics: Panic[] = [];
  let open: Panic | null = null;
  for (const text of log.split('\n')) {
    const [, day, time, level, says = ''] = line.exec(text) ?? [];
    const at = Date.parse(`${day}T${time}Z`);
    if (level === 'PANIC' && open === null) {
      open = { at, backAt: null, says };
      panics.push(open);
    }
    if (says !== ready || open === null) continue;
    open.backAt = at;
    open = null;
  }
  return panics;
}
