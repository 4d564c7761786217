/**
 * A run: one execution of an agent, from input to output. Here stand its states, the reasons it can end for and what it
 * may spend. Who moves a run from one state to another: draft.ts (settling), record.ts, commands.ts, recover.ts.
 */
import type { Conduct } from './conduct.js';
import type { Language } from './language.js';

/**
 * - `pending`: accepted, no step claimed yet.
 * - `running`: at least one step is claimed or may be claimed.
 * - `suspended`: every open step waits for something it names.
 * - `completed`, `failed`, `cancelled`: final; only a redrive leaves `failed`.
 */
export const runStatuses = ['pending', 'running', 'suspended', 'completed', 'failed', 'cancelled'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** Why a run is in its status, where the status alone does not say. Closed: a new one comes with its documentation. */
export const reasons = [
  'max_steps',
  'max_turns',
  'max_tokens',
  'max_cost',
  'deadline',
  'loop_detected',
  'breaker_open',
  'attempts_exhausted',
  'crash_loop',
  'claim_loop',
  'unstorable',
  'unknown_outcome',
  'quota_exhausted',
  'invalid_request',
  'invalid_response',
  'refused',
  'content_filter',
  'context_overflow',
  'invalid_output',
  'stopped_early',
  'cancelled',
] as const;
export type Reason = (typeof reasons)[number];

/** What a run does at a limit: make the next LLM call its last, fail, or wait for the limit to be raised. */
export const onLimits = ['finish', 'fail', 'suspend'] as const;
export type OnLimit = (typeof onLimits)[number];

export interface Limits {
  /** LLM and tool steps; waits and further attempts do not count. */
  maxSteps: number;
  /** LLM steps that may call tools. */
  maxTurns: number;
  /** Tokens of prompts and answers, failed calls included; null: no limit. */
  maxTokens: number | null;
  /** USD; null: no limit. Not kept while the price of the model is not known. */
  maxCostUsd: number | null;
  /** Wall time from acceptance, waits and pauses included; null: no deadline. */
  deadlineMs: number | null;
  onLimit: OnLimit;
}

export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  /** Null when no price is known for the model. */
  costUsd: number | null;
  /** True when any part is an estimate: the provider reported no usage, or a call was lost in a crash. */
  estimated: boolean;
}

export const noUsage: Usage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  costUsd: null,
  estimated: false,
};

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    costUsd: a.costUsd === null && b.costUsd === null ? null : (a.costUsd ?? 0) + (b.costUsd ?? 0),
    estimated: a.estimated || b.estimated,
  };
}

/** Null: nothing was spent. */
export function sumOf(a: Usage | null, b: Usage | null): Usage | null {
  return a === null || b === null ? (a ?? b) : addUsage(a, b);
}

/** USD per million tokens. */
export interface Price {
  input: number;
  cachedInput: number;
  output: number;
}

/** What tokens cost, none of them cached; null where no price is known. */
export function costOf(tokens: { inputTokens: number; outputTokens: number }, price: Price | null): number | null {
  return price === null ? null : (tokens.inputTokens * price.input + tokens.outputTokens * price.output) / 1e6;
}

/** What an LLM call is expected to take at most: the prompt as it is, and an answer. */
export type Reserve = Pick<Usage, 'inputTokens' | 'outputTokens' | 'costUsd'>;

export interface RunError {
  code: string;
  message: string;
}

/** The end a run has been given while some of its steps are still claimed: it takes no new claim and ends with the last. */
export interface Ending {
  status: 'failed' | 'cancelled';
  reason: Reason;
  error: RunError | null;
  at: Date;
}

/** The run row as the rules see it. Times are the database's. */
export interface RunState {
  id: string;
  agent: string;
  /** Of Pawl's own words to the model. */
  language: Language;
  tenant: string | null;
  threadId: string | null;
  /** Whether it is the run's turn in its thread; of a thread's runs at most one's. */
  holdsThread: boolean;
  /** Null until the first claim pins the run to the version its worker serves. */
  agentVersion: string | null;
  /** Model asked for at the start of the run; null: the agent's own. */
  model: string | null;
  /** The model the next LLM step is named for. */
  llmName: string;
  status: RunStatus;
  reason: Reason | null;
  endingAs: Ending | null;
  /** A limit reached under `finish`: the next LLM step is the last, without tools, and the run completes for this reason. */
  finishingAs: Reason | null;
  pauseAt: Date | null;
  deadlineAt: Date | null;
  limits: Limits;
  llmTimeoutMs: number;
  llmAttempts: number;
  /** Moved by each command, so that a state kept in memory can be told from a changed one. */
  rev: number;
  /** Counts the writes of rules to the run and its steps: a state kept in memory holds as long as this stands. */
  writes: number;
  /** The seq the next planned step gets; the seqs of a run are 1..n without a gap. */
  nextSeq: number;
  openSteps: number;
  suspendedSteps: number;
  /** Steps that count against `maxSteps`: those planned, but for the calls recorded as not executed at a limit. */
  stepsUsed: number;
  turnsUsed: number;
  usage: Usage;
  /** Of the next LLM call, or the one under way: asked for before it is made, and charged when it is lost. */
  reserve: Reserve;
  /** Objections to a final answer so far (an answer that did not satisfy `output`). */
  objections: number;
  /** What the loop guard and the breaker judge; null: no call was answered yet. */
  conduct: Conduct | null;
  /** History before this step's seq is no longer sent to the model. 0: everything is. */
  windowFrom: number;
  /** Tool results before this step's seq are sent as a line each. 0: none are. */
  digestBefore: number;
  /** The step whose summary stands for what is no longer sent; null: there is none. */
  summarySeq: number | null;
  /** What a prompt may take where the provider has shown to hold less than was thought; null: it has not. */
  budgetTokens: number | null;
  /** Id of the newest event of the run. */
  lastEvent: number;
  /** The final answer; JSON text where the agent has an `output` schema. */
  output: string | null;
  outputIsJson: boolean;
  error: RunError | null;
  createdAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
}

export function isFinal(status: RunStatus): status is 'completed' | 'failed' | 'cancelled' {
  return status === 'completed' || status === 'failed' || status === 'cancelled';
}
