/**
 * What a campaign leaves behind, and all that its checker may look at: one folder of JSON and JSON lines. Every `at` is in
 * milliseconds of one clock, the machine's monotonic one counted from 1970 at the start, so that times of all processes
 * compare and a clock set wrong on purpose moves none. Times in the tables are the database's. Next: read-evidence.ts.
 */
import type { Effect } from '../../../src/core/step.js';
import type { Gap } from '../../../src/engine/gaps.js';
import type { AttemptRow, RunRow, StepRow } from '../../../src/postgres/rows.js';

/** The files of the folder. All but `meta` hold one JSON value a line. */
export const files = {
  /** Written last: a folder without it is of a campaign that was cut short. */
  meta: 'meta.json',
  expected: 'expected.jsonl',
  clients: 'clients.jsonl',
  nemesis: 'nemesis.jsonl',
  ledger: 'ledger.jsonl',
  model: 'model.jsonl',
  workers: 'workers.jsonl',
} as const;

/** Dumped whole from schema `pawl`, one row a line as `row_to_json` writes it, to `tables/<name>.jsonl`. */
export const tables = [
  'instance',
  'workers',
  'runs',
  'steps',
  'attempts',
  'messages',
  'events',
  'outputs',
  'facts',
] as const;
export type Table = (typeof tables)[number];

export type Backend = 'redis' | 'postgres';

export interface Meta {
  seed: number;
  /** Of the code that was tried; `+` at its end: with changes that were not committed. */
  commit: string;
  machine: {
    cpus: number;
    cpu: string;
    memoryMb: number;
    os: string;
    node: string;
    postgres: string;
    redis: string | null;
  };
  backend: Backend;
  settings: {
    runs: number;
    minutes: number;
    heartbeatMs: number;
    deathMs: number;
    /** One letter a worker process: `a` all, `s` steps, `m` maintenance. */
    layout: string;
    concurrency: number;
    /** Runs not yet final at any time, at most. */
    openRuns: number;
  };
  /** Kinds of fault that could not be made here, and why. */
  unavailable: Record<string, string>;
  /** Must stand nowhere else in the folder: the model's key and the database's password. */
  secrets: string[];
  startedAt: number;
  /** When the services were whole again and every process went on; from here on nothing is broken any more. */
  lastFaultAt: number;
  /** When every run had come to its end; null when some had not within `livenessMs` of the last fault. */
  settledAt: number | null;
  livenessMs: number;
  endedAt: number;
}

/** What is known beforehand of one run: by the seed and the number of its plan alone. */
export interface Expected {
  /** The plan's number, and `task` the text by which the model knows it (the run's input). */
  plan: number;
  task: string;
  agent: string;
  /** The thread it belongs to. */
  thread: string | null;
  /** The run's key; duplicate starts bring it again. */
  key: string;
  /**
   * `completed`: with exactly `output`. `failed`: for `reason`. A plan that a client cancels may end as `cancelled`, or
   * as here when it was over before the cancel came.
   */
  status: 'completed' | 'failed';
  reason: string | null;
  output: string | null;
  cancels: boolean;
  /**
   * The calls of its turns in order, without those of a turn never reached; step numbers follow from the order alone. A
   * summary takes the place of a turn, where the run needs one: all that come after it are one higher.
   */
  calls: ExpectedCall[];
  /** Seqs of its LLM steps. */
  llmSeqs: number[];
  /** Seqs of its LLM steps that are no turns: that of its plan, and those that judge an answer, the last of which accepts it. */
  asides: number[];
  /** Answers of its model that are objected to. */
  objections: number;
  /** The turn, from 0, from which on the preferred model of its agent answers no more; null: it always does. */
  fallsBackAt: number | null;
}

export interface ExpectedCall {
  seq: number;
  tool: string;
  effect: Effect;
  /** The token that its result holds, whoever gives it: the tool, or an operator who looked at the ledger. */
  token: string;
  /**
   * How often its completed call has taken effect: 0 where it is refused or has none, and `at most 1` for a `once` call
   * whose unknown fate is told to the model, and where the tool may be withdrawn.
   */
  applies: 0 | 1 | 'at most 1';
}

