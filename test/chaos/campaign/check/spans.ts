/**
 * Times in which something was broken, as the nemesis log and the processes' own comings and goings tell them. Other
 * checks excuse by them what could not be: a run that stood still, a worker that was taken for dead, a call not aborted.
 */
import type { Evidence, Fault, FaultKind, WorkerLine } from '../evidence.js';

export interface Span {
  from: number;
  to: number;
}

/** Faults of one process: `target` names its place. */
const ofProcess: ReadonlySet<FaultKind> = new Set([
  'kill',
  'kill_at_gap',
  'sigterm',
  'zombie',
  'blocked_loop',
  'clock_off',
  'clock_jump',
]);

/** Faults that are over at once and leave the services able to work: what they took away has to be made good. */
const isMomentary: ReadonlySet<FaultKind> = new Set([
  'queue_wiped',
  'queue_clients_killed',
  'queue_scripts_flushed',
  'queue_dropped',
  'jobs_added',
  'jobs_removed',
  'jobs_retried',
  'jobs_obliterated',
  'reply_swallowed',
]);

/** Faults after which the queue has forgotten what it was given. */
export const losesQueue: ReadonlySet<FaultKind> = new Set([
  'queue_wiped',
  'queue_restarted_empty',
  'queue_restored_old',
  'queue_dropped',
  'jobs_removed',
  'jobs_obliterated',
]);

export const isFaultOfProcess = (fault: Fault) => ofProcess.has(fault.kind);
const isFaultOfService = (fault: Fault) => fault.kind !== 'quiet' && !ofProcess.has(fault.kind);
const spanOf = ({ beganAt, endedAt }: Fault): Span => ({ from: beganAt, to: endedAt });

/** When services did not work, or no process was left to take steps or to maintain. In order, without overlaps. */
export function unableSpans(evidence: Evidence): Span[] {
  const broken = evidence.nemesis.filter((fault) => isFaultOfService(fault) && !isMomentary.has(fault.kind));
  const places = placesOf(evidence);
  const away = (roles: readonly string[]) => {
    const held = places.filter((place) => roles.includes(place.role));
    return held.length === 0 ? [] : held.map((place) => place.away).reduce(intersect);
  };
  return union([...broken.map(spanOf), ...away(['all', 'steps']), ...away(['all', 'maintenance'])]);
}

/** Every fault but of the kinds given, and every process's absence. */
export function disturbedSpans(evidence: Evidence, except: ReadonlySet<FaultKind> = new Set()): Span[] {
  const faults = evidence.nemesis.filter((fault) => fault.kind !== 'quiet' && !except.has(fault.kind)).map(spanOf);
  return union([...faults, ...placesOf(evidence).flatMap((place) => place.away)]);
}

/** When a service was disturbed, or the process that holds this place was. */
export function disturbedSpansOf({ nemesis }: Pick<Evidence, 'nemesis'>, place: string): Span[] {
  return union(nemesis.filter((fault) => isFaultOfService(fault) || fault.target === place).map(spanOf));
}

interface PlaceSpans {
  role: string;
  /** No process, one that is not yet ready, or one that a fault has in hand. */
  away: Span[];
}

function placesOf({ workers, nemesis, meta }: Evidence): PlaceSpans[] {
  const roles = new Map(workers.flatMap((line) => (line.what === 'spawned' ? [[line.worker, line.role]] : [])));
  return [...roles].map(([name, role]) => {
    const hit = nemesis.filter((fault) => isFaultOfProcess(fault) && fault.target === name).map(spanOf);
    const absences = absencesOf(
      workers.filter((line) => line.worker === name),
      meta.endedAt,
    );
    return { role: role ?? '', away: union([...hit, ...absences]) };
  });
}

function absencesOf(lines: readonly WorkerLine[], endedAt: number): Span[] {
  const found: Span[] = [];
  let since: number | null = null;
  for (const line of [...lines].sort((a, b) => a.at - b.at)) {
    if (line.what === 'spawned' || line.what === 'exited') since ??= line.at;
    if (line.what === 'ready' && since !== null) {
      found.push({ from: since, to: line.at });
      since = null;
    }
  }
  return since === null ? found : [...found, { from: since, to: endedAt }];
}

export function union(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else merged.push({ ...span });
  }
  return merged;
}

function intersect(a: readonly Span[], b: readonly Span[]): Span[] {
  return a.flatMap((one) =>
    b.flatMap((other) => {
      const both = { from: Math.max(one.from, other.from), to: Math.min(one.to, other.to) };
      return both.from < both.to ? [both] : [];
    }),
  );
}

/** What is left of the first where the second are not. */
export function without(spans: readonly Span[], cut: readonly Span[]): Span[] {
  return cut.reduce(
    (left: readonly Span[], { from, to }) =>
      left.flatMap((span) =>
        [
          { from: span.from, to: Math.min(span.to, from) },
          { from: Math.max(span.from, to), to: span.to },
        ].filter((part) => part.from < part.to),
      ),
    spans,
  ) as Span[];
}

export function overlaps(spans: readonly Span[], { from, to }: Span): boolean {
  return spans.some((span) => span.from <= to && span.to >= from);
}
