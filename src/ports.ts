/**
 * The outside world as the engine sees it: a store that keeps the truth, a queue that wakes workers up, a model, a clock
 * and a source of ids. Adapters: src/postgres, src/bullmq, src/openai; the fakes in src/testing pass the same contracts.
 * Next: engine/run-step.ts, which uses all of them.
 */
import type { Draft } from './core/draft.js';
import type { PawlError } from './core/errors.js';
import type { FactReader, KnownFact } from './core/fact.js';
import type { Candidate, Vector } from './core/likeness.js';
import type { Message, StoredMessage } from './core/message.js';
import type { OutageRule, ToolFailure } from './core/outage.js';
import type { LlmAnswer } from './core/outcome.js';
import type { OutputPage, PageAsked } from './core/read-output.js';
import type { Price, RunState, Usage } from './core/run.js';
import type { AttemptRecord, StepState } from './core/step.js';
import type { Earlier } from './core/thread.js';
import type { StoppedTool, ToolStop } from './core/tool-stop.js';
import type {
  AgentListing,
  EventView,
  NewRun,
  RunFilter,
  RunPage,
  RunView,
  StepView,
  ToolListing,
} from './core/view.js';

/** A pending step handed to the queue. The job's id is `<runId>.<seq>.<dispatch>`, its data these ids. */
export interface Dispatch {
  queue: string;
  runId: string;
  seq: number;
  dispatch: number;
}

export interface ClaimRequest {
  runId: string;
  seq: number;
  dispatch: number;
  /** Made by the worker before it sends the claim; the same token may claim again when the answer was lost. */
  token: string;
  workerId: string;
  /** Agent versions the worker serves, by agent name. */
  serves: ReadonlyMap<string, string>;
  /** Whether the process is free to take a suspect step. */
  takesSuspect: boolean;
}

export type Refusal =
  | 'stale'
  | 'done'
  | 'dead'
  | 'ending'
  | 'suspended'
  | 'claimed'
  | 'not_due'
  | 'worker_dead'
  | 'not_served'
  | 'suspect_slot';

export type ClaimAnswer =
  /** `messages`: for an LLM step the messages that are `isShown`, in order; else empty. */
  | {
      claimed: true;
      run: RunState;
      step: StepState;
      messages: StoredMessage[];
      /** Tools withdrawn at that moment, of any agent. */
      stops: readonly StoppedTool[];
      now: Date;
    }
  | { claimed: false; refusal: Refusal };

/** The state a claim returned, and the database's time now, reckoned from the claim's. */
export interface KnownState {
  run: RunState;
  step: StepState;
  now: Date;
}

/** Which steps of a run a rule needs to see: the named ones, every open one, or also the dead and cancelled ones that a redrive revives. */
export type StepScope = { seqs: readonly number[] } | 'open' | 'revivable';

/** What became of a run that was to be accepted. Refused: `unknown_agent`, `key_conflict`, `conflict` (its thread is busy). */
export type Acceptance = { id: string; created: boolean; dispatches: Dispatch[] } | { refused: PawlError };

/** Steps and runs, and every way they change. */
export interface Store {
  claim(request: ClaimRequest): Promise<ClaimAnswer>;
  /**
   * Locks the run, lets the rule work on a draft of it and of the steps in scope, and writes what the rule changed in one
   * transaction. Null when there is no such run. What the rule throws undoes everything. `receipt`: a claim token whose
   * archived attempt, if any, the draft brings along. `known`: the state as a claim returned it, for a store that can do
   * without locking and loading first where nothing has changed since.
   */
  change<T>(
    runId: string,
    scope: StepScope,
    rule: (draft: Draft) => T,
    options?: { receipt?: string; known?: KnownState },
  ): Promise<{ value: T; dispatches: Dispatch[] } | null>;
  /**
   * Accepts runs, each with its first step, or finds the ones their keys already name; all or, when it throws, none. Answers
   * in the order given.
   */
  createRuns(runs: readonly NewRun[]): Promise<Acceptance[]>;
  /** Notes on an attempt taken away what its call returned all the same, and cost. */
  noteLate(token: string, note: string, usage?: Usage | null): Promise<void>;
  /**
   * Facts that a run may see, the newest value of each key, by relevance to the query. `all`: also those of no relevance, the
   * newest first, where there is room.
   */
  recall(reader: FactReader, asked: { query: string; most: number; all: boolean }): Promise<KnownFact[]>;
  /**
   * The same facts for another to rank, as full text orders them, at most so many: each with its vector of the model, where
   * one is kept.
   */
  factsToRank(reader: FactReader, asked: { query: string; model: string; most: number }): Promise<Candidate[]>;
  /** Keeps the vectors of facts, in the place of those of another model. */
  keepVectors(model: string, vectors: readonly { id: number; vector: Vector }[]): Promise<void>;
  /** The last run of the thread that said anything, itself apart; null: there is none. */
  earlierInThread(runId: string): Promise<Earlier | null>;
  /** What the run began with, the messages of seqs up to 0 in order, also those that are no longer shown. */
  openingMessages(runId: string): Promise<StoredMessage[]>;
  /** Seqs, by call hash, of this run's `once` calls that failed or are unknown. */
  unsettledOnce(runId: string, callHashes: readonly string[]): Promise<Map<string, number>>;
  /** What the run's calls came to, in order; of very many characters the newest. For agents that verify their answers. */
  toolResults(runId: string, maxChars: number): Promise<StoredResult[]>;
  /** A page, by characters, of the whole output of a tool step; null: the run has no such output. */
  readOutput(runId: string, page: PageAsked): Promise<OutputPage | null>;
  /** A tool's result kept under this key, while it has not expired. */
  keptResult(key: string): Promise<string | null>;
  /** Keeps a tool's result for the time given, in the place of any other of this key. */
  keepResult(key: string, body: string, forMs: number): Promise<void>;
  /** Withdraws a tool, or gives it back: false when it was already so. */
  stopTool(stop: ToolStop): Promise<boolean>;
  allowTool(stop: ToolStop): Promise<boolean>;
  /** Counts a failed call of a tool; true when that puts the tool out of order. */
  noteToolFailure(failure: ToolFailure): Promise<boolean>;
  /** Whether a call may try a tool that is out of order: one at a time. */
  tryTool(agent: string, tool: string, rule: OutageRule): Promise<boolean>;
  /** A trial has succeeded. */
  endOutage(agent: string, tool: string): Promise<void>;
}

