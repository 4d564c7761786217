/**
 * The evidence sorted by run: all that anybody wrote of one run, each with the line of the file it stands in, so that a
 * breach can name it. The other files of this folder judge a dossier, or the evidence as a whole; none of them looks at
 * what the engine says of itself where the world outside says it too.
 */
import type { RunStatus } from '../../../../src/core/run.js';
import { isFinal } from '../../../../src/core/run.js';
import { type AttemptEnd, summaryName } from '../../../../src/core/step.js';
import type {
  AttemptDump,
  ClientCall,
  EventDump,
  Evidence,
  Expected,
  Fault,
  FaultKind,
  Hit,
  MessageDump,
  ModelCall,
  Report,
  RunDump,
  StepDump,
  WorkerLine,
} from '../evidence.js';

/** A thing and the number of its line, from 1. */
export type Line<T> = T & { line: number };
export type Breach = Report['breaches'][number];
export type DeliveryLine = Extract<WorkerLine, { what: 'gap' | 'refused' }>;
export type GapLine = Extract<WorkerLine, { what: 'gap' }>;

export interface Dossier {
  run: Line<RunDump>;
  /** With the steps as this run numbers them; null for a run whose key no plan has. */
  expected: Expected | null;
  /** By seq. */
  steps: Line<StepDump>[];
  attempts: Line<AttemptDump>[];
  messages: Line<MessageDump>[];
  /** By id. */
  events: Line<EventDump>[];
  hits: Line<Hit>[];
  /** By the plan's number: the model does not know a run's id. */
  modelCalls: Line<ModelCall>[];
  clients: Line<ClientCall>[];
  deliveries: Line<DeliveryLine>[];
  /** Claims that Postgres gave and forgot: see `forgottenIn`. */
  forgotten: Line<GapLine>[];
}

export function dossiersOf(evidence: Evidence): Dossier[] {
  const { tables } = evidence;
  const steps = byKey(numbered(tables.steps), (row) => row.run_id);
  const attempts = byKey(numbered(tables.attempts), (row) => row.run_id);
  const messages = byKey(numbered(tables.messages), (row) => row.run_id);
  const events = byKey(numbered(tables.events), (row) => row.run_id);
  const hits = byKey(numbered(evidence.ledger), (hit) => hit.runId);
  const calls = byKey(numbered(evidence.model), (call) => call.plan);
  const clients = byKey(numbered(evidence.clients), (call) => call.runId);
  const deliveries = byKey(numbered(evidence.workers).filter(isDelivery), (line) => line.runId);
  const crashes = evidence.nemesis.filter(({ kind }) => crashesServer.has(kind));
  const plans = new Map(evidence.expected.map((expected) => [expected.key, expected]));
  return numbered(tables.runs).map((run) => {
    const mine = (steps.get(run.id) ?? []).sort((a, b) => a.seq - b.seq);
    const planned = plans.get(run.key ?? '') ?? null;
    const expected = planned === null ? null : besideSummaries(planned, mine);
    const dossier = {
      run,
      expected,
      steps: mine,
      attempts: attempts.get(run.id) ?? [],
      messages: messages.get(run.id) ?? [],
      events: (events.get(run.id) ?? []).sort((a, b) => a.id - b.id),
      hits: hits.get(run.id) ?? [],
      modelCalls: expected === null ? [] : (calls.get(expected.plan) ?? []),
      clients: clients.get(run.id) ?? [],
      deliveries: deliveries.get(run.id) ?? [],
    };
    return { ...dossier, forgotten: forgottenIn(dossier, crashes) };
  });
}

export const isSummary = ({ kind, name }: Pick<StepDump, 'kind' | 'name'>) => kind === 'llm' && name === summaryName;

/** A plan with its steps moved up by the summaries before them, whose places nobody plans. */
function besideSummaries(planned: Expected, steps: readonly StepDump[]): Expected {
  const summaries = steps.filter(isSummary);
  if (summaries.length === 0) return planned;
  const moved = (seq: number) => summaries.reduce((at, summary) => (summary.seq <= at ? at + 1 : at), seq);
  return {
    ...planned,
    calls: planned.calls.map((call) => ({ ...call, seq: moved(call.seq) })),
    llmSeqs: planned.llmSeqs.map(moved),
  };
}

/** Where Postgres had no time to write what it held: it was ended at once, or ended itself. */
const crashesServer: ReadonlySet<FaultKind> = new Set(['postgres_immediate_restart', 'postgres_panicked']);

/** How long what was committed without waiting for the disk may not be on it: three turns of the server's writer, and as much again. */
const unwrittenMs = 1_200;

