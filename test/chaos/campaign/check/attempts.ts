/**
 * Section 5: who decides that it was the last attempt. The counts of a step are what its attempts say, played again in
 * their order since the last redrive; none goes beyond its limit, none gives up before it; and each attempt called once.
 */
import { crashLimit } from '../../../../src/core/step.js';
import type { StepDump } from '../evidence.js';
import {
  type Breach,
  breachOf,
  byKey,
  type Dossier,
  eventsOf,
  type Line,
  ms,
  see,
  type Trace,
  tracesOf,
} from './dossier.js';

const name = 'section 5';

export function checkAttempts(dossier: Dossier): Breach[] {
  return dossier.steps.flatMap((step) => {
    const traces = tracesOf(dossier, step);
    return [...ofCounts(dossier, step, traces), ...ofLastAttempt(dossier, step), ...ofCalls(dossier, step, traces)];
  });
}

interface Counts {
  failures: number;
  crashes: number;
  claims: number;
}

function ofCounts(dossier: Dossier, step: Line<StepDump>, traces: readonly Trace[]): Breach[] {
  const resets = resetsOf(dossier, step);
  const found: Breach[] = [];
  let counts: Counts = { failures: 0, crashes: 0, claims: 0 };
  for (const [index, from] of [Number.NEGATIVE_INFINITY, ...resets].entries()) {
    const until = resets[index] ?? Number.POSITIVE_INFINITY;
    counts = countsOf(
      step,
      traces.filter((trace) => trace.startedAt >= from && trace.startedAt < until),
      new Set(eventsOf(dossier, 'step.fell_back', step.seq).map(({ at }) => ms(at))),
    );
    const { failures, crashes } = counts;
    if (failures <= step.max_attempts && crashes <= crashLimit) continue;
    const text = `step ${step.seq} went on after ${failures} failures of ${step.max_attempts} and ${crashes} crashes`;
    found.push(breachOf(name, dossier, text, ...traces.map(({ where }) => where)));
  }
  // A death that its own worker recorded is no row of its own until a redrive.
  if (step.status === 'dead' && step.claim_token !== null) counts.failures += 1;
  const isHeldByLimit = eventsOf(dossier, 'run.limit_reached').length > 0;
  for (const what of ['failures', 'crashes', 'claims'] as const) {
    if (step[what] === counts[what] || (what === 'claims' && isHeldByLimit)) continue;
    const text = `step ${step.seq} counts ${step[what]} ${what}, its attempts ${counts[what]}`;
    found.push(breachOf(name, dossier, text, see('steps', step), ...traces.map(({ where }) => where)));
  }
  return found;
}

/** Times of the redrives that revived this step: it had no outcome yet. */
function resetsOf(dossier: Dossier, step: StepDump): number[] {
  const [completed] = eventsOf(dossier, 'step.completed', step.seq);
  return eventsOf(dossier, 'run.redriven')
    .filter((event) => completed === undefined || event.id < completed.id)
    .map((event) => ms(event.at));
}

/**
 * Only a suspect's crash counts; the first makes a suspect, and a recorded outcome clears it. The next model of an agent has
 * all its tries: `fellBack` are the ends of those after which it was taken.
 */
function countsOf(step: StepDump, traces: readonly Trace[], fellBack: ReadonlySet<number>): Counts {
  const counts = { failures: 0, crashes: 0, claims: 0 };
  let suspect = false;
  for (const { ended } of traces) {
    if (ended === null) continue;
    // The fate of a `once` call asked about for too long: a claim that came to nothing.
    const by = ended.by === 'failure' && step.effect === 'once' ? 'claim' : ended.by;
    if (by === 'failure') {
      counts.failures = fellBack.has(ended.at) ? 0 : counts.failures + 1;
      if (ended.recorded) suspect = false;
    } else if (by === 'claim') counts.claims += 1;
    else if (by === 'crash') {
      if (suspect) counts.crashes += 1;
      suspect = true;
    }
  }
  return counts;
}

function ofLastAttempt(dossier: Dossier, step: Line<StepDump>): Breach[] {
  const { seq, failures, crashes, max_attempts: most } = step;
  const isTired = step.status === 'completed' && (step.error_code === 'threw' || step.error_code === 'timeout');
  // The last failure of a tool is its answer, and no failure more.
  if (isTired && step.effect !== 'once' && failures + 1 < most)
    return [
      breachOf(name, dossier, `step ${seq} was given up after ${failures + 1} of ${most} attempts`, see('steps', step)),
    ];
  if (step.status !== 'dead') return [];
  const [death] = eventsOf(dossier, 'step.dead', seq).slice(-1);
  const reason = death?.data == null ? null : (JSON.parse(death.data) as { reason: string }).reason;
  if (reason === 'crash_loop' && crashes < crashLimit)
    return [breachOf(name, dossier, `step ${seq} died of ${crashes} crashes`, see('steps', step))];
  if (reason === 'attempts_exhausted' && failures < most)
    return [breachOf(name, dossier, `step ${seq} died after ${failures} of ${most} attempts`, see('steps', step))];
  return [];
}

/**
 * One call an attempt; a claim that the server forgot may have called as well, under the number that the next one got again, or
 * that none got, where its run was cancelled meanwhile.
 */
function ofCalls(dossier: Dossier, step: Line<StepDump>, traces: readonly Trace[]): Breach[] {
  const forgotten = dossier.forgotten.filter(({ seq }) => seq === step.seq);
  if (step.kind === 'llm') {
    const calls = dossier.modelCalls.filter((call) => call.seq === step.seq);
    if (calls.length <= traces.length + forgotten.length) return [];
    const text = `step ${step.seq} asked the model ${calls.length} times in ${traces.length} attempts`;
    return [breachOf(name, dossier, text, see('model', ...calls), ...traces.map(({ where }) => where))];
  }
  const hits = dossier.hits.filter((hit) => hit.seq === step.seq);
  return [...byKey(hits, (hit) => hit.attempt)].flatMap(([attempt, ofAttempt]) => {
    const claimed = traces.some((trace) => trace.attempt === attempt) ? 1 : 0;
    const most = claimed + forgotten.filter((line) => line.attempt === attempt).length;
    if (ofAttempt.length <= most) return [];
    const text = `step ${step.seq} called its tool ${ofAttempt.length} times as attempt ${attempt}`;
    return [breachOf(name, dossier, text, see('ledger', ...ofAttempt), ...traces.map(({ where }) => where))];
  });
}
