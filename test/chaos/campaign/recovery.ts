/**
 * How long a kill costs: from the kill to the next claim, in another process, of each step that was in flight, and what that
 * time was spent on. What has no such time is counted by its reason, and never dropped without a word.
 */
import { type Evidence, type Fault, type InFlight, tellingLines, type WorkerLine } from './evidence.js';

type GapLine = Extract<WorkerLine, { what: 'gap' }>;
type LogLine = Extract<WorkerLine, { what: 'log' }>;

export interface Recovery {
  ms: number;
  /** How far the step had come when its process was killed. */
  gap: InFlight['gap'];
  /** How often whoever had taken the step by then was killed as well, before it could claim it. */
  furtherKills: number;
  /** What the time was spent on; adds up to it. */
  waits: Partial<Record<Wait, number>>;
}

export type Wait =
  | 'the verdict that the process is dead'
  | 'the claim to be taken back'
  | 'the sweep to find it'
  | 'a process to fetch it'
  | 'the claim'
  | 'its turn as a suspect'
  | 'a taker that was killed with it'
  | 'a taker that was killed while it waited for its turn as a suspect';

/** Why a step in flight has no time. */
export type NoTime =
  /** Before its deadline nobody asks about the fate of such a call. */
  'calls of once tools' | 'recorded before the kill' | 'ended without another claim' | 'disturbed by another fault';

export interface Recoveries {
  times: Recovery[];
  without: Record<NoTime, number>;
}

/** `besides`: kills of other processes in the meantime are no excuse. */
export function recoveriesOf({ nemesis, workers, tables }: Evidence, besides: 'kills' | 'nothing'): Recoveries {
  const ofStep = linesByStep(workers);
  const deaths = deathsIn(workers);
  const once = new Set(tables.steps.flatMap((step) => (step.effect === 'once' ? [`${step.run_id}.${step.seq}`] : [])));
  const done = nemesis.filter((fault) => fault.failed === null && fault.kind !== 'quiet');
  const kills = done.filter((fault) => isKill(fault) && typeof fault.details.hitAt === 'number');
  const hits = new Map(kills.map(({ details }) => [Number(details.pid), Number(details.hitAt)]));
  const found: Recoveries = {
    times: [],
    without: {
      'calls of once tools': 0,
      'recorded before the kill': 0,
      'ended without another claim': 0,
      'disturbed by another fault': 0,
    },
  };
  for (const kill of kills) {
    for (const flight of kill.inFlight) {
      const time = timeOf(kill, flight);
      if (typeof time === 'string') found.without[time] += 1;
      else found.times.push(time);
    }
  }
  return found;

  function timeOf(kill: Fault, { runId, seq, gap }: InFlight): Recovery | NoTime {
    const [pid, hitAt] = [Number(kill.details.pid), Number(kill.details.hitAt)];
    const id = `${runId}.${seq}`;
    if (once.has(id)) return 'calls of once tools';
    if (gap === 'after_record') return 'recorded before the kill';
    const later = (ofStep.get(id) ?? []).filter((line) => line.at > hitAt && (line.what === 'log' || line.pid !== pid));
    const next = later.find((line) => line.what === 'gap' && line.gap === 'after_claim');
    if (next === undefined) return 'ended without another claim';
    const disturbed = done.some((fault) => {
      if (fault === kill || (besides === 'kills' && isKill(fault))) return false;
      return fault.beganAt < next.at && fault.endedAt > hitAt - 1_000;
    });
    if (disturbed) return 'disturbed by another fault';
    const before = later.slice(0, later.indexOf(next));
    const turns = [
      { at: hitAt, waitsFor: firstWait(gap) },
      ...(gap === 'before_claim' ? [] : verdictOn(pid, hitAt)),
      ...before.flatMap((line) => turnAt(line)),
      ...killsOfTakers(before, next.at),
    ].sort((a, b) => a.at - b.at);
    return {
      ms: Math.round(next.at - hitAt),
      gap,
      furtherKills: turns.filter(({ waitsFor }) => waitsFor.startsWith('a taker')).length,
      waits: spent(turns, next.at),
    };
  }

  function verdictOn(pid: number, hitAt: number): Turn[] {
    const at = deaths.get(pid);
    return at === undefined ? [] : [{ at: Math.max(at, hitAt), waitsFor: 'the claim to be taken back' }];
  }

  /** Those that were the last to have the step when they were killed. */
  function killsOfTakers(before: readonly (WorkerLine & { at: number })[], until: number): Turn[] {
    return before.flatMap((line, n) => {
      const at = hits.get(line.pid);
      if (line.what !== 'gap' && line.what !== 'refused') return [];
      if (at === undefined || at < line.at || at > until) return [];
      const later = before.slice(n + 1).find((other) => other.what === 'gap' || other.what === 'refused');
      if (later !== undefined && later.at < at) return [];
      const keeps = line.what === 'refused' && line.refusal === 'suspect_slot';
      if (line.what === 'refused' && !keeps) return [];
      return [
        {
          at,
          waitsFor: keeps
            ? 'a taker that was killed while it waited for its turn as a suspect'
            : 'a taker that was killed with it',
        },
      ];
    });
  }
}

/** From here on the step waits for that. */
interface Turn {
  at: number;
  waitsFor: Wait;
}

const firstWait = (gap: InFlight['gap']): Wait =>
  gap === 'before_claim' ? 'the sweep to find it' : 'the verdict that the process is dead';

function turnAt(line: WorkerLine): Turn[] {
  const { at } = line;
  if (line.what === 'log') return [{ at, waitsFor: 'a process to fetch it' }];
  if (line.what === 'gap') return [{ at, waitsFor: 'the claim' }];
  return line.what === 'refused' && line.refusal === 'suspect_slot' ? [{ at, waitsFor: 'its turn as a suspect' }] : [];
}

function spent(turns: readonly Turn[], until: number): Recovery['waits'] {
  const waits: Recovery['waits'] = {};
  turns.forEach(({ at, waitsFor }, n) => {
    const ms = (turns[n + 1]?.at ?? until) - at;
    waits[waitsFor] = Math.round((waits[waitsFor] ?? 0) + ms);
  });
  return waits;
}

/** What was written of each step: its deliveries, their refusals, and that its claim was taken back. */
function linesByStep(workers: readonly WorkerLine[]): Map<string, (GapLine | LogLine | WorkerLine)[]> {
  const lines = new Map<string, WorkerLine[]>();
  for (const line of workers) {
    if (line.what !== 'gap' && line.what !== 'refused' && !(line.what === 'log' && line.msg === tellingLines.rescued))
      continue;
    const { runId, seq } = line.what === 'log' ? line.fields : line;
    const id = `${runId}.${seq}`;
    const known = lines.get(id);
    if (known === undefined) lines.set(id, [line]);
    else known.push(line);
  }
  return lines;
}

/** When each process was declared dead. */
function deathsIn(workers: readonly WorkerLine[]): Map<number, number> {
  const pids = new Map<unknown, number>();
  const deaths = new Map<number, number>();
  for (const line of workers) {
    if (line.what === 'ready') pids.set(line.workerId, line.pid);
    if (line.what !== 'log' || line.msg !== tellingLines.declaredDead) continue;
    const pid = pids.get(line.fields.workerId);
    if (pid !== undefined && !deaths.has(pid)) deaths.set(pid, line.at);
  }
  return deaths;
}

export const isKill = ({ kind }: Fault) => kind === 'kill' || kind === 'kill_at_gap';

export function percentiles(values: readonly number[]) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? null };
}
