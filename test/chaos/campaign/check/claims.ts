/**
 * I4: a late write from an old claim changes nothing but its own attempt row. Each claim that a worker was given leaves one
 * trace, on its step or among the attempts; a step is completed by the claim that it names, after that claim's call came
 * back; and a reply that was lost costs nothing but the asking again. With it the dispatch: an old job claims nothing.
 */
import type { Evidence, StepDump } from '../evidence.js';
import {
  type Breach,
  breachOf,
  breachOfAll,
  byKey,
  type Dossier,
  type GapLine,
  type Line,
  ms,
  see,
  type Trace,
  tracesOf,
} from './dossier.js';
import { isFaultOfProcess } from './spans.js';

export function checkTokens(dossiers: readonly Dossier[]): Breach[] {
  const traces = dossiers.flatMap((dossier) => dossier.steps.flatMap((step) => tracesOf(dossier, step)));
  return [...byKey(traces, (trace) => trace.token)].flatMap(([token, found]) =>
    found.length === 1
      ? []
      : [breachOfAll('I4', `the claim ${token} left ${found.length} traces`, ...found.map(({ where }) => where))],
  );
}

export function checkClaims(dossier: Dossier): Breach[] {
  const lines = dossier.deliveries.flatMap((line) => (line.what === 'gap' ? [line] : []));
  return dossier.steps.flatMap((step) => {
    const traces = tracesOf(dossier, step);
    const ofStep = lines.filter((line) => line.seq === step.seq);
    return [
      ...ofNumbers(dossier, step, traces),
      ...ofClaimed(dossier, traces, ofStep),
      ...ofNotes(dossier, step, traces),
      ...ofCompletion(dossier, step, ofStep),
      ...ofDispatches(dossier, step, traces, ofStep),
    ];
  });
}

/** Attempts count from 1, each claim one more; a claim that only asks for the fate of a `once` call is none. */
function ofNumbers(dossier: Dossier, step: Line<StepDump>, traces: readonly Trace[]): Breach[] {
  const numbers = traces.map((trace) => trace.attempt);
  const counted = step.effect === 'once' ? [...new Set(numbers)] : numbers;
  const wanted = Array.from({ length: step.attempt }, (_, index) => index + 1);
  if (counted.sort((a, b) => a - b).join() === wanted.join()) return [];
  const text = `step ${step.seq} counts ${step.attempt} attempts and has traces of ${counted.join(', ') || 'none'}`;
  return [breachOf('I4', dossier, text, see('steps', step), ...traces.map(({ where }) => where))];
}

function ofClaimed(dossier: Dossier, traces: readonly Trace[], lines: readonly Line<GapLine>[]): Breach[] {
  return lines.flatMap((line) => {
    if (line.gap !== 'after_claim' || line.token === null) return [];
    const trace = traces.find(({ token }) => token === line.token);
    if (trace?.attempt === line.attempt || dossier.forgotten.includes(line)) return [];
    const left = trace === undefined ? 'left no trace' : `is known as attempt ${trace.attempt}`;
    const text = `the claim of step ${line.seq} as attempt ${line.attempt} ${left}`;
    return [breachOf('I4', dossier, text, see('workers', line))];
  });
}

/** Who recorded an end is answered by it for ever, and notes nothing as late. */
function ofNotes(dossier: Dossier, step: Line<StepDump>, traces: readonly Trace[]): Breach[] {
  return traces.flatMap(({ ended, where }) => {
    if (ended === null || !ended.recorded || ended.lateNote === null) return [];
    const text = `step ${step.seq}: a repeated record of ${ended.by} did not find its receipt (${ended.lateNote})`;
    return [breachOf('I4', dossier, text, where)];
  });
}

/** `finished_at` may lie behind by the time that the claim's answer took; no more. */
function ofCompletion(dossier: Dossier, step: Line<StepDump>, lines: readonly Line<GapLine>[]): Breach[] {
  if (step.finished_at === null || step.claim_token === null) return [];
  const returned = lines.find((line) => line.gap === 'after_call' && line.token === step.claim_token);
  const name = `step ${step.seq} is ${step.status} by the claim ${step.claim_token}`;
  if (returned === undefined)
    return [breachOf('I4', dossier, `${name}, whose call never came back`, see('steps', step))];
  const claimed = lines.find((line) => line.gap === 'after_claim' && line.token === step.claim_token);
  const asked = lines.findLast(
    (line) =>
      line.gap === 'before_claim' && line.pid === returned.pid && claimed !== undefined && line.line < claimed.line,
  );
  const answerMs = claimed === undefined || asked === undefined ? 0 : claimed.at - asked.at;
  const early = returned.at - ms(step.finished_at) - answerMs;
  if (early <= clockSlackMs) return [];
  const text = `${name} ${Math.round(early)} ms before that claim's call came back`;
  return [breachOf('I4', dossier, text, see('steps', step), see('workers', returned))];
}