export type ClientOp =
  | { op: 'start'; plan: number; key: string; task: string }
  | { op: 'cancel' | 'redrive' }
  | { op: 'resolve'; step: number; as: 'done' | 'failed' | 'rerun' }
  /** A look at a run that was found final. */
  | { op: 'seen_final' }
  /** `agent`: null for each that has the tool. */
  | { op: 'disable_tool' | 'enable_tool'; tool: string; agent: string | null };

/** A call of a client, with all it was told. */
export type ClientCall = ClientOp & {
  client: string;
  /** Null for a start that was not answered. */
  runId: string | null;
  beganAt: number;
  endedAt: number;
  answer: ClientAnswer;
};

export type ClientAnswer =
  | {
      ok: true;
      status: string;
      reason: string | null;
      output: string | null;
      finishedAt: string | null;
      created: boolean | null;
    }
  /** `code`: of a PawlError. `database_unreachable` and `queue_unreachable`, and nothing else, leave open whether it happened. */
  | { ok: false; code: string; message: string };

export const faultKinds = [
  // Nothing is done to anything: a time in which no worker may be declared dead.
  'quiet',
  // A worker's process.
  'kill',
  'kill_at_gap',
  'sigterm',
  'zombie',
  'blocked_loop',
  'clock_off',
  'clock_jump',
  // What holds the queue.
  'queue_wiped',
  'queue_restarted_empty',
  'queue_restored_old',
  'queue_out_of_memory',
  'queue_read_only',
  'queue_clients_killed',
  'queue_scripts_flushed',
  'queue_dropped',
  // The jobs, by hand.
  'jobs_added',
  'jobs_removed',
  'jobs_paused',
  'jobs_retried',
  'jobs_obliterated',
  // Postgres.
  'postgres_fast_restart',
  'postgres_immediate_restart',
  'postgres_backends_terminated',
  'postgres_connections_exhausted',
  'postgres_locked',
  'postgres_serialization_failures',
  'postgres_disk_full',
  // The net, before either service.
  'net_latency',
  'net_reset',
  'net_half_open',
  'net_frozen',
  'net_refused',
  'reply_swallowed',
] as const;
/** `postgres_panicked`: nobody did it. Postgres ended itself, as it does where it cannot write its log, and came back. */
export type FaultKind = (typeof faultKinds)[number] | 'postgres_panicked';

/** One fault, written when it is over. */
export interface Fault {
  id: number;
  kind: FaultKind;
  /** A worker's name, `postgres`, `redis`, or a queue's name. */
  target: string;
  beganAt: number;
  /** When it was undone: the process was replaced or went on, the service answered again. */
  endedAt: number;
  /** Kind by kind: the gap, the times, what was swallowed, how many jobs were hit. */
  details: Record<string, unknown>;
  /** The steps that the process hit had in hand (faults of a process), or whose reply was swallowed. */
  inFlight: InFlight[];
  /** Set when it could not be done as meant; then it counts for nothing. */
  failed: string | null;
}

export interface InFlight {
  runId: string;
  seq: number | null;
  /** The last gap that the delivery had passed; `before_claim`: fetched and not yet claimed. Null where unknown. */
  gap: Gap | null;
  token: string | null;
}

/**
 * What a reply that was swallowed belonged to: `details.what` of a `reply_swallowed` whose `failed` is null. A worker's record
 * or claim, a client's start, a claim that maintenance took away, or a command; the last two name no token.
 */
export type Swallowed = 'record' | 'claim' | 'start' | 'rescue' | 'command';

/** One call that reached the world outside, on disk before it was answered. */
export interface Hit {
  n: number;
  at: number;
  /** Null where several plans ask for the same. */
  plan: number | null;
  tool: string;
  effect: Effect;
  runId: string;
  seq: number;
  attempt: number;
  key: string;
  token: string;
  /** Whether this very hit did something. An endpoint that dedupes applies a key once; one that cannot, every hit. */
  applied: boolean;
  /** `deduped`: done before, under this key, and not again. */
  deduped: boolean;
  /** `refused`: an error before the effect. `lost`: the effect, then an error. `late`: the effect, then a long silence. */
  answer: 'ok' | 'refused' | 'lost' | 'late';
}