/** A tool step that has its outcome. `text`: the whole, where the model was told a part. */
export interface StoredResult {
  name: string;
  arguments: string;
  text: string;
  error: string | null;
}

/** What doors show. One query a question. */
export interface Reads {
  run(id: string): Promise<RunView | null>;
  runs(filter: RunFilter): Promise<RunPage>;
  steps(runId: string): Promise<StepView[]>;
  attempts(runId: string): Promise<AttemptRecord[]>;
  messages(runId: string): Promise<StoredMessage[]>;
  /** Events after the given id, oldest first, at most `limit`. */
  events(runId: string, after: number, limit: number): Promise<EventView[]>;
  /** The whole text of a step's output where the step holds a cut one. */
  fullOutput(runId: string, seq: number): Promise<string | null>;
  agents(): Promise<AgentListing[]>;
  tools(): Promise<ToolListing[]>;
  agent(name: string): Promise<AgentListing | null>;
}

export interface WorkerRow {
  id: string;
  beat: number;
}

/** Claims found on a claimed step, with what their rescue needs. */
export interface HeldClaim {
  runId: string;
  seq: number;
  token: string;
  workerId: string;
  /** Its worker ended in good order: nobody is to blame for the claim. */
  stopped?: boolean;
}

export interface DueStep extends Dispatch {
  dueAt: Date;
}

/** What the maintenance role looks for and how it says a worker dead. */
export interface Watch {
  /** A write of its own, to know that Postgres takes writes; returns the database's time. */
  breathe(): Promise<Date>;
  liveWorkers(): Promise<WorkerRow[]>;
  /** Declares a worker dead if its beat counter still is the given one. */
  declareDead(workerId: string, beat: number): Promise<boolean>;
  claimsOfDeadWorkers(limit: number): Promise<HeldClaim[]>;
  /** Claims that the last two beats of their live worker, both begun after the claim, did not list. */
  droppedClaims(limit: number): Promise<HeldClaim[]>;
  /** Claims whose deadline passed more than the given time ago. */
  overdueClaims(graceMs: number, limit: number): Promise<HeldClaim[]>;
  /** A page, oldest first, of the pending steps due for longer than the given time, after the given one. */
  dueSteps(overdueMs: number, after: DueStep | null, limit: number): Promise<DueStep[]>;
  /** Dead steps that the queue was never told of. */
  unshownDeaths(limit: number): Promise<Dispatch[]>;
  /** Raises the dispatch of each step that still is at the given one, and returns the new dispatches. */
  raiseDispatch(steps: readonly Dispatch[]): Promise<Dispatch[]>;
  /** Runs whose deadline needs attention, suspended ones included. */
  runsPastDeadline(limit: number): Promise<string[]>;
  /** Runs with a step suspended on `worker` that a live worker serves now. */
  runsServedAgain(limit: number): Promise<string[]>;
  /** Of each thread that no run has, the run whose turn it is. */
  runsAwaitingThread(limit: number): Promise<string[]>;
  /** Whether any live worker serves this agent at this version (null: at any). */
  isServed(agent: string, version: string | null): Promise<boolean>;
  /** A counter that is also kept in the queue; the two differ after the queue lost data or was restored old. */
  queueEpoch(): Promise<number>;
  /** Raises the counter if it still is the given one. */
  raiseQueueEpoch(from: number): Promise<boolean>;
  /** Removes workers long gone whose claims are settled. */
  sweepWorkers(): Promise<void>;
  /** Removes kept results of tools that have expired, at most so many; answers how many. And counts of failures long past. */
  sweepResults(limit: number): Promise<number>;
}

