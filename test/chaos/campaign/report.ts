/** A campaign's report, one screen of it: what was tried and where, the checker's word on it, and what was broken. */
import { printReport } from './check/print.js';
import type { Fault, Meta, Report } from './evidence.js';
import { percentiles } from './recovery.js';

export function writeReport(
  meta: Meta,
  faults: readonly Fault[],
  report: Report,
  recovery: readonly number[],
  folder: string,
): string {
  const { settings, machine } = meta;
  const seconds = (from: number, to: number) => `${((to - from) / 1_000).toFixed(1)} s`;
  const recovered =
    meta.settledAt === null ? 'not within a minute of' : `${seconds(meta.lastFaultAt, meta.settledAt)} after`;
  const { n, p50, p99, max } = percentiles(recovery);
  return [
    printReport(report, meta),
    '',
    `Faults: ${faultCounts(faults)}`,
    ...Object.entries(meta.unavailable).map(([kind, why]) => `Not made here: ${kind}: ${why}`),
    ...(n > 0 ? [`Kill to next claim elsewhere, ${n} steps: p50 ${p50} ms, p99 ${p99} ms, max ${max} ms`] : []),
    `${machine.cpus} × ${machine.cpu}, Node ${machine.node}, Postgres ${machine.postgres}, Redis ${machine.redis ?? 'none'}`,
    `Heartbeat ${settings.heartbeatMs} ms, death ${settings.deathMs} ms; ${seconds(meta.startedAt, meta.endedAt)} in all, every run at its end ${recovered} the last fault`,
    `${report.verdict.toUpperCase()}, seed ${meta.seed}; evidence in ${folder}`,
  ].join('\n');
}

function faultCounts(faults: readonly Fault[]): string {
  const counts = new Map<string, [done: number, failed: number]>();
  for (const { kind, failed } of faults) {
    const [done, not] = counts.get(kind) ?? [0, 0];
    counts.set(kind, failed === null ? [done + 1, not] : [done, not + 1]);
  }
  return [...counts]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([kind, [done, not]]) => `${kind} ${done}${not > 0 ? ` (${not} not)` : ''}`)
    .join(', ');
}
