/**
 * The checker: invariants of PROTOCOL.md section 9, each judged from rows and from what the world outside saw, never from
 * what the engine says of itself. `breachesNow` holds at every instant, `breachesAtEnd` once a run is final. Both answer
 * with sentences that begin with the invariant's name; none means that all hold.
 */

import type { Rows, StepRow } from './rows.js';
import type { LedgerEntry } from './stage.js';
import { lookEveryMs } from './until.js';

const isOpen = ({ status }: StepRow) => status === 'pending' || status === 'running' || status === 'suspended';
const isFinal = (status: string) => status === 'completed' || status === 'failed' || status === 'cancelled';

/** A run able to move does so within this time (I3). */
const movesWithinMs = 20_000;
/** Pending work is dispatched again within this time of the loss of the queue (I8), for fewer than 5,000 steps. */
const dispatchedWithinMs = 10_000;

/** What must hold at every instant; `stillness` has seen these rows. */
export function breachesNow(rows: Rows, stillness: Stillness, isWiped: boolean): string[] {
  return [...ofSeqs(rows), ...ofLiveness(rows, stillness, isWiped)];
}

/**
 * How long each step has been seen in want of a move, in looks: on a busy machine they are as rare as the turns of those who
 * should move it, where seconds would pass for a stillness that is none.
 */
export class Stillness {
  private readonly looks = new Map<string, number>();

  look({ steps }: Rows): void {
    const inWant = new Map(steps.filter(isInWant).map((step) => [stateOf(step), step]));
    for (const state of this.looks.keys()) if (!inWant.has(state)) this.looks.delete(state);
    for (const state of inWant.keys()) this.looks.set(state, (this.looks.get(state) ?? 0) + 1);
  }

  /** Never more than it was by the clock. */
  ofMs(step: StepRow): number {
    return (this.looks.get(stateOf(step)) ?? 0) * lookEveryMs;
  }
}

const stateOf = ({ seq, status, claim_token }: StepRow) => `${seq} ${status} ${claim_token}`;

function isInWant({ status, due_for_ms, worker_lives }: StepRow): boolean {
  return (status === 'pending' && due_for_ms > 0) || (status === 'running' && !worker_lives);
}

/** I1: seqs 1..n without a gap, and one recorded outcome each. */
function ofSeqs({ run, steps, events, messages }: Rows): string[] {
  const found: string[] = [];
  const seqs = steps.map((step) => step.seq);
  if (seqs.some((seq, index) => seq !== index + 1)) found.push(`I1: the seqs are ${seqs.join(', ')}`);
  if (run.next_seq !== steps.length + 1) found.push(`I1: ${steps.length} steps, and the next seq is ${run.next_seq}`);
  for (const step of steps) {
    const told = events.filter((event) => event.type === 'step.completed' && event.seq === step.seq).length;
    const wanted = step.status === 'completed' ? 1 : 0;
    if (told !== wanted) found.push(`I1: step ${step.seq} is ${step.status} and has ${told} completed outcomes`);
    const [seq, pos] = step.kind === 'llm' ? [step.seq, 0] : [step.turn_seq, step.position];
    const said = messages.filter((message) => message.seq === seq && message.pos === pos).length;
    if (said !== wanted) found.push(`I1: step ${step.seq} is ${step.status} and left ${said} messages`);
  }
  const turns = new Set(steps.flatMap((step) => step.turn_seq ?? [])).size;
  const llmSteps = steps.filter((step) => step.kind === 'llm').length;
  if (llmSteps > turns + 1) found.push(`I1: ${turns} turns were joined by ${llmSteps - 1} LLM steps`);
  if (events.some((event, index) => event.id !== index + 1)) found.push('I1: the events have a gap');
  return found;
}

/** I3 and, after a loss of the queue, I8: what is not final has something that will move it, and it does move. */
function ofLiveness({ run, steps }: Rows, stillness: Stillness, isWiped: boolean): string[] {
  const open = steps.filter(isOpen);
  const suspended = steps.filter((step) => step.status === 'suspended');
  const found: string[] = [];
  if (open.length !== run.open_steps || suspended.length !== run.suspended_steps) {
    found.push(
      `I3: the run counts ${run.open_steps}/${run.suspended_steps} open and suspended steps; there are others`,
    );
  }
  if (isFinal(run.status) !== (open.length === 0)) found.push(`I3: a ${run.status} run has ${open.length} open steps`);
  for (const step of open) {
    const stillMs = stillness.ofMs(step);
    if (step.status === 'suspended' && step.waiting_for === null) found.push(`I3: step ${step.seq} waits for nothing`);
    if (step.status === 'running' && stillMs > movesWithinMs) {
      found.push(`I3: step ${step.seq} is held by a worker that is gone`);
    }
    if (step.status === 'pending' && stillMs > movesWithinMs) {
      found.push(`I3: step ${step.seq} is due and does not move`);
    }
    if (isWiped && step.status === 'pending' && stillMs > dispatchedWithinMs) {
      found.push(`I8: step ${step.seq} still waits though the queue is lost`);
    }
  }
  return found;
}