export interface WorkerRegistration {
  id: string;
  host: string;
  pid: number;
  role: 'all' | 'steps' | 'maintenance';
  agents: AgentListing[];
}

/** The registration of one worker process, and its heartbeat from a thread of its own. */
export interface Workers {
  register(registration: WorkerRegistration): Promise<Heart>;
}

export interface Heart {
  /** Lists a token in the beats from now on: called before the claim is sent. */
  hold(token: string): void;
  /** The claim was answered: from now on a beat that does not find it means that it was lost. */
  claimed(token: string): void;
  drop(token: string): void;
  /** False when no beat was confirmed for 6 s: nothing new may be claimed. */
  isConfirmed(): boolean;
  /** Tokens whose run is ending, or that are no longer the worker's. */
  onAbort(listener: (abort: { token: string; cause: 'ending' | 'lost' }) => void): void;
  /** This worker was declared dead. */
  onDeclaredDead(listener: () => void): void;
  /** Says `stopped` in the worker's row where the database still answers within the time given, and ends the thread. */
  stop(withinMs: number): Promise<void>;
}

/**
 * What a delivery did to its job, in the queue's three endings, and a fourth: back to the queue untouched. `isKept`: the job
 * stays for a while with its note, since no row says what the delivery came to.
 */
export type DeliveryEnd =
  | { end: 'complete'; note: string; isKept?: true }
  | { end: 'retry'; delayMs: number; note: string }
  | { end: 'fail'; note: string }
  | { end: 'hand_back' };

export interface Delivery {
  runId: string;
  seq: number;
  dispatch: number;
  queue: string;
  /** Attempts of this job that the queue has counted as failed so far. */
  attemptsMade: number;
}

/** Where a job is, as far as rescue cares: an active one may belong to a process that died. */
export type Presence = 'ready' | 'active' | 'absent';

export interface Queue {
  /** Adds jobs; one that exists already is left as it is. */
  add(dispatches: readonly Dispatch[]): Promise<void>;
  /** Where each job is, in the order given; throws when the queue cannot be asked. */
  probe(dispatches: readonly Dispatch[]): Promise<Presence[]>;
  /** Removes jobs that are not active; those that do not exist are ignored. */
  remove(dispatches: readonly Dispatch[]): Promise<void>;
  /** The epoch stored in the queue's own data, or null when it holds none. */
  readEpoch(): Promise<string | null>;
  writeEpoch(epoch: string): Promise<void>;
  close(): Promise<void>;
}

/** Fetches jobs and hands each to the handler; the handler never throws. */
export interface Consumer {
  start(): Promise<void>;
  /** Fetches nothing more until resumed; deliveries under way go on. */
  pause(): void;
  resume(): void;
  /** Stops fetching at once; resolves when every delivery under way has ended and its job is acknowledged, or after the time. */
  stop(withinMs: number): Promise<void>;
}

export interface ToolSpec {
  name: string;
  description: string;
  /** JSON Schema of the arguments; its root is an object. */
  parameters: Record<string, unknown>;
}

export interface LlmRequest {
  model: string;
  system: string;
  messages: readonly Message[];
  tools: readonly ToolSpec[];
  /** JSON Schema the final answer must satisfy; null: free text. */
  outputSchema: Record<string, unknown> | null;
  temperature: number | null;
  maxOutputTokens: number | null;
  timeoutMs: number;
}

/** Makes vectors of texts that can be compared, by a model at its provider. */
export interface Embedder {
  readonly model: string;
  /** Of its tokens, which are all input; null: not known. */
  readonly price: Price | null;
  /** Rejects with what went wrong, in words for people. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<Embedded>;
}

export interface Embedded {
  /** One for each text, in order. */
  vectors: Vector[];
  /** As the provider says; null: it says nothing usable. */
  inputTokens: number | null;
}

export interface Llm {
  /** One call, no retries; never throws. */
  complete(request: LlmRequest, signal: AbortSignal): Promise<LlmAnswer>;
  /** Tokens of each text by the model's tokenizer; does not block the event loop for long on any text. */
  countTokens(model: string, texts: readonly string[]): Promise<number[]>;
  /** What the model's tokens cost; null: not known. */
  price(model: string): Price | null;
  /** Tokens the model's context holds. */
  contextTokens(model: string): number;
}

export interface Clock {
  /** Milliseconds of a monotonic clock. */
  monotonicMs(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Ids {
  runId(): string;
  workerId(): string;
  claimToken(): string;
  /** A number from 0 up to 1, for jitter. */
  random(): number;
}

/** Structured log. Never given prompts, payloads or secrets. */
export interface Log {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
  child(fields: Record<string, unknown>): Log;
}
