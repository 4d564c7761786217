/**
 * How long a kill costs: from the kill to the next claim, in another process, of each step that was in flight. Only of what
 * could go on at once: not where a service or the next process was broken meanwhile, nor of a `once` call, whose fate
 * nobody asks about before its deadline.
 */
import type { Evidence, Fault, InFlight } from './evidence.js';

type GapLine = Extract<Evidence['workers'][number], { what: 'gap' }>;

export function recoveryTimes({ nemesis, workers, tables }: Evidence): number[] {
  const claims = new Map<string, GapLine[]>();
  for (const line of workers) {
    if (line.what !== 'gap' || line.gap !== 'after_claim') continue;
    const id = `${line.runId}.${line.seq}`;
    claims.set(id, [...(claims.get(id) ?? []), line]);
  }
  const once = new Set(tables.steps.flatMap((step) => (step.effect === 'once' ? [`${step.run_id}.${step.seq}`] : [])));
  const done = nemesis.filter((fault) => fault.failed === null && fault.kind !== 'quiet');
  return done
    .filter(({ kind }) => kind === 'kill' || kind === 'kill_at_gap')
    .flatMap((kill) => kill.inFlight.flatMap((flight) => timeOf(kill, flight) ?? []));

  function timeOf(kill: Fault, { runId, seq, gap }: InFlight): number | null {
    const { pid, hitAt } = kill.details;
    const id = `${runId}.${seq}`;
    if (typeof hitAt !== 'number' || once.has(id) || gap === 'after_record') return null;
    const next = claims.get(id)?.find((line) => line.at > hitAt && line.pid !== pid);
    if (next === undefined) return null;
    const disturbed = done.some((fault) => fault !== kill && fault.beganAt < next.at && fault.endedAt > hitAt - 1_000);
    return disturbed ? null : Math.round(next.at - hitAt);
  }
}

export function percentiles(values: readonly number[]) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? null };
}