/**
 * Of a final run: its calls as the world saw them (I5, I6), claims taken away that left nothing behind (I4), and `shown`:
 * the results of its calls as the model was shown them.
 */
export function breachesAtEnd(
  rows: Rows,
  ledger: readonly LedgerEntry[],
  shown: readonly (readonly string[])[],
): string[] {
  return [
    ...ofEnd(rows),
    ...ofReceipts(rows),
    ...ofKeys(rows, ledger),
    ...ofOnce(rows, ledger),
    ...ofResults(rows, shown),
  ];
}

/** I1, I7: each request shows the recorded result of every call, in the order in which the model asked. */
function ofResults({ steps }: Rows, shown: readonly (readonly string[])[]): string[] {
  const recorded = steps.filter((step) => step.kind === 'tool').map((step) => step.output);
  const wrong = shown.find((results) => JSON.stringify(results) !== JSON.stringify(recorded));
  return wrong === undefined ? [] : [`I7: the model was shown ${JSON.stringify(wrong)}, not what is recorded`];
}

/** I2: one end after the last redrive, and nothing after it. */
function ofEnd({ run, events }: Rows): string[] {
  if (!isFinal(run.status) || run.finished_at === null) return [`I3: the run is ${run.status} and not at its end`];
  const types = events.map((event) => event.type);
  const ends = types.filter((type) => /^run\.(completed|failed|cancelled)$/.test(type));
  const redrives = types.filter((type) => type === 'run.redriven').length;
  if (ends.length !== redrives + 1) return [`I2: ${ends.length} ends and ${redrives} redrives`];
  return types.at(-1) === `run.${run.status}` ? [] : [`I2: ${types.at(-1)} came after the end of the run`];
}

/** I4: a token stands on its step or among the attempts, never in both, and each claim that was taken away is archived. */
function ofReceipts({ steps, attempts }: Rows): string[] {
  const found: string[] = [];
  const archived = new Set(attempts.map((attempt) => attempt.token));
  for (const step of steps) {
    if (step.claim_token !== null && archived.has(step.claim_token)) {
      found.push(`I4: the claim that completed step ${step.seq} had been taken away`);
    }
    if (step.effect === 'once') continue;
    const tries = attempts.filter((attempt) => attempt.seq === step.seq).length + (step.claim_token === null ? 0 : 1);
    if (step.attempt !== tries)
      found.push(`I4: step ${step.seq} counts ${step.attempt} attempts; ${tries} left a trace`);
  }
  return found;
}

/** I5: one key for all attempts of a call, another for every other call. */
function ofKeys({ steps }: Rows, ledger: readonly LedgerEntry[]): string[] {
  const found: string[] = [];
  const seqOf = new Map<string, number>();
  for (const { seq, key } of ledger) {
    const step = steps.find((candidate) => candidate.seq === seq);
    if (step?.idempotency_key !== key) found.push(`I5: the call of step ${seq} carried a key that is not the step's`);
    const owner = seqOf.get(key) ?? seq;
    if (owner !== seq) found.push(`I5: the calls of steps ${owner} and ${seq} carried one key`);
    seqOf.set(key, owner);
  }
  for (const step of steps) {
    if (step.kind !== 'tool' || step.status !== 'completed' || step.error_code !== null) continue;
    const hits = ledger.filter((entry) => entry.seq === step.seq);
    const applied = hits.filter((entry) => entry.applied).length;
    if (applied !== 1) found.push(`I5: step ${step.seq} is completed and took effect ${applied} times`);
  }
  return found;
}

/** I6: a `once` call starts once for each "did not happen"; an unknown fate was shown and settled by an answer. */
function ofOnce({ steps, attempts, events }: Rows, ledger: readonly LedgerEntry[]): string[] {
  const found: string[] = [];
  for (const step of steps) {
    if (step.effect !== 'once') continue;
    const told = (type: string) => events.filter((event) => event.type === type && event.seq === step.seq).length;
    const starts = ledger.filter((entry) => entry.seq === step.seq).length;
    if (starts > 1 + told('step.did_not_happen')) {
      found.push(
        `I6: once step ${step.seq} started ${starts} times, and ${told('step.did_not_happen')} did not happen`,
      );
    }
    const lost = attempts.some((attempt) => attempt.seq === step.seq && attempt.ended_by === 'unknown');
    if (lost && told('step.unknown') === 0)
      found.push(`I6: nothing says that the fate of step ${step.seq} was unknown`);
    if (lost && step.status === 'completed' && (told('step.suspended') === 0 || told('step.resolved') === 0)) {
      found.push(`I6: the fate of step ${step.seq} was unknown, and nobody was asked`);
    }
    if (step.unknown && step.status === 'completed') found.push(`I6: step ${step.seq} is completed and still unknown`);
  }
  return found;
}