/**
 * A claim whose loss is harmless does not wait for the disk: a crash of the server takes it away, and where its worker is gone
 * as well nothing tells of it. The step is claimed again as if for the first time. The claim of a `once` call waits.
 */
function forgottenIn(
  { steps, attempts, deliveries }: Pick<Dossier, 'steps' | 'attempts' | 'deliveries'>,
  crashes: readonly Fault[],
): Line<GapLine>[] {
  return deliveries.flatMap((line) => {
    if (line.what !== 'gap' || line.gap !== 'after_claim' || line.token === null) return [];
    const step = steps.find(({ seq }) => seq === line.seq);
    if (step === undefined || step.effect === 'once') return [];
    if (tracesOf({ attempts }, step).some(({ token }) => token === line.token)) return [];
    return crashes.some(({ beganAt, endedAt }) => line.at >= beganAt - unwrittenMs && line.at <= endedAt) ? [line] : [];
  });
}

export function numbered<T extends object>(items: readonly T[]): Line<T>[] {
  return items.map((item, index) => ({ ...item, line: index + 1 }));
}

export function byKey<K, T>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

function isDelivery(line: Line<WorkerLine>): line is Line<DeliveryLine> {
  return line.what === 'gap' || line.what === 'refused';
}

/** One claim of a step and what became of it. */
export interface Trace {
  token: string;
  attempt: number;
  workerId: string;
  startedAt: number;
  /** Null: the claim still stands on the step, as the receipt of its outcome or because it is held. */
  ended: { by: AttemptEnd; at: number; recorded: boolean; lateNote: string | null } | null;
  usage: { inputTokens: number | null; outputTokens: number | null; estimated: boolean };
  /** Where it stands. */
  where: string;
}

/** Every claim of a step of which the tables tell, in their order. */
export function tracesOf({ attempts }: Pick<Dossier, 'attempts'>, step: Line<StepDump>): Trace[] {
  const traces = attempts.flatMap((attempt): Trace[] =>
    attempt.seq !== step.seq
      ? []
      : [
          {
            token: attempt.token,
            attempt: attempt.attempt,
            workerId: attempt.worker_id,
            startedAt: ms(attempt.started_at),
            ended: {
              by: attempt.ended_by as AttemptEnd,
              at: ms(attempt.ended_at),
              recorded: attempt.recorded,
              lateNote: attempt.late_note,
            },
            usage: usageOf(attempt),
            where: see('attempts', attempt),
          },
        ],
  );
  if (step.claim_token !== null) {
    traces.push({
      token: step.claim_token,
      attempt: step.attempt,
      workerId: step.worker_id ?? '',
      startedAt: ms(step.claimed_at ?? step.started_at ?? step.queued_at),
      ended: null,
      usage: usageOf(step),
      where: see('steps', step),
    });
  }
  return traces.sort((a, b) => a.startedAt - b.startedAt || a.attempt - b.attempt);
}

function usageOf(row: StepDump | AttemptDump): Trace['usage'] {
  return { inputTokens: row.input_tokens, outputTokens: row.output_tokens, estimated: row.usage_estimated ?? false };
}

export function isRunFinal({ status }: RunDump): boolean {
  return isFinal(status as RunStatus);
}

export function eventsOf({ events }: Dossier, type: string, seq?: number): Line<EventDump>[] {
  return events.filter((event) => event.type === type && (seq === undefined || event.seq === seq));
}

export function dataOf(event: EventDump): Record<string, unknown> {
  return event.data === null ? {} : (JSON.parse(event.data) as Record<string, unknown>);
}

/** A time of the tables, in the milliseconds of the other files. Not a number where a broken row has none. */
export function ms(time: Date | string | null): number {
  if (time === null) return Number.NaN;
  return typeof time === 'string' ? Date.parse(time) : time.getTime();
}

/** Names lines of a file: `ledger 3, 8`. */
export function see(file: string, ...lines: { line: number }[]): string {
  return `${file} ${lines.map(({ line }) => line).join(', ')}`;
}

/** A breach of one run. `evidence`: the lines it was read from, as `see` names them. */
export function breachOf(
  invariant: string,
  { run }: Pick<Dossier, 'run'>,
  text: string,
  ...evidence: string[]
): Breach {
  return { invariant, runId: run.id, text: `${invariant}: ${run.id} ${text}${sources(evidence)}` };
}

/** A breach that belongs to no one run. */
export function breachOfAll(invariant: string, text: string, ...evidence: string[]): Breach {
  return { invariant, runId: null, text: `${invariant}: ${text}${sources(evidence)}` };
}

function sources(evidence: string[]): string {
  return evidence.length === 0 ? '' : ` [${evidence.join('; ')}]`;
}
