/**
 * Rows and states: how the run and step rows of the tables read as the states of core, and back. Timestamps come as Dates
 * from the driver and as ISO text from JSON; both are read here.
 */

import type { Conduct } from '../core/conduct.js';
import type { Language } from '../core/language.js';
import type { Message, StoredMessage } from '../core/message.js';
import type { OnLimit, Reason, RunState, RunStatus, Usage } from '../core/run.js';
import type { AttemptEnd, AttemptRecord, Effect, StepKind, StepState, StepStatus, WaitKind } from '../core/step.js';

type Time = Date | string;

export interface RunRow {
  id: string;
  agent: string;
  language: string;
  tenant: string;
  thread_id: string | null;
  holds_thread: boolean;
  agent_version: string | null;
  model: string | null;
  llm_name: string;
  llm_timeout_ms: number;
  llm_attempts: number;
  status: string;
  reason: string | null;
  ending_status: string | null;
  ending_reason: string | null;
  ending_error_code: string | null;
  ending_error_message: string | null;
  ending_at: Time | null;
  finishing_as: string | null;
  pause_at: Time | null;
  deadline_at: Time | null;
  max_steps: number;
  max_turns: number;
  max_tokens: string | number | null;
  max_cost_usd: number | null;
  deadline_ms: string | number | null;
  on_limit: string;
  rev: number;
  writes: number;
  next_seq: number;
  open_steps: number;
  suspended_steps: number;
  steps_used: number;
  turns_used: number;
  input_tokens: string | number;
  cached_input_tokens: string | number;
  output_tokens: string | number;
  cost_usd: number | null;
  usage_estimated: boolean;
  reserve_input: number;
  reserve_output: number;
  reserve_usd: number | null;
  objections: number;
  conduct: string | null;
  window_from: number;
  digest_before: number;
  summary_seq: number | null;
  budget_tokens: number | null;
  last_event: number;
  output: string | null;
  output_is_json: boolean;
  error_code: string | null;
  error_message: string | null;
  created_at: Time;
  started_at: Time | null;
  finished_at: Time | null;
}

export interface StepRow {
  run_id: string;
  seq: number;
  kind: string;
  name: string;
  queue: string;
  status: string;
  due_at: Time;
  dispatch: number;
  claim_token: string | null;
  worker_id: string | null;
  claimed_at: Time | null;
  claim_deadline: Time | null;
  attempt: number;
  failures: number;
  crashes: number;
  claims: number;
  suspect: boolean;
  unknown: boolean;
  deferrals: number;
  max_attempts: number;
  timeout_ms: number;
  waiting_for: string | null;
  wait_detail: string | null;
  turn_seq: number | null;
  position: number | null;
  call_id: string | null;
  effect: string | null;
  sequential: boolean;
  call_hash: string | null;
  idempotency_key: string | null;
  input: string | null;
  output: string | null;
  error_code: string | null;
  error_message: string | null;
  note: string | null;
  input_tokens: number | null;
  cached_input_tokens: number | null;
  output_tokens: number | null;
  cost_usd: number | null;
  usage_estimated: boolean | null;
  shown_attempts: number | null;
  completed_event: number | null;
  queued_at: Time;
  started_at: Time | null;
  finished_at: Time | null;
}

export interface AttemptRow {
  token: string;
  run_id: string;
  seq: number;
  attempt: number;
  worker_id: string;
  started_at: Time;
  ended_at: Time;
  ended_by: string;
  recorded: boolean;
  error_code: string | null;
  error_message: string | null;
  input_tokens: number | null;
  cached_input_tokens: number | null;
  output_tokens: number | null;
  cost_usd: number | null;
  usage_estimated: boolean | null;
  retry_in_ms: number | null;
}

export interface MessageRow {
  seq: number;
  pos: number;
  tokens: number | null;
  body: string;
}

function time(value: Time): Date {
  return typeof value === 'string' ? new Date(value) : value;
}

function timeOrNull(value: Time | null): Date | null {
  return value === null ? null : time(value);
}

function errorOf(code: string | null, message: string | null): { code: string; message: string } | null {
  return code === null ? null : { code, message: message ?? '' };
}