/** One request that reached the model. */
export interface ModelCall {
  n: number;
  at: number;
  /** The one that was asked. Null when the request cannot be read, as what follows: always a breach. */
  model: string | null;
  plan: number | null;
  /** The turn it asks for, from 0, by the replies in its history; `seq` is the step that must have sent it. */
  turn: number | null;
  seq: number | null;
  /** The rule of the API, or of the plan's own history, that it breaks. */
  breach: string | null;
  reply: 'calls' | 'text' | 'summary' | 'plan' | 'reflection' | 'fault';
  /** The fault's name, with its status. */
  fault: string | null;
  /** Tokens that the reply billed; null where it billed nothing. */
  usage: { inputTokens: number; outputTokens: number } | null;
  /** Whether the caller was still there when it was answered. */
  delivered: boolean;
}

export type WorkerLine = {
  at: number;
  /** The name of its place in the campaign, and the process that holds it now. */
  worker: string;
  pid: number;
} & (
  | { what: 'spawned'; role: 'all' | 'steps' | 'maintenance'; clockOffMs: number }
  /** It takes steps; null in the maintenance role. */
  | { what: 'ready'; workerId: string | null }
  | { what: 'exited'; code: number | null; signal: string | null }
  /** A delivery passed a gap. `attempt` and `token` from the claim on. */
  | {
      what: 'gap';
      gap: Gap;
      runId: string;
      seq: number;
      dispatch: number;
      attemptsMade: number;
      attempt: number | null;
      token: string | null;
    }
  /** A delivery was refused, and goes no further. */
  | { what: 'refused'; runId: string; seq: number; dispatch: number; refusal: string }
  /** A line of its log from `info` on, as it stands; `at` is the line's own only in that it was written then. */
  | { what: 'log'; level: string; msg: string; fields: Record<string, unknown> }
);

/** Lines of the log that a checker counts, by their `msg`. */
export const tellingLines = {
  declaredDead: 'a worker is declared dead',
  rescued: 'a lost claim was taken back',
  redispatched: 'due steps were missing in the queue and are dispatched again',
  queueForgot: 'the queue is not as it was left: everything due is looked for now',
} as const;

export interface RunDump extends RunRow {
  key: string | null;
  tags: Record<string, string>;
}
export type StepDump = StepRow;
export interface AttemptDump extends AttemptRow {
  /** What its call returned after the claim was taken away: a write that was fenced. */
  late_note: string | null;
}
export interface MessageDump {
  run_id: string;
  seq: number;
  pos: number;
  tokens: number | null;
  body: string;
}
export interface EventDump {
  run_id: string;
  id: number;
  type: string;
  seq: number | null;
  /** Null: of an outcome whose step has no end, which no sound row is. */
  at: string | null;
  /** JSON text. */
  data: string | null;
}
export interface WorkerDump {
  id: string;
  pid: number;
  role: string;
  state: 'live' | 'stopped' | 'dead';
  beat: number;
  loop_lag_ms: number;
  started_at: string;
  ended_at: string | null;
}
export interface InstanceDump {
  id: string;
  queue_epoch: number;
}

/** What was too long to be shown whole. */
export interface OutputDump {
  run_id: string;
  seq: number;
  body: string;
}

export interface FactDump {
  id: number;
  scope: string;
  owner: string;
  key: string;
  value: string;
  run_id: string;
  seq: number;
}

export interface Tables {
  instance: InstanceDump[];
  workers: WorkerDump[];
  runs: RunDump[];
  steps: StepDump[];
  attempts: AttemptDump[];
  messages: MessageDump[];
  events: EventDump[];
  outputs: OutputDump[];
  facts: FactDump[];
}

/** The whole folder, read. */
export interface Evidence {
  meta: Meta;
  expected: Expected[];
  clients: ClientCall[];
  nemesis: Fault[];
  ledger: Hit[];
  model: ModelCall[];
  workers: WorkerLine[];
  tables: Tables;
}

/** What a checker makes of it. */
export interface Report {
  /** `inconclusive`: no breach, but something that had to happen for that to mean anything did not. */
  verdict: 'passed' | 'failed' | 'inconclusive';
  /** Each text begins with the invariant's name, or with `liveness`, `output`, `section 5`. */
  breaches: { invariant: string; runId: string | null; text: string }[];
  /** What happened, by name: runs, kills in flight, takeovers, fenced writes, … */
  counts: Record<string, number>;
  /** Names of counts that are zero and must not be. */
  missing: string[];
}
