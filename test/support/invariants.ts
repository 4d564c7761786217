/**
 * The invariants of one run's rows, as the protocol states them: I1, I7 and what the CHECK constraints say, plus what only a
 * look at all rows of a run can tell. Answers the broken ones as sentences; an empty list is a sound run. Used by the
 * property tests of the rules and, on rows read from Postgres, by the tests that kill processes.
 */
import type { StoredMessage } from '../../src/core/message.js';
import { isFinal, type RunState } from '../../src/core/run.js';
import { type AttemptRecord, isOpen, type StepState } from '../../src/core/step.js';

export interface RunRowsToCheck {
  run: RunState;
  steps: readonly StepState[];
  messages: readonly StoredMessage[];
  /** Only where the attempts were read too. */
  attempts?: readonly (AttemptRecord & { lateNote?: string | null })[];
  /** Ids of the run's events, only where they were read too. */
  eventIds?: readonly number[];
}

export function brokenInvariants(rows: RunRowsToCheck): string[] {
  const broken: string[] = [];
  const holds = (condition: boolean, otherwise: string) => {
    if (!condition) broken.push(otherwise);
  };
  checkRun(rows, holds);
  for (const step of rows.steps) checkStep(step, holds);
  checkTurns(rows, holds);
  checkHistory(rows, holds);
  checkTokens(rows, holds);
  return broken;
}

type Holds = (condition: boolean, otherwise: string) => void;

function checkRun({ run, steps, eventIds }: RunRowsToCheck, holds: Holds): void {
  const seqs = steps.map((step) => step.seq).sort((a, b) => a - b);
  holds(
    seqs.every((seq, index) => seq === index + 1) && run.nextSeq === seqs.length + 1,
    `I1: seqs are 1..n, not ${seqs} before ${run.nextSeq}`,
  );
  const open = steps.filter((step) => isOpen(step.status));
  const suspended = steps.filter((step) => step.status === 'suspended');
  holds(run.openSteps === open.length, `openSteps ${run.openSteps}, but ${open.length} are open`);
  holds(run.suspendedSteps === suspended.length, `suspendedSteps ${run.suspendedSteps}, but ${suspended.length} are`);
  if (run.status === 'suspended') {
    holds(run.openSteps === run.suspendedSteps && run.openSteps > 0, 'a suspended run has only suspended steps open');
  } else if (isFinal(run.status)) holds(run.openSteps === 0, `a ${run.status} run has no open step`);
  else holds(run.openSteps > run.suspendedSteps, `a ${run.status} run has a step that may move`);
  holds(isFinal(run.status) === (run.finishedAt !== null), 'finishedAt is set when the run is final, and only then');
  holds(!isFinal(run.status) || (run.endingAs === null && run.pauseAt === null), 'a final run neither ends nor pauses');
  const needsReason = run.status === 'failed' || run.status === 'cancelled';
  holds(
    !run.holdsThread || (run.threadId !== null && !isFinal(run.status)),
    'only a run of a thread has it, and none that is final',
  );
  holds(!needsReason || run.reason !== null, `a ${run.status} run has a reason`);
  holds(run.status !== 'pending' || run.startedAt === null, 'a pending run has not started');
  holds(run.status !== 'running' || run.startedAt !== null, 'a running run has started');
  if (run.endingAs !== null) {
    holds(
      open.every((step) => step.status === 'running'),
      'in an ending run only claimed steps are open',
    );
  }
  if (run.pauseAt !== null) holds(!steps.some((step) => step.status === 'pending'), 'a paused run has no pending step');
  holds(run.stepsUsed <= steps.length && run.turnsUsed <= run.stepsUsed, 'stepsUsed and turnsUsed count rows');
  if (eventIds !== undefined) {
    holds(
      eventIds.length === run.lastEvent && eventIds.every((id, index) => id === index + 1),
      `event ids are 1..${run.lastEvent} without a gap, not ${eventIds}`,
    );
  }
}

