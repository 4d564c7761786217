/**
 * A step: the smallest durable unit, one LLM call or one tool call. It is planned as a row before it runs, and has one
 * recorded outcome. Here stand its states and its row; the moves between the states are in draft.ts and its callers.
 */
import type { Reason, Usage } from './run.js';

/**
 * - `pending`: may run at `dueAt`.
 * - `running`: claimed by a worker, fenced by the claim's token.
 * - `suspended`: waits for what `waitingFor` names.
 * - `completed`: has its outcome. `dead`: used up its attempts, or failed terminally. `cancelled`: will not run.
 */
export const stepStatuses = ['pending', 'running', 'suspended', 'completed', 'dead', 'cancelled'] as const;
export type StepStatus = (typeof stepStatuses)[number];

export const stepKinds = ['llm', 'tool', 'wait'] as const;
export type StepKind = (typeof stepKinds)[number];

/** `none`: safe to repeat. `idempotent`: repeat with the same key. `once`: never repeat. */
export const effects = ['none', 'idempotent', 'once'] as const;
export type Effect = (typeof effects)[number];

/** What a suspended step waits for. `step` is internal: the turn of a `sequential` tool's call has not come. */
export const waitKinds = [
  'approval',
  'timer',
  'signal',
  'child',
  'outcome',
  'operator',
  'limit',
  'slot',
  'worker',
  'batch',
  'step',
] as const;
export type WaitKind = (typeof waitKinds)[number];

/** A worker's conditional take-over of a step. Its token is the receipt of whatever is recorded under it. */
export interface Claim {
  token: string;
  workerId: string;
  startedAt: Date;
  deadlineAt: Date;
}

/** The name of an LLM step that summed up the turns before it. */
export const summaryName = 'summary';
/** The names of an LLM step that made the plan of its run, and of one that judged a final answer. */
export const planName = 'plan';
export const reflectionName = 'reflection';

/** Crashes of one suspect step before it is dead `crash_loop`. */
export const crashLimit = 3;
/** Claims of one step that came to nothing (handed back, or dropped by a living worker) before it is dead `claim_loop`. */
export const claimLimit = 100;

export interface StepState {
  seq: number;
  kind: StepKind;
  /** The model, or the tool. */
  name: string;
  /** The queue its jobs go to: `llm`, `tool`, or the name of the tool's pool. */
  queue: string;
  status: StepStatus;
  dueAt: Date;
  /** Counts the jobs made for this step; a job of an older count is stale. */
  dispatch: number;
  /** The current claim while `running`; the last one afterwards, as the receipt of what it recorded. */
  claim: Claim | null;
  /** The try now running, or the last one; counted from 1, 0 before the first claim. */
  attempt: number;
  failures: number;
  crashes: number;
  /** Claims that came to nothing: neither a failure nor a crash. */
  claims: number;
  /** Held by a worker when it died; a process runs one suspect at a time. */
  suspect: boolean;
  /** A `once` call whose fate is not known. */
  unknown: boolean;
  /** Times a worker sent it back because it does not serve the agent. */
  deferrals: number;
  maxAttempts: number;
  timeoutMs: number;
  waitingFor: WaitKind | null;
  waitDetail: string | null;
  /** Tool steps: the LLM step that asked, the place among its calls (from 1), and the id the model knows the call by. */
  turnSeq: number | null;
  position: number | null;
  callId: string | null;
  effect: Effect | null;
  /** Calls of this tool in one turn run one after another, in the model's order. */
  sequential: boolean;
  /** Hash of name and canonical arguments, equal for identical calls of a run. */
  callHash: string | null;
  idempotencyKey: string | null;
  /** Tool steps: the arguments as JSON text, byte for byte as kept in the message. LLM steps: null. */
  input: string | null;
  output: string | null;
  error: { code: string; message: string } | null;
  /** What was unusual about the outcome: `cache`, a result that was kept from an earlier call. */
  note: 'cache' | null;
  usage: Usage | null;
  /** Attempts the queue had counted when it last heard that this step is dead; null: it was never told. */
  shownAttempts: number | null;
  /** Number of the event that told of its outcome; null: there is none yet, or it is kept apart, of an older step. */
  completedEvent: number | null;
  queuedAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
}

export function isOpen(status: StepStatus): boolean {
  return status === 'pending' || status === 'running' || status === 'suspended';
}

/**
 * How an attempt ended that did not complete its step:
 * `failure` counted against the attempts, `crash` and `claim` against their own limits, `death` the last,
 * `unknown` a `once` call whose fate is not known, `cancelled` by the end of its run.
 */
export const attemptEnds = ['failure', 'crash', 'claim', 'death', 'unknown', 'cancelled'] as const;
export type AttemptEnd = (typeof attemptEnds)[number];

/** An attempt that ended without completing its step, archived under its claim's token. */
export interface AttemptRecord {
  token: string;
  seq: number;
  attempt: number;
  workerId: string;
  startedAt: Date;
  endedAt: Date;
  endedBy: AttemptEnd;
  /** True when the attempt's own worker recorded the end; false when the system took the claim away. */
  recorded: boolean;
  error: { code: string; message: string } | null;
  usage: Usage | null;
  /** Delay until the next attempt that the record asked of the queue; null when there is none. */
  retryInMs: number | null;
}

export interface DeadReason {
  reason: Reason;
  error: { code: string; message: string };
}
