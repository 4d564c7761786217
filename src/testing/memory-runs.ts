/**
 * Runs kept in memory: the rows of the tables as plain objects, and the three ways they come to be and move: accepted,
 * claimed, changed by a rule on a draft. Synchronous, so that tests of the rules await nothing; memory-store.ts makes the
 * Store port of it, which passes the suite of the real one (test/contract/store.ts).
 */

import { isShown } from '../core/context.js';
import { type Changes, Draft, type DraftEvent, NeedsOpenSteps } from '../core/draft.js';
import { PawlError } from '../core/errors.js';
import type { NewFact } from '../core/fact.js';
import type { StoredMessage } from '../core/message.js';
import { costOf, noUsage, type RunState } from '../core/run.js';
import { type AttemptRecord, isOpen, type StepState } from '../core/step.js';
import { noStops, type StoppedTool } from '../core/tool-stop.js';
import type { AgentListing, NewRun } from '../core/view.js';
import type { ClaimAnswer, ClaimRequest, Dispatch, Refusal, StepScope } from '../ports.js';

export interface RunRows {
  run: RunState;
  input: unknown;
  key: string | null;
  tags: Record<string, string>;
  steps: Map<number, StepState>;
  messages: StoredMessage[];
  attempts: (AttemptRecord & { lateNote: string | null })[];
  outputs: Map<number, string>;
  events: (DraftEvent & { at: Date })[];
}

export interface KeptFact extends NewFact {
  tenant: string;
  at: Date;
  vector?: { model: string; of: Float32Array };
}

/** A step may be claimed this much before it is due, as in Postgres. */
const earlyMs = 50;

export function isOfThread(run: RunState, { threadId, tenant }: Pick<RunState, 'threadId' | 'tenant'>): boolean {
  return threadId !== null && run.threadId === threadId && run.tenant === tenant;
}

/** `busy`: another run of its thread is not at its end. */
export function acceptRun(asked: NewRun, listing: AgentListing, now: Date, busy = false): RunRows {
  const given = Object.entries(asked.limits).filter(([, value]) => value != null);
  const limits = { ...listing.limits, ...Object.fromEntries(given) };
  const llmName = asked.model ?? listing.model;
  const task = typeof asked.input === 'string' ? asked.input : JSON.stringify(asked.input);
  const message = { role: 'user', content: task } as const;
  const { inputTokens, outputTokens } = listing.reserve;
  const taskTokens = Math.floor(Buffer.byteLength(JSON.stringify(message)) / 3);
  const expected = { inputTokens: inputTokens + taskTokens, outputTokens };
  const run: RunState = {
    id: asked.id,
    agent: asked.agent,
    tenant: asked.tenant,
    threadId: asked.threadId,
    holdsThread: asked.threadId !== null && !busy && asked.delayMs === 0,
    language: listing.language,
    agentVersion: null,
    model: asked.model,
    llmName,
    status: 'pending',
    reason: null,
    endingAs: null,
    finishingAs: null,
    pauseAt: null,
    deadlineAt: limits.deadlineMs === null ? null : new Date(now.getTime() + limits.deadlineMs),
    limits,
    llmTimeoutMs: listing.llmTimeoutMs,
    llmAttempts: listing.llmAttempts,
    rev: 0,
    writes: 0,
    nextSeq: 1,
    openSteps: 0,
    suspendedSteps: 0,
    stepsUsed: 0,
    turnsUsed: 0,
    usage: noUsage,
    reserve: { ...expected, costUsd: costOf(expected, llmName === listing.model ? listing.price : null) },
    objections: 0,
    conduct: null,
    windowFrom: 0,
    digestBefore: 0,
    summarySeq: null,
    budgetTokens: null,
    lastEvent: 0,
    output: null,
    outputIsJson: false,
    error: null,
    createdAt: now,
    startedAt: null,
    finishedAt: null,
  };
  const rows: RunRows = {
    run,
    input: asked.input,
    key: asked.key,
    tags: asked.tags,
    steps: new Map(),
    messages: [{ seq: 0, pos: 0, tokens: null, message }],
    attempts: [],
    outputs: new Map(),
    events: [],
  };
  const draft = new Draft({ run, steps: [], now });
  draft.event('run.created', null);
  draft.planLlmStep().dueAt = new Date(now.getTime() + asked.delayMs);
  draft.settle();
  write(rows, draft.changes(), now);
  return rows;
}

/** Lets a rule work on a draft of the run, and keeps what it changed; what the rule throws undoes everything. */
export function changeRun<T>(
  rows: RunRows,
  scope: StepScope,
  rule: (draft: Draft) => T,
  { now, receipt, facts = [] }: { now: Date; receipt?: string | undefined; facts?: KeptFact[] },
): { value: T; dispatches: Dispatch[] } {
  const archived = rows.attempts.find((attempt) => attempt.token === receipt);
  const isInScope = (step: StepState, all: boolean) =>
    all ? isOpen(step.status) || inScope(step, scope) : inScope(step, scope);
  const settled = (all: boolean) => {
    const steps = [...rows.steps.values()].filter((step) => isInScope(step, all));
    const isOnStep = steps.some((step) => step.claim?.token === receipt);
    const draft = new Draft({ run: rows.run, steps, now, receipt: isOnStep ? null : (archived ?? null) });
    const value = rule(draft);
    draft.settle();
    return { value, changes: draft.changes() };
  };
  const { value, changes } = orWithOpenSteps(settled);
  if (!changes.isEmpty) write(rows, changes, now);
  for (const { seq: _, ...fact } of changes.facts) {
    const tenant = rows.run.tenant ?? '';
    const before = facts.findLast(
      (old) => old.tenant === tenant && old.scope === fact.scope && old.owner === fact.owner && old.key === fact.key,
    );
    if (before?.value !== fact.value) facts.push({ ...fact, tenant, at: now });
  }
  return { value, dispatches: changes.dispatches };
}