export function readRun(row: RunRow): RunState {
  return {
    id: row.id,
    agent: row.agent,
    language: row.language as Language,
    tenant: row.tenant === '' ? null : row.tenant,
    threadId: row.thread_id,
    holdsThread: row.holds_thread,
    agentVersion: row.agent_version,
    model: row.model,
    llmName: row.llm_name,
    llmTimeoutMs: row.llm_timeout_ms,
    llmAttempts: row.llm_attempts,
    status: row.status as RunStatus,
    reason: row.reason as Reason | null,
    endingAs:
      row.ending_at === null
        ? null
        : {
            status: row.ending_status as 'failed' | 'cancelled',
            reason: row.ending_reason as Reason,
            error: errorOf(row.ending_error_code, row.ending_error_message),
            at: time(row.ending_at),
          },
    finishingAs: row.finishing_as as Reason | null,
    pauseAt: timeOrNull(row.pause_at),
    deadlineAt: timeOrNull(row.deadline_at),
    limits: {
      maxSteps: row.max_steps,
      maxTurns: row.max_turns,
      maxTokens: row.max_tokens === null ? null : Number(row.max_tokens),
      maxCostUsd: row.max_cost_usd,
      deadlineMs: row.deadline_ms === null ? null : Number(row.deadline_ms),
      onLimit: row.on_limit as OnLimit,
    },
    rev: row.rev,
    writes: row.writes,
    nextSeq: row.next_seq,
    openSteps: row.open_steps,
    suspendedSteps: row.suspended_steps,
    stepsUsed: row.steps_used,
    turnsUsed: row.turns_used,
    usage: {
      inputTokens: Number(row.input_tokens),
      cachedInputTokens: Number(row.cached_input_tokens),
      outputTokens: Number(row.output_tokens),
      costUsd: row.cost_usd,
      estimated: row.usage_estimated,
    },
    reserve: { inputTokens: row.reserve_input, outputTokens: row.reserve_output, costUsd: row.reserve_usd },
    objections: row.objections,
    conduct: row.conduct === null ? null : (JSON.parse(row.conduct) as Conduct),
    windowFrom: row.window_from,
    digestBefore: row.digest_before,
    summarySeq: row.summary_seq,
    budgetTokens: row.budget_tokens,
    lastEvent: row.last_event,
    output: row.output,
    outputIsJson: row.output_is_json,
    error: errorOf(row.error_code, row.error_message),
    createdAt: time(row.created_at),
    startedAt: timeOrNull(row.started_at),
    finishedAt: timeOrNull(row.finished_at),
  };
}

const conductTexts = new WeakMap<Conduct, string>();

/** A rule makes a new conduct where it changes it; every other record writes the one it found. */
function conductText(conduct: Conduct): string {
  const known = conductTexts.get(conduct);
  if (known !== undefined) return known;
  const text = JSON.stringify(conduct);
  conductTexts.set(conduct, text);
  return text;
}

/** The columns of a run row that rules may change, as one record ready for JSON. */
export function writeRun(run: RunState) {
  return {
    id: run.id,
    agent_version: run.agentVersion,
    llm_name: run.llmName,
    status: run.status,
    reason: run.reason,
    ending_status: run.endingAs?.status ?? null,
    ending_reason: run.endingAs?.reason ?? null,
    ending_error_code: run.endingAs?.error?.code ?? null,
    ending_error_message: run.endingAs?.error?.message ?? null,
    ending_at: run.endingAs?.at ?? null,
    finishing_as: run.finishingAs,
    pause_at: run.pauseAt,
    deadline_at: run.deadlineAt,
    max_steps: run.limits.maxSteps,
    max_turns: run.limits.maxTurns,
    max_tokens: run.limits.maxTokens,
    max_cost_usd: run.limits.maxCostUsd,
    deadline_ms: run.limits.deadlineMs,
    rev: run.rev,
    writes: run.writes + 1,
    next_seq: run.nextSeq,
    open_steps: run.openSteps,
    suspended_steps: run.suspendedSteps,
    steps_used: run.stepsUsed,
    turns_used: run.turnsUsed,
    input_tokens: run.usage.inputTokens,
    cached_input_tokens: run.usage.cachedInputTokens,
    output_tokens: run.usage.outputTokens,
    cost_usd: run.usage.costUsd,
    usage_estimated: run.usage.estimated,
    reserve_input: run.reserve.inputTokens,
    reserve_output: run.reserve.outputTokens,
    reserve_usd: run.reserve.costUsd,
    objections: run.objections,
    conduct: run.conduct === null ? null : conductText(run.conduct),
    holds_thread: run.holdsThread,
    window_from: run.windowFrom,
    digest_before: run.digestBefore,
    summary_seq: run.summarySeq,
    budget_tokens: run.budgetTokens,
    last_event: run.lastEvent,
    output: run.output,
    output_is_json: run.outputIsJson,
    error_code: run.error?.code ?? null,
    error_message: run.error?.message ?? null,
    finished_at: run.finishedAt,
  };
}

function usageOf(row: StepRow | AttemptRow): Usage | null {
  if (row.input_tokens === null || row.output_tokens === null) return null;
  return {
    inputTokens: row.input_tokens,
    cachedInputTokens: row.cached_input_tokens ?? 0,
    outputTokens: row.output_tokens,
    costUsd: row.cost_usd,
    estimated: row.usage_estimated ?? false,
  };
}

