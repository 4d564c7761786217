/**
 * What doors show of a run and its steps: the JSON of the documented surface. Built by reads, never fed back to a rule.
 */

import type { Language } from './language.js';
import type { Limits, Price, Reason, RunError, RunStatus, Usage } from './run.js';
import type { Effect, StepKind, StepState, StepStatus, WaitKind } from './step.js';
import type { BusyThread } from './thread.js';

export interface WaitingFor {
  kind: Exclude<WaitKind, 'step'>;
  step: number;
  detail: string | null;
}

/** A run as JSON. Times are ISO 8601; usage is what the run has spent so far. */
export interface RunView {
  id: string;
  agent: string;
  agentVersion: string | null;
  status: RunStatus;
  reason: Reason | null;
  waitingFor: WaitingFor | null;
  input: unknown;
  output: unknown;
  error: RunError | null;
  steps: number;
  turns: number;
  usage: Usage;
  limits: Limits;
  tags: Record<string, string>;
  key: string | null;
  tenant: string | null;
  lane: string | null;
  threadId: string | null;
  parentId: string | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
}

export interface StepView {
  seq: number;
  kind: StepKind;
  name: string;
  status: StepStatus;
  attempt: number;
  crashes: number;
  effect: Effect | null;
  waitingFor: WaitKind | null;
  input: unknown;
  output: unknown;
  error: RunError | null;
  /** `cache`: the result of an earlier call, kept by the tool's `cacheMs`. */
  note: StepState['note'];
  usage: Usage | null;
  queuedAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  worker: string | null;
}

export interface EventView {
  /** 1..n per run, without a gap. */
  id: number;
  type: string;
  at: string;
  seq: number | null;
  data: Record<string, unknown>;
}

export interface RunFilter {
  agent?: string;
  /** Or one of several. */
  status?: RunStatus | readonly RunStatus[];
  reason?: Reason;
  tag?: Record<string, string>;
  /** Only runs created at or after this time. */
  since?: Date;
  /** The `next` of an earlier page. */
  cursor?: string;
  limit: number;
}

export interface RunPage {
  data: RunView[];
  page: { next: string | null };
}

export interface ToolListing {
  name: string;
  description: string;
  effect: Effect;
  /** Whether the effect was named by the definition, or is the default. */
  effectDeclared: boolean;
  agents: string[];
  /** Withdrawn by an operator, for these agents; `all`: for every one. */
  disabledFor: 'all' | string[];
  /** Agents whose calls of it fail: it is out of order, and tried from time to time. */
  outFor: string[];
}

/** An agent as registered in the database, so that clients need no copy of its code. */
export interface AgentListing {
  name: string;
  version: string;
  model: string;
  /** Left out by programs that knew none. */
  fallbacks?: readonly string[];
  language: Language;
  limits: Limits;
  llmTimeoutMs: number;
  llmAttempts: number;
  /** Left out by workers of before: runs wait. */
  busyThread?: BusyThread;
  /** Tokens that a first call takes, its task apart. */
  reserve: { inputTokens: number; outputTokens: number };
  /** Of the model; null: not known. */
  price: Price | null;
  tools: Omit<ToolListing, 'agents' | 'disabledFor' | 'outFor'>[];
  registeredAt: string | null;
}

/** A run to be accepted. The agent is looked up in the store's registry. */
export interface NewRun {
  id: string;
  agent: string;
  /** Text, or any JSON value; what the model gets as its task. */
  input: unknown;
  key: string | null;
  tenant: string | null;
  threadId: string | null;
  tags: Record<string, string>;
  model: string | null;
  delayMs: number;
  limits: Partial<Limits>;
}
