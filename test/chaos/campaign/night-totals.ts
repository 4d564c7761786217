/** What the campaigns of many nights add up to, and what they are meant to reach. */
import type { Backend, Meta, Report } from './evidence.js';
import { percentiles } from './recovery.js';
import type { Tried } from './try-campaign.js';

export interface Piece {
  seed: number;
  backend: Backend;
  commit: string;
  machine: Meta['machine'];
  settings: Meta['settings'];
  at: string;
  seconds: number;
  verdict: Report['verdict'];
  breaches: string[];
  counts: Record<string, number>;
  /** From a kill to the next claim of each step that it hit, in another process: milliseconds. */
  recoveryMs: number[];
}

export interface Night {
  nextSeed: number;
  pieces: Piece[];
}

export function emptyNight(seed: number): Night {
  return { nextSeed: seed, pieces: [] };
}

export function pieceOf({ meta, report, faults, recovery: recoveryMs }: Tried): Piece {
  const { seed, backend, commit, machine, settings } = meta;
  return {
    seed,
    backend,
    commit,
    machine,
    settings,
    at: new Date(meta.startedAt).toISOString(),
    seconds: Math.round((meta.endedAt - meta.startedAt) / 1_000),
    verdict: report.verdict,
    breaches: report.breaches.map(({ text }) => text),
    counts: {
      ...report.counts,
      'queues wiped': faults.filter(({ kind, failed }) => kind === 'queue_wiped' && failed === null).length,
    },
    recoveryMs,
  };
}

/** By the names of the checker's counts, and `queues wiped`: FLUSHALL, or its like on the Postgres backend. */
export const goals: Record<string, number> = {
  runs: 10_000,
  kills: 1_000,
  zombies: 100,
  'queues wiped': 100,
  'Postgres restarts': 60,
  'swallowed commits': 200,
};

export function totalsOf({ pieces }: Night) {
  const sum = (name: string) => pieces.reduce((total, { counts }) => total + (counts[name] ?? 0), 0);
  const names = [...new Set(pieces.flatMap(({ counts }) => Object.keys(counts)))];
  return {
    pieces: pieces.length,
    passed: pieces.filter(({ verdict }) => verdict === 'passed').length,
    inconclusive: pieces.filter(({ verdict }) => verdict === 'inconclusive').length,
    failed: pieces.filter(({ verdict }) => verdict === 'failed').length,
    breaches: pieces.reduce((total, piece) => total + piece.breaches.length, 0),
    seconds: pieces.reduce((total, { seconds }) => total + seconds, 0),
    commits: [...new Set(pieces.map(({ commit }) => commit))],
    backends: {
      redis: pieces.filter(({ backend }) => backend === 'redis').length,
      postgres: pieces.filter(({ backend }) => backend === 'postgres').length,
    },
    counts: Object.fromEntries(names.map((name) => [name, sum(name)])),
    recoveryMs: percentiles(pieces.flatMap(({ recoveryMs }) => recoveryMs)),
  };
}

/** The goals that the totals have not reached, with how far they are. */
export function unreached(night: Night): string[] {
  const { counts } = totalsOf(night);
  return Object.entries(goals).flatMap(([name, goal]) => {
    const reached = counts[name] ?? 0;
    return reached >= goal ? [] : [`${goal - reached} ${name}`];
  });
}