function checkStep(step: StepState, holds: Holds): void {
  const { seq, status } = step;
  const name = `step ${seq} (${status})`;
  holds(
    (status === 'suspended') === (step.waitingFor !== null),
    `${name} names its wait when suspended, and only then`,
  );
  if (status === 'running') holds(step.claim !== null && step.attempt > 0, `${name} has a claim and an attempt`);
  if (status === 'pending' || status === 'suspended') holds(step.claim === null, `${name} has no claim`);
  if (status === 'pending' || status === 'running') holds(step.dispatch > 0, `${name} was dispatched`);
  holds(isOpen(status) === (step.finishedAt === null), `${name}: finishedAt is set at the end, and only then`);
  const toolParts = [step.turnSeq, step.position, step.callId, step.effect, step.input, step.idempotencyKey];
  holds(
    toolParts.every((part) => (part !== null) === (step.kind === 'tool')),
    `${name} has the columns of its kind`,
  );
  holds(status !== 'dead' || step.error !== null, `${name} says why it died`);
  holds(step.effect !== 'once' || step.maxAttempts === 1, `${name}: a once call has one attempt`);
  holds(!step.unknown || step.effect === 'once', `${name}: only a once call's fate is unknown`);
  holds(!(step.unknown && (status === 'completed' || status === 'cancelled')), `${name}: an unknown fate is settled`);
  holds(step.failures <= step.maxAttempts, `${name}: ${step.failures} failures of ${step.maxAttempts} attempts`);
}

/** An LLM step is open alone; the calls of a sequential tool run one after another, in the model's order. */
function checkTurns({ steps }: RunRowsToCheck, holds: Holds): void {
  const open = steps.filter((step) => isOpen(step.status));
  holds(
    open.length <= 1 || open.every((step) => step.kind === 'tool'),
    'an LLM step is open only when nothing else is',
  );
  holds(new Set(open.map((step) => step.turnSeq)).size <= 1, 'open tool steps belong to one turn');
  for (const step of steps) {
    if (!step.sequential || !(step.status === 'pending' || step.status === 'running')) continue;
    const before = steps.filter(
      (other) => other.turnSeq === step.turnSeq && other.name === step.name && other.seq < step.seq,
    );
    holds(
      before.every((other) => !isOpen(other.status)),
      `step ${step.seq} of a sequential tool runs after the ones before it`,
    );
  }
}

/** I7: whenever the model may be asked, or has answered for good, each call has exactly one result, after the call. */
function checkHistory({ run, steps, messages: all }: RunRowsToCheck, holds: Holds): void {
  // What a run took over from its thread stands under seqs below 0.
  const messages = all.filter(({ seq }) => seq >= 0);
  const places = messages.map(({ seq, pos }) => `${seq}.${pos}`);
  holds(new Set(places).size === places.length, 'I1: each message has a place of its own');
  const asksModel = steps.some((step) => step.kind === 'llm' && isOpen(step.status));
  const isWhole = asksModel || run.status === 'completed';
  for (const { seq, message } of messages) {
    if (message.role !== 'assistant') continue;
    for (const [index, call] of message.toolCalls.entries()) {
      const results = messages.filter((other) => other.seq === seq && other.pos === index + 1);
      const isAnswered =
        results.length === 1 && results[0]?.message.role === 'tool' && results[0].message.callId === call.id;
      holds(results.length === 0 || isAnswered, `I7: the result of call ${call.id} stands in its place`);
      if (isWhole) holds(isAnswered, `I7: call ${call.id} of step ${seq} has one result`);
      holds(
        steps.some((step) => step.callId === call.id && step.turnSeq === seq && step.position === index + 1),
        `call ${call.id} has its step`,
      );
    }
  }
  for (const step of steps) {
    if (step.kind !== 'tool') continue;
    const results = messages.filter(({ message }) => message.role === 'tool' && message.callId === step.callId);
    holds(
      results.length === (step.status === 'completed' ? 1 : 0),
      `I1: tool step ${step.seq} (${step.status}) has ${results.length} results`,
    );
  }
  const callIds = steps.flatMap((step) => step.callId ?? []);
  holds(new Set(callIds).size === callIds.length, 'call ids differ');
  const keys = steps.flatMap((step) => step.idempotencyKey ?? []);
  holds(new Set(keys).size === keys.length, 'I5: idempotency keys of different calls differ');
}

function checkTokens({ run, steps, attempts }: RunRowsToCheck, holds: Holds): void {
  if (attempts === undefined) return;
  const tokens = [...steps.flatMap((step) => step.claim?.token ?? []), ...attempts.map((attempt) => attempt.token)];
  holds(new Set(tokens).size === tokens.length, 'a token is found on one step or on one attempt');
  // What came back after its claim was lost is noted on the attempt; the run counts what was reserved for it.
  const counted = attempts.filter((attempt) => (attempt.lateNote ?? null) === null);
  const isWhole = counted.length === attempts.length;
  const spent = [...steps, ...counted].reduce((sum, { usage }) => sum + (usage?.inputTokens ?? 0), 0);
  holds(
    isWhole ? run.usage.inputTokens === spent : run.usage.inputTokens >= spent,
    `I10: the run counts ${run.usage.inputTokens} input tokens, its rows ${spent}`,
  );
}