const clockSlackMs = 100;

/** A job of an older dispatch is stale. Only a recorded retry leaves the dispatch as it was; its job comes back. */
function ofDispatches(
  dossier: Dossier,
  step: Line<StepDump>,
  traces: readonly Trace[],
  lines: readonly Line<GapLine>[],
): Breach[] {
  const claimed = new Map(lines.flatMap((line) => (line.gap === 'after_claim' ? [[line.token, line]] : [])));
  const found: Breach[] = [];
  let before: { line: Line<GapLine>; trace: Trace } | null = null;
  for (const trace of traces) {
    const line = claimed.get(trace.token);
    if (line === undefined) continue;
    const mayRepeat = before?.trace.ended?.by === 'failure' && before.trace.ended.recorded;
    const least = before === null ? 1 : before.line.dispatch + (mayRepeat ? 0 : 1);
    if (line.dispatch < least || line.dispatch > step.dispatch) {
      const text = `step ${step.seq} was claimed by its job ${line.dispatch}, at ${least} or later by then`;
      found.push(breachOf('section 2', dossier, text, see('workers', ...(before ? [before.line] : []), line)));
    }
    before = { line, trace };
  }
  return found;
}

/** A claim or record whose reply was swallowed is asked again with its token, and answered as the first time. */
export function checkSwallowed(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const known = new Map(dossiers.map((dossier) => [dossier.run.id, dossier]));
  return evidence.nemesis.flatMap((fault) => {
    if (fault.kind !== 'reply_swallowed' || fault.failed !== null) return [];
    return fault.inFlight.flatMap(({ runId, seq, token }) => {
      const dossier = known.get(runId);
      const step = dossier?.steps.find((candidate) => candidate.seq === seq);
      if (dossier === undefined || step === undefined || token === null) return [];
      const trace = tracesOf(dossier, step).find((candidate) => candidate.token === token);
      if (trace === undefined && dossier.forgotten.some((line) => line.token === token)) return [];
      if (trace === undefined) {
        const text = `step ${step.seq}: what was committed by the claim ${token} is gone, its reply was swallowed`;
        return [breachOf('I4', dossier, text, `nemesis ${fault.id}`)];
      }
      const { ended, where } = trace;
      // What was swallowed may have been the reply to the rescue itself.
      // A death is archived by the redrive that revives its step.
      if (ended === null || ended.recorded || ended.by === 'death' || ended.at <= fault.endedAt) return [];
      if (wasHit(evidence, dossier, { token, seq: step.seq, from: fault.beganAt, to: ended.at })) return [];
      const text = `step ${step.seq}: a swallowed reply cost its claim, which ended by ${ended.by}`;
      return [breachOf('I4', dossier, text, `nemesis ${fault.id}`, where)];
    });
  });
}

/** Whether anything else happened meanwhile that may cost a claim: to its process, or to a service. */
function wasHit(
  { nemesis, workers }: Evidence,
  dossier: Dossier,
  { token, seq, from, to }: { token: string; seq: number; from: number; to: number },
): boolean {
  const place = placeOf(dossier, token, seq, from)?.worker;
  const lineOfPlace = workers.some(
    (line) => line.what === 'exited' && line.worker === place && line.at >= from && line.at <= to,
  );
  const other = nemesis.some((fault) => {
    if (fault.kind === 'quiet' || fault.kind === 'reply_swallowed') return false;
    if (fault.endedAt < from - 1_000 || fault.beganAt > to) return false;
    return !isFaultOfProcess(fault) || fault.target === place || place === undefined;
  });
  return lineOfPlace || other;
}

/** Where the claim was made: named by its token once it was answered, before that only by who was about to claim the step. */
function placeOf({ deliveries }: Dossier, token: string, seq: number, at: number) {
  const answered = deliveries.find((line) => line.what === 'gap' && line.token === token);
  return answered ?? deliveries.findLast((line) => line.what === 'gap' && line.seq === seq && line.at <= at + 3_000);
}
