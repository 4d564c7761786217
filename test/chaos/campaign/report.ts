/** A campaign's report, one screen of it: what was tried, what was broken, what happened, and whether it held. */
import type { Fault, Meta, Report } from './evidence.js';

export function writeReport(meta: Meta, faults: readonly Fault[], report: Report, folder: string): string {
  const { settings, machine } = meta;
  const seconds = (from: number, to: number) => `${((to - from) / 1_000).toFixed(1)} s`;
  const recovered = meta.settledAt === null ? 'never' : seconds(meta.lastFaultAt, meta.settledAt);
  const head = [
    `seed ${meta.seed} on ${meta.backend}, commit ${meta.commit}, ${seconds(meta.startedAt, meta.endedAt)}`,
    `${machine.cpus} × ${machine.cpu}, Node ${machine.node}, Postgres ${machine.postgres}, Redis ${machine.redis ?? '–'}`,
    `workers ${settings.layout}, heartbeat ${settings.heartbeatMs} ms, death ${settings.deathMs} ms`,
    `all at their end ${recovered} after the last fault`,
  ];
  const breaches = report.breaches
    .slice(0, 20)
    .map(({ text, runId }) => `  ${text}${runId === null ? '' : ` (${runId})`}`);
  const more = report.breaches.length - breaches.length;
  return [
    ...head,
    '',
    ...columns(Object.entries(report.counts).map(([name, count]) => `${String(count).padStart(6)} ${name}`)),
    '',
    `faults: ${faultCounts(faults)}`,
    ...Object.entries(meta.unavailable).map(([kind, why]) => `not made here: ${kind}: ${why}`),
    '',
    ...(breaches.length > 0 ? [`${report.breaches.length} breaches:`, ...breaches] : []),
    ...(more > 0 ? [`  … and ${more} more`] : []),
    ...(report.missing.length > 0 ? [`did not happen: ${report.missing.join(', ')}`] : []),
    `${report.verdict.toUpperCase()}   evidence: ${folder}`,
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

function columns(cells: readonly string[]): string[] {
  const width = 30;
  const lines: string[] = [];
  for (let at = 0; at < cells.length; at += 4) {
    lines.push(
      cells
        .slice(at, at + 4)
        .map((cell) => cell.padEnd(width))
        .join('')
        .trimEnd(),
    );
  }
  return lines;
}