export function readStep(row: StepRow): StepState {
  const { claim_token: token, worker_id: workerId, claimed_at: claimedAt, claim_deadline: deadline } = row;
  const whole = token !== null && workerId !== null && claimedAt !== null && deadline !== null;
  return {
    seq: row.seq,
    kind: row.kind as StepKind,
    name: row.name,
    queue: row.queue,
    status: row.status as StepStatus,
    dueAt: time(row.due_at),
    dispatch: row.dispatch,
    claim: whole ? { token, workerId, startedAt: time(claimedAt), deadlineAt: time(deadline) } : null,
    attempt: row.attempt,
    failures: row.failures,
    crashes: row.crashes,
    claims: row.claims,
    suspect: row.suspect,
    unknown: row.unknown,
    deferrals: row.deferrals,
    maxAttempts: row.max_attempts,
    timeoutMs: row.timeout_ms,
    waitingFor: row.waiting_for as WaitKind | null,
    waitDetail: row.wait_detail,
    turnSeq: row.turn_seq,
    position: row.position,
    callId: row.call_id,
    effect: row.effect as Effect | null,
    sequential: row.sequential,
    callHash: row.call_hash,
    idempotencyKey: row.idempotency_key,
    input: row.input,
    output: row.output,
    error: errorOf(row.error_code, row.error_message),
    note: row.note as StepState['note'],
    usage: usageOf(row),
    shownAttempts: row.shown_attempts,
    completedEvent: row.completed_event,
    queuedAt: time(row.queued_at),
    startedAt: timeOrNull(row.started_at),
    finishedAt: timeOrNull(row.finished_at),
  };
}

function writeUsage(usage: Usage | null) {
  return {
    input_tokens: usage?.inputTokens ?? null,
    cached_input_tokens: usage?.cachedInputTokens ?? null,
    output_tokens: usage?.outputTokens ?? null,
    cost_usd: usage?.costUsd ?? null,
    usage_estimated: usage?.estimated ?? null,
  };
}

export function writeStep(runId: string, step: StepState): StepRow {
  return {
    run_id: runId,
    seq: step.seq,
    kind: step.kind,
    name: step.name,
    queue: step.queue,
    status: step.status,
    due_at: step.dueAt,
    dispatch: step.dispatch,
    claim_token: step.claim?.token ?? null,
    worker_id: step.claim?.workerId ?? null,
    claimed_at: step.claim?.startedAt ?? null,
    claim_deadline: step.claim?.deadlineAt ?? null,
    attempt: step.attempt,
    failures: step.failures,
    crashes: step.crashes,
    claims: step.claims,
    suspect: step.suspect,
    unknown: step.unknown,
    deferrals: step.deferrals,
    max_attempts: step.maxAttempts,
    timeout_ms: step.timeoutMs,
    waiting_for: step.waitingFor,
    wait_detail: step.waitDetail,
    turn_seq: step.turnSeq,
    position: step.position,
    call_id: step.callId,
    effect: step.effect,
    sequential: step.sequential,
    call_hash: step.callHash,
    idempotency_key: step.idempotencyKey,
    input: step.input,
    output: step.output,
    error_code: step.error?.code ?? null,
    error_message: step.error?.message ?? null,
    note: step.note,
    ...writeUsage(step.usage),
    shown_attempts: step.shownAttempts,
    completed_event: step.completedEvent,
    queued_at: step.queuedAt,
    started_at: step.startedAt,
    finished_at: step.finishedAt,
  };
}

export function readAttempt(row: AttemptRow): AttemptRecord {
  return {
    token: row.token,
    seq: row.seq,
    attempt: row.attempt,
    workerId: row.worker_id,
    startedAt: time(row.started_at),
    endedAt: time(row.ended_at),
    endedBy: row.ended_by as AttemptEnd,
    recorded: row.recorded,
    error: errorOf(row.error_code, row.error_message),
    usage: usageOf(row),
    retryInMs: row.retry_in_ms,
  };
}

export function writeAttempt(runId: string, attempt: AttemptRecord): AttemptRow {
  return {
    token: attempt.token,
    run_id: runId,
    seq: attempt.seq,
    attempt: attempt.attempt,
    worker_id: attempt.workerId,
    started_at: attempt.startedAt,
    ended_at: attempt.endedAt,
    ended_by: attempt.endedBy,
    recorded: attempt.recorded,
    error_code: attempt.error?.code ?? null,
    error_message: attempt.error?.message ?? null,
    ...writeUsage(attempt.usage),
    retry_in_ms: attempt.retryInMs,
  };
}

export function readMessage(row: MessageRow): StoredMessage {
  return { seq: row.seq, pos: row.pos, tokens: row.tokens, message: JSON.parse(row.body) as Message };
}