function orWithOpenSteps<T>(work: (all: boolean) => T): T {
  try {
    return work(false);
  } catch (error) {
    if (error instanceof NeedsOpenSteps) return work(true);
    throw error;
  }
}

function inScope(step: StepState, scope: StepScope): boolean {
  if (typeof scope === 'object') return scope.seqs.includes(step.seq);
  if (isOpen(step.status)) return true;
  return scope === 'revivable' && (step.status === 'dead' || step.status === 'cancelled');
}

/** Takes a step over for a worker, or says why not. */
export function claimStep(
  rows: RunRows | undefined,
  request: ClaimRequest,
  { now, workerLives, stops = noStops }: { now: Date; workerLives: boolean; stops?: readonly StoppedTool[] },
): ClaimAnswer {
  const found = rows?.steps.get(request.seq);
  if (rows === undefined || found === undefined) return { claimed: false, refusal: 'stale' };
  const refusal = refuse(rows.run, found, request, now, workerLives);
  if (refusal !== null) return { claimed: false, refusal };
  const step = {
    ...found,
    status: 'running' as const,
    claim: {
      token: request.token,
      workerId: request.workerId,
      startedAt: now,
      deadlineAt: new Date(now.getTime() + found.timeoutMs),
    },
    attempt: found.attempt + (found.unknown || found.status === 'running' ? 0 : 1),
    startedAt: found.startedAt ?? now,
  };
  rows.steps.set(step.seq, step);
  const run = { ...rows.run, status: 'running' as const };
  run.agentVersion ??= request.serves.get(run.agent) ?? null;
  if (run.startedAt === null) {
    run.startedAt = now;
    run.lastEvent += 1;
    rows.events.push({ id: run.lastEvent, type: 'run.started', seq: null, data: {}, at: now });
  }
  rows.run = run;
  const messages = step.kind === 'llm' ? inOrder(rows.messages.filter(({ seq }) => isShown(seq, run))) : [];
  return { claimed: true, run: structuredClone(run), step: structuredClone(step), messages, stops, now };
}

function refuse(
  run: RunState,
  step: StepState,
  request: ClaimRequest,
  now: Date,
  workerLives: boolean,
): Refusal | null {
  if (step.dispatch !== request.dispatch) return 'stale';
  const version = request.serves.get(run.agent);
  const isServed = version !== undefined && (run.agentVersion === null || run.agentVersion === version);
  const mayRun = run.endingAs === null && run.pauseAt === null && run.finishedAt === null && isServed && workerLives;
  switch (step.status) {
    case 'completed':
    case 'cancelled':
      return 'done';
    case 'dead':
    case 'suspended':
      return step.status;
    case 'running':
      // The same token may claim again: the first answer was lost.
      return mayRun && step.claim?.token === request.token ? null : 'claimed';
    case 'pending':
  }
  if (!workerLives) return 'worker_dead';
  if (run.endingAs !== null) return 'ending';
  if (!isServed) return 'not_served';
  if (step.dueAt.getTime() > now.getTime() + earlyMs) return 'not_due';
  if (step.suspect && !request.takesSuspect) return 'suspect_slot';
  return null;
}

export function inOrder(messages: readonly StoredMessage[]): StoredMessage[] {
  return structuredClone([...messages]).sort((a, b) => a.seq - b.seq || a.pos - b.pos);
}

/** Keeps copies, and refuses what a primary key, or Postgres' text, would. */
function write(rows: RunRows, changes: Changes, now: Date): void {
  const { run, planned, changed, messages, attempts, outputs, events } = structuredClone({
    ...changes,
    dispatches: [],
  });
  const isTwice =
    planned.some((step) => rows.steps.has(step.seq)) ||
    messages.some((message) => rows.messages.some(({ seq, pos }) => seq === message.seq && pos === message.pos)) ||
    attempts.some((attempt) => rows.attempts.some(({ token }) => token === attempt.token)) ||
    outputs.some(({ seq }) => rows.outputs.has(seq)) ||
    events.some((event) => rows.events.some(({ id }) => id === event.id));
  if (isTwice) throw new Error(`a row of run ${run.id} was to be written twice`);
  if (holdsNul(messages) || holdsNul(outputs)) {
    throw new PawlError('invalid_input', 'a text holds U+0000, which Postgres cannot store');
  }
  rows.run = { ...run, writes: rows.run.writes + 1 };
  for (const step of [...planned, ...changed]) rows.steps.set(step.seq, step);
  rows.messages.push(...messages);
  rows.attempts.push(...attempts.map((attempt) => ({ ...attempt, lateNote: null })));
  for (const { seq, body } of outputs) rows.outputs.set(seq, body);
  rows.events.push(...events.map((event) => ({ ...event, at: now })));
}

function holdsNul(rows: unknown): boolean {
  let found = false;
  JSON.stringify(rows, (_, value: unknown) => {
    if (typeof value === 'string' && value.includes('\u0000')) found = true;
    return value;
  });
  return found;
}
