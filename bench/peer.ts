/**
 * What a peer is to the bench: it opens its worker in this process, plays runs to their ends, and shows what it recorded.
 * One file a peer in peers/, each written as that peer's own documentation would write it.
 */
import type { Work } from './work.js';

export interface Setting {
  /** A database of its own, empty. */
  databaseUrl: string;
  /** A Redis database of its own, empty. */
  redisUrl: string;
  /** Steps, or runs where the peer knows no steps, performed at once. */
  concurrency: number;
  work: Work;
}

export interface Session {
  /**
   * Accepts the runs, and resolves when the last one has ended. `each`: every step is recorded before the next begins, also
   * where the peer's default lets it begin earlier; the time between two steps would else say nothing of the record.
   */
  play(runs: readonly string[], steps: number, recorded?: 'each'): Promise<void>;
  /** The outputs recorded for a run, in order; null where the peer records none. */
  outputs(run: string): Promise<string[] | null>;
  /** How many steps are recorded in all; null where none are. */
  recorded(): Promise<number | null>;
  /** Bytes stored where that is not the Postgres of the setting. */
  stored?(): Promise<number>;
  close(): Promise<void>;
}

export interface Peer {
  title: string;
  /** Its packages, whose versions are reported. */
  packages: readonly string[];
  /** How it is used, in a few words. */
  how: string;
  /** Runs played, as a share of what the others play: for one that is much slower. */
  share?: number;
  open(setting: Setting): Promise<Session>;
}

/** Calls `start` for every item with at most `atOnce` of them under way. */
export async function inLanes<T>(
  items: readonly T[],
  atOnce: number,
  start: (item: T) => PromiseLike<unknown>,
): Promise<void> {
  const left = items.values();
  const lane = async () => {
    for (const item of left) await start(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
}
