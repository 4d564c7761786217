/**
 * A database in memory with all its ports, on a clock driven by hand: for tests of the engine that need neither Postgres
 * nor time.
 */
import type { Store, Watch } from '../ports.js';
import { FakeClock } from './fake-clock.js';
import type { RunRows } from './memory-runs.js';
import { createMemoryStore, emptyTables } from './memory-store.js';
import { createMemoryWatch } from './memory-watch.js';
import { MemoryWorkers } from './memory-workers.js';

export interface MemoryWorld {
  clock: FakeClock;
  store: Store;
  watch: Watch;
  workers: MemoryWorkers;
  /** Every row of a run, as it is now; undefined: there is no such run. */
  rows(runId: string): RunRows | undefined;
  /** From now on nothing is answered, until it is set back. */
  setReachable(reachable: boolean): void;
}

export function memoryWorld({ clock = new FakeClock(), beatEveryMs = 2_000 } = {}): MemoryWorld {
  const tables = emptyTables(clock);
  return {
    clock,
    store: createMemoryStore(tables),
    watch: createMemoryWatch(tables),
    workers: new MemoryWorkers(tables, beatEveryMs),
    rows: (runId) => tables.runs.get(runId),
    setReachable: (reachable) => {
      tables.reachable = reachable;
    },
  };
}
