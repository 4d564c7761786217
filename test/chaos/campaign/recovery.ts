/**
 * How long a kill costs: from the kill to the next claim, in another process, of each step that was in flight. Only of what
 * could go on at once: not where a service or the next process was broken meanwhile, nor of a `once` call, whose fate
 * nobody asks about before its deadline.
 */
import type { Evidence, Fault, InFlight } from './evidence.js';

type GapLine = Extract<Evidence['workers'][number], { what: 'gap' }>;

export interface Recovery {
  ms: number;
  /** How far the step had come when its process was killed. */
  gap: InFlight['gap'];
}

/** `besides`: kills of other processes in the meantime are no excuse. */
export function recoveriesOf({ nemesis, workers, tables }: Evidence, besides: 'kills' | 'nothing'): Recovery[] {
  const claims = new Map<string, GapLine[]>();
  for (const line of workers) {
    if (line.what !== 'gap' || line.gap !== 'after_claim') continue;
    const id = `${line.runId}.${line.seq}`;
    claims.set(id, [...(claims.get(id) ?? []), line]);
  }
  const once = new Set(tables.steps.flatMap((step) => (step.effect === 'once' ? [`${step.run_id}.${step.seq}`] : [])));
  const done = nemesis.filter((fault) => fault.failed === null && fault.kind !== 'quiet');
  return done.filter(isKill).flatMap((kill) => kill.inFlight.flatMap((flight) => timeOf(kill, flight) ?? []));

  function timeOf(kill: Fault, { runId, seq, gap }: InFlight): Recovery | null {
    const { pid, hitAt } = kill.details;
    const id = `${runId}.${seq}`;
    if (typeof hitAt !== 'number' || once.has(id) || gap === 'after_record') return null;
    const next = claims.get(id)?.find((line) => line.at > hitAt && line.pid !== pid);
    if (next === undefined) return null;
    const disturbed = done.some((fault) => {
      if (fault === kill || (besides === 'kills' && isKill(fault))) return false;
      return fault.beganAt < next.at && fault.endedAt > hitAt - 1_000;
    });
    return disturbed ? null : { ms: Math.round(next.at - hitAt), gap };
  }
}

export const isKill = ({ kind }: Fault) => kind === 'kill' || kind === 'kill_at_gap';

export function percentiles(values: readonly number[]) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? null };
}
