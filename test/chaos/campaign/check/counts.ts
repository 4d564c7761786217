/**
 * What happened, in numbers, and which of them must not be zero for a campaign to mean anything: a check that had nothing
 * to look at has passed nothing. Only what the plan of faults set out to cause is asked for.
 */
import { type Evidence, type Fault, type FaultKind, tellingLines } from '../evidence.js';
import { type Dossier, isRunFinal, tracesOf } from './dossier.js';
import { losesQueue } from './spans.js';

export type Counts = Record<string, number>;

export function countWhatHappened(evidence: Evidence, dossiers: readonly Dossier[]): Counts {
  const done = evidence.nemesis.filter((fault) => fault.failed === null);
  const of = (...kinds: FaultKind[]) => done.filter((fault) => kinds.includes(fault.kind));
  const inFlight = (faults: Fault[]) => faults.filter((fault) => fault.inFlight.length > 0).length;
  const events = (type: string) => evidence.tables.events.filter((event) => event.type === type).length;
  const calls = (op: string) => evidence.clients.filter((call) => call.op === op && call.answer.ok).length;
  const logs = (msg: string) =>
    evidence.workers.flatMap((line) => (line.what === 'log' && line.msg === msg ? [line] : []));
  const { attempts, runs, steps } = evidence.tables;
  return {
    runs: runs.length,
    'runs not final': dossiers.filter(({ run }) => !isRunFinal(run)).length,
    steps: steps.length,
    'model calls': evidence.model.length,
    'effects asked for': evidence.ledger.length,
    faults: done.filter((fault) => fault.kind !== 'quiet').length,
    'faults that failed': evidence.nemesis.length - done.length,
    'quiet seconds': Math.round(of('quiet').reduce((sum, { beganAt, endedAt }) => sum + endedAt - beganAt, 0) / 1_000),
    kills: of('kill', 'kill_at_gap').length,
    'kills that hit a step in flight': inFlight(of('kill', 'kill_at_gap')),
    zombies: of('zombie').length,
    'zombies with a step in flight': inFlight(of('zombie')),
    'workers declared dead': logs(tellingLines.declaredDead).length,
    rescues: events('step.rescued'),
    takeovers: takeoversIn(dossiers),
    'fenced writes': attempts.filter((attempt) => attempt.late_note !== null).length,
    'queues lost': done.filter((fault) => losesQueue.has(fault.kind)).length,
    'steps dispatched again': logs(tellingLines.redispatched).reduce(
      (sum, { fields }) => sum + Number(fields.steps),
      0,
    ),
    'Postgres restarts': of('postgres_fast_restart', 'postgres_immediate_restart').length,
    'Postgres panics': of('postgres_panicked').length,
    'claims a restart took': dossiers.reduce((sum, { forgotten }) => sum + forgotten.length, 0),
    'swallowed commits': swallowed(done, 'record'),
    'swallowed claims': swallowed(done, 'claim'),
    'swallowed starts': swallowed(done, 'start'),
    'ledger dedupes': evidence.ledger.filter((hit) => hit.deduped).length,
    retries: events('step.retry'),
    'unknown fates': events('step.unknown'),
    'fates settled by an operator': calls('resolve'),
    'did not happen': events('step.did_not_happen'),
    redrives: events('run.redriven'),
    cancels: runs.filter((run) => run.status === 'cancelled').length,
    'duplicate starts': evidence.clients.filter((call) => call.op === 'start' && call.answer.ok && !call.answer.created)
      .length,
    'waits for a thread': evidence.tables.events.filter(({ type, seq, data }) => {
      return type === 'step.suspended' && seq === 1 && data?.includes('"slot"') === true;
    }).length,
    'starts that a thread refused': evidence.clients.filter(
      ({ op, answer }) => op === 'start' && !answer.ok && answer.code === 'conflict',
    ).length,
    'answers objected to': events('run.answer_refused'),
    'changes of model': events('step.fell_back'),
    facts: evidence.tables.facts.length,
    'results given again': steps.filter(({ note }) => note === 'cache').length,
    'calls of a tool withdrawn': steps.filter((step) => step.error_code === 'tool_disabled').length,
    summaries: events('run.compacted'),
    plans: events('run.planned'),
    judgements: events('run.reflected'),
    'outputs kept whole': evidence.tables.outputs.length,
    'model calls that a crash cost': attempts.filter((row) => row.usage_estimated === true && !row.recorded).length,
  };
}

/** A claim that was taken away and whose step another worker carried on. */
function takeoversIn(dossiers: readonly Dossier[]): number {
  let count = 0;
  for (const dossier of dossiers) {
    for (const step of dossier.steps) {
      const traces = tracesOf(dossier, step);
      for (const [index, { ended, workerId }] of traces.entries()) {
        const next = traces[index + 1];
        if (ended !== null && !ended.recorded && next !== undefined && next.workerId !== workerId) count += 1;
      }
    }
  }
  return count;
}

function swallowed(faults: readonly Fault[], what: string): number {
  return faults.filter((fault) => fault.kind === 'reply_swallowed' && fault.details.what === what).length;
}

/** What must have happened, each by the kinds of fault that set out to cause it; without kinds: always. */
const wanted: { count: string; where: readonly FaultKind[] | null }[] = [
  { count: 'runs', where: null },
  { count: 'kills that hit a step in flight', where: null },
  { count: 'rescues', where: null },
  { count: 'takeovers', where: null },
  { count: 'ledger dedupes', where: null },
  { count: 'fenced writes', where: ['zombie'] },
  { count: 'zombies with a step in flight', where: ['zombie'] },
  { count: 'swallowed commits', where: ['reply_swallowed'] },
  { count: 'steps dispatched again', where: [...losesQueue] },
  { count: 'quiet seconds', where: ['quiet'] },
];

export function missingFrom(counts: Counts, { nemesis }: Pick<Evidence, 'nemesis'>): string[] {
  const tried = new Set(nemesis.map((fault) => fault.kind));
  return wanted
    .filter(({ count, where }) => counts[count] === 0 && (where === null || where.some((kind) => tried.has(kind))))
    .map(({ count }) => count);
}
