/**
 * Outcomes: what performing a step produced. A value, never an exception: a model that refuses, a tool that throws and a
 * call that was cut short are all expected results, and decide.ts says what comes next for each.
 */
import type { WindowMoved, WindowState } from './context.js';
import type { NewFact } from './fact.js';
import type { Repetition } from './loop.js';
import type { StoredMessage } from './message.js';
import type { Judgement } from './reflect.js';
import type { Reason, Reserve, RunError, Usage } from './run.js';
import type { Effect, StepState } from './step.js';

/** What a model answered, as the adapter read it, before Pawl looks at its calls. */
export interface LlmReply {
  content: string | null;
  /** Calls as the provider sent them; ids are dropped at ingest and made anew. */
  calls: { name: string; arguments: string }[];
  reasoning?: string;
  usage: Usage;
  /** The model that answered, as the provider names it. */
  model: string;
}

/**
 * Why a model call failed. `retryable`: another attempt may succeed. `terminal`: none will, and the run fails for
 * `reason`. `overflow`: the prompt did not fit, and a shorter one may.
 */
export interface LlmFailure {
  class: 'retryable' | 'terminal' | 'overflow';
  /** Short and stable: rate_limited, server_error, timeout, connection, invalid_response, quota_exhausted, … */
  code: string;
  message: string;
  /** For a dead step, the run's reason; `attempts_exhausted` for a retryable one. */
  reason: Reason;
  /** The provider's Retry-After; null when it gave none. */
  retryAfterMs: number | null;
  /** Set when the failed call was billed, or may have been (then flagged as an estimate). */
  usage: Usage | null;
}

export type LlmAnswer = { ok: true; reply: LlmReply } | { ok: false; failure: LlmFailure };

/** Why a call is not executed. `code`: of its step's error; left out: `not_executed`. */
export interface CallFault {
  text: string;
  tokens: number;
  code?: 'withheld' | 'permission_denied' | 'tool_disabled';
}

/** A tool call of a reply, checked and ready to be planned as a step. */
export interface PlannedCall {
  name: string;
  /** JSON text of an object. */
  arguments: string;
  canonicalArguments: string;
  /** The queue the call's step goes to. */
  queue: string;
  effect: Effect;
  callHash: string;
  maxAttempts: number;
  timeoutMs: number;
  sequential: boolean;
  /** Calls of this tool that a run may make; null: any number. */
  maxCalls: number | null;
  /** Set when the call will not be executed (unknown tool, invalid arguments, a repetition): what the model is told instead. */
  fault: CallFault | null;
  /** Set when an identical `once` call of this run failed or is unknown: an operator decides whether this one may run. */
  identicalTo: number | null;
}

/** A tool's answer made storable: what the model sees, and the whole text where that was cut. */
export interface StorableText {
  text: string;
  tokens: number;
  full: string | null;
}

/** Why a call was cut short by its own worker. */
export type AbortCause = 'ending' | 'lost' | 'shutdown';

export type Outcome =
  | {
      kind: 'reply';
      content: string | null;
      reasoning?: string;
      calls: PlannedCall[];
      /** Set when the request offered no tools because a limit made it the last: the limit. */
      lastBecause: Reason | null;
      /** Whether the answer is JSON that satisfies the agent's `output`. */
      isJson: boolean;
      /** Set when the final answer does not satisfy the agent's `output`: what the model is told. */
      objection: { text: string; tokens: number } | null;
      usage: Usage;
      model: string;
      tokens: number;
      window: WindowMoved;
      /** What the request brought along from outside the run: see core/thread.ts. Left out: nothing. */
      opening?: StoredMessage[];
      /** Of the prompt that was sent and an answer to it. */
      reserve: Reserve;
      /** What the loop guard did about the turns before. */
      repetition: (Repetition & { tools: string[] }) | null;
      /** Of an agent that has final answers judged: how often at most. Left out: it has none judged. */
      reflect?: { rounds: number };
    }
  /** `budgetTokens`: for an overflow, what the next prompt may take; null when nothing can be left out. */
  | {
      kind: 'llm_failure';
      failure: LlmFailure;
      retryInMs: number;
      budgetTokens: number | null;
      reserve: Reserve;
      lastBecause: Reason | null;
      /** The model that failed, the one to fall back to, and the one to begin with when the step is revived. */
      models: { failed: string; next: string | null; first: string };
    }
  /** What came of an LLM step that asked for a summary in the place of a turn. `summary`: null where there is none; `why`: not. */
  | {
      kind: 'summary';
      summary: { content: string; calls: string[]; tokens: number } | null;
      why: string | null;
      window: WindowMoved;
      /** Of the prompt that was summed up, and of the next one. */
      tokens: { before: number; after: number };
      usage: Usage | null;
      reserve: Reserve;
    }
  /** What came of the LLM step that asked for a plan before the first turn. `plan`: null where there is none; `why`: not. */
  | {
      kind: 'plan';
      plan: { content: string; tokens: number } | null;
      why: string | null;
      window: WindowState;
      /** As of a reply. */
      opening?: StoredMessage[];
      usage: Usage | null;
      reserve: Reserve;
    }
  /** What came of the LLM step that was to judge a final answer. */
  | {
      kind: 'reflection';
      verdict: Judgement;
      /** What the model is told where it objects. */
      objection: { text: string; tokens: number } | null;
      /** The answer that was judged: its step, and what becomes the run's output where it stands. */
      answer: { seq: number; output: string; isJson: boolean };
      rounds: number;
      /** Null, as the reserve, where nothing was sent. */
      usage: Usage | null;
      reserve: Reserve | null;
    }
  /** `note`: `cache` where the result is that of an earlier call. `plan`: what the run goes by from here on. */
  | { kind: 'tool_value'; value: StorableText; note?: StepState['note']; facts?: NewFact[]; plan?: string }
  /** A tool that failed, or could not be asked, and whose repetition does no harm. */
  | {
      kind: 'tool_failure';
      code: string;
      observation: StorableText;
      /** For people, without advice to the model; left out: what the model is told. */
      message?: string;
      retry: boolean;
      retryInMs: number;
    }
  /** A `once` call that may have happened. */
  | { kind: 'tool_unknown'; code: string; message: string }
  /** What `onUnknown` said of a `once` call whose fate is not known: ask an operator, or this observation. */
  | { kind: 'unknown_settled'; observation: StorableText | null }
  /** The guard found a limit reached before anything was spent. */
  | { kind: 'limit'; reason: Reason }
  /** The breaker or the loop guard ends the run in place of the step. */
  | { kind: 'stop'; reason: 'breaker_open' | 'loop_detected'; error: RunError }
  /** The agent's `stopWhen` finds that a result is what was wanted: it is the run's output. */
  | { kind: 'stop_early'; output: string; isJson: boolean }
  /** Cut short by its own worker. `observation`: what the model is told where a limit, not the end of the run, was the cause. */
  | { kind: 'aborted'; cause: AbortCause; started: boolean; usage: Usage | null; observation: StorableText }
  /** The outcome cannot be stored even after it was made storable. */
  | { kind: 'unstorable'; message: string };
