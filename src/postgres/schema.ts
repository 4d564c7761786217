/**
 * The tables, in schema `pawl`. Their CHECK and UNIQUE constraints restate the invariants, so that a state the rules rule
 * out cannot be written either. drizzle-kit makes the migrations from this file; the hot statements (claim.ts, write.ts)
 * are SQL of our own. Text that must come back byte for byte, JSON included, is stored as text.
 *
 * No foreign keys: the check of one is a query for each row inserted, a twelfth of what a record costs. Rows of a run are only
 * inserted by statements that have locked its row, or make it; a trigger deletes them with it (`runs_take_their_rows`).
 */
import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  doublePrecision,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { factScopes } from '../core/fact.js';
import { attemptEnds } from '../core/step.js';
import { checkRows, oneOf, runRules, stepRules } from './row-rules.js';

export const pawl = pgSchema('pawl');

const at = (name: string) => timestamp(name, { precision: 3, withTimezone: true });
const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });

/** One row: what this deployment is. `oldestCode`: the fewest migrations a program must know to work on this schema. */
export const instance = pawl.table(
  'instance',
  {
    oneRow: boolean('one_row').primaryKey().default(true),
    id: text('id').notNull(),
    queueEpoch: integer('queue_epoch').notNull().default(0),
    oldestCode: integer('oldest_code').notNull().default(13),
    createdAt: at('created_at').notNull().defaultNow(),
  },
  () => [check('instance_is_one_row', sql.raw('one_row'))],
);

export const agents = pawl.table(
  'agents',
  {
    name: text('name').notNull(),
    version: text('version').notNull(),
    listing: jsonb('listing').notNull(),
    registeredAt: at('registered_at').notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.name, t.version] })],
);

export const workers = pawl.table(
  'workers',
  {
    id: text('id').primaryKey(),
    host: text('host').notNull(),
    pid: integer('pid').notNull(),
    role: text('role').notNull(),
    /** `name@version` of each agent served. */
    serves: text('serves').array().notNull(),
    /** Migrations that its program knows. Without a default, so that a program from before it was asked cannot register. */
    knows: integer('knows').notNull(),
    state: text('state').notNull().default('live'),
    beat: integer('beat').notNull().default(0),
    /** Claim tokens listed by the last beat and by the one before, and when those beats began. */
    tokens: uuid('tokens').array().notNull().default(sql`'{}'`),
    tokensBefore: uuid('tokens_before').array().notNull().default(sql`'{}'`),
    beatAt: at('beat_at').notNull().defaultNow(),
    beatBeforeAt: at('beat_before_at').notNull().defaultNow(),
    /** Milliseconds since the main loop last turned, as the last beat saw it. */
    loopLagMs: integer('loop_lag_ms').notNull().default(0),
    startedAt: at('started_at').notNull().defaultNow(),
    endedAt: at('ended_at'),
  },
  (t) => [
    index('workers_by_state').on(t.state),
    check('workers_state', sql.raw(oneOf('state', ['live', 'stopped', 'dead']))),
    check('workers_end', sql.raw(`(state = 'live') = (ended_at is null)`)),
  ],
);

export const runs = pawl.table(
  'runs',
  {
    id: text('id').primaryKey(),
    agent: text('agent').notNull(),
    agentVersion: text('agent_version'),
    model: text('model'),
    language: text('language').notNull(),
    llmName: text('llm_name').notNull(),
    llmTimeoutMs: integer('llm_timeout_ms').notNull(),
    llmAttempts: integer('llm_attempts').notNull(),
    status: text('status').notNull(),
    reason: text('reason'),
    endingStatus: text('ending_status'),
    endingReason: text('ending_reason'),
    endingErrorCode: text('ending_error_code'),
    endingErrorMessage: text('ending_error_message'),
    endingAt: at('ending_at'),
    finishingAs: text('finishing_as'),
    pauseAt: at('pause_at'),
    deadlineAt: at('deadline_at'),
    maxSteps: integer('max_steps').notNull(),
    maxTurns: integer('max_turns').notNull(),
    maxTokens: bigint('max_tokens', { mode: 'number' }),
    maxCostUsd: doublePrecision('max_cost_usd'),
    deadlineMs: bigint('deadline_ms', { mode: 'number' }),
    onLimit: text('on_limit').notNull(),
    rev: integer('rev').notNull().default(0),
    writes: integer('writes').notNull().default(0),
    nextSeq: integer('next_seq').notNull(),
    openSteps: integer('open_steps').notNull(),
    suspendedSteps: integer('suspended_steps').notNull(),
    stepsUsed: integer('steps_used').notNull(),
    turnsUsed: integer('turns_used').notNull().default(0),
    inputTokens: bigint('input_tokens', { mode: 'number' }).notNull().default(0),
    cachedInputTokens: bigint('cached_input_tokens', { mode: 'number' }).notNull().default(0),
    outputTokens: bigint('output_tokens', { mode: 'number' }).notNull().default(0),
    costUsd: doublePrecision('cost_usd'),
    usageEstimated: boolean('usage_estimated').notNull().default(false),
    reserveInput: integer('reserve_input').notNull().default(0),
    reserveOutput: integer('reserve_output').notNull().default(0),
    reserveUsd: doublePrecision('reserve_usd'),
    objections: integer('objections').notNull().default(0),
    /** JSON text of a core Conduct. */
    conduct: text('conduct'),
    windowFrom: integer('window_from').notNull().default(0),
    digestBefore: integer('digest_before').notNull().default(0),
    summarySeq: integer('summary_seq'),
    budgetTokens: integer('budget_tokens'),
    lastEvent: integer('last_event').notNull().default(0),
    /** Whether the input was text; else the task message holds its JSON. */
    inputIsText: boolean('input_is_text').notNull(),
    inputHash: text('input_hash').notNull(),
    output: text('output'),
    outputIsJson: boolean('output_is_json').notNull().default(false),
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    key: text('key'),
    tenant: text('tenant').notNull().default(''),
    lane: text('lane'),
    threadId: text('thread_id'),
    holdsThread: boolean('holds_thread').notNull().default(false),
    parentId: text('parent_id'),
    tags: jsonb('tags').notNull().default({}),
    createdAt: at('created_at').notNull().defaultNow(),
    startedAt: at('started_at'),
    finishedAt: at('finished_at'),
  },
  (t) => [
    uniqueIndex('runs_key').on(t.tenant, t.agent, t.key).where(sql`key is not null`),
    uniqueIndex('runs_thread').on(t.tenant, t.threadId).where(sql`holds_thread`),
    index('runs_of_thread').on(t.tenant, t.threadId, t.createdAt).where(sql`thread_id is not null`),
    index('runs_newest').on(t.createdAt, t.id),
    index('runs_deadline').on(t.deadlineAt).where(sql`deadline_at is not null and finished_at is null`),
    checkRows(runRules, t),
  ],
);

export const steps = pawl.table(
  'steps',
  {
    runId: text('run_id').notNull(),
    seq: integer('seq').notNull(),
    kind: text('kind').notNull(),
    name: text('name').notNull(),
    queue: text('queue').notNull(),
    status: text('status').notNull(),
    dueAt: at('due_at').notNull(),
    dispatch: integer('dispatch').notNull(),
    claimToken: uuid('claim_token'),
    workerId: text('worker_id'),
    claimedAt: at('claimed_at'),
    claimDeadline: at('claim_deadline'),
    attempt: integer('attempt').notNull(),
    failures: integer('failures').notNull(),
    crashes: integer('crashes').notNull(),
    claims: integer('claims').notNull(),
    suspect: boolean('suspect').notNull(),
    unknown: boolean('unknown').notNull(),
    deferrals: integer('deferrals').notNull(),
    maxAttempts: integer('max_attempts').notNull(),
    timeoutMs: integer('timeout_ms').notNull(),
    waitingFor: text('waiting_for'),
    waitDetail: text('wait_detail'),
    turnSeq: integer('turn_seq'),
    position: integer('position'),
    callId: text('call_id'),
    effect: text('effect'),
    sequential: boolean('sequential').notNull(),
    callHash: text('call_hash'),
    idempotencyKey: text('idempotency_key'),
    /** Both null where a message says the same: step-texts.ts. */
    input: text('input'),
    output: text('output'),
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    /** What was unusual about its outcome, in a word. */
    note: text('note'),
    inputTokens: integer('input_tokens'),
    cachedInputTokens: integer('cached_input_tokens'),
    outputTokens: integer('output_tokens'),
    costUsd: doublePrecision('cost_usd'),
    usageEstimated: boolean('usage_estimated'),
    shownAttempts: integer('shown_attempts'),
    completedEvent: integer('completed_event'),
    queuedAt: at('queued_at').notNull(),
    startedAt: at('started_at'),
    finishedAt: at('finished_at'),
  },
  (t) => [
    primaryKey({ columns: [t.runId, t.seq] }),
    uniqueIndex('steps_one_per_call').on(t.runId, t.turnSeq, t.position).where(sql`turn_seq is not null`),
    // Maintenance scans by status and by nothing else: a watermark would overlook transactions that commit late.
    index('steps_due').on(t.dueAt).where(sql`status = 'pending'`),
    index('steps_claimed').on(t.workerId).where(sql`status = 'running'`),
    index('steps_waiting').on(t.waitingFor).where(sql`status = 'suspended'`),
    index('steps_dead_unshown').on(t.runId).where(sql`status = 'dead' and shown_attempts is null`),
    index('steps_once').on(t.runId, t.callHash).where(sql`effect = 'once'`),
    checkRows(stepRules, t),
  ],
);

export const attempts = pawl.table(
  'attempts',
  {
    token: uuid('token').primaryKey(),
    runId: text('run_id').notNull(),
    seq: integer('seq').notNull(),
    attempt: integer('attempt').notNull(),
    workerId: text('worker_id').notNull(),
    startedAt: at('started_at').notNull(),
    endedAt: at('ended_at').notNull(),
    endedBy: text('ended_by').notNull(),
    recorded: boolean('recorded').notNull(),
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    inputTokens: integer('input_tokens'),
    cachedInputTokens: integer('cached_input_tokens'),
    outputTokens: integer('output_tokens'),
    costUsd: doublePrecision('cost_usd'),
    usageEstimated: boolean('usage_estimated'),
    retryInMs: integer('retry_in_ms'),
    /** What the call returned after its claim had been taken away. */
    lateNote: text('late_note'),
  },
  (t) => [
    index('attempts_of_step').on(t.runId, t.seq),
    check('attempts_ended_by', sql.raw(oneOf('ended_by', attemptEnds))),
  ],
);

export const messages = pawl.table(
  'messages',
  {
    runId: text('run_id').notNull(),
    seq: integer('seq').notNull(),
    pos: integer('pos').notNull(),
    tokens: integer('tokens'),
    /** JSON text of a core Message. */
    body: text('body').notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.seq, t.pos] })],
);

export const events = pawl.table(
  'events',
  {
    runId: text('run_id').notNull(),
    id: integer('id').notNull(),
    type: text('type').notNull(),
    seq: integer('seq'),
    at: at('at').notNull(),
    /** JSON text; null: nothing to add to the type and the step. */
    data: text('data'),
  },
  (t) => [primaryKey({ columns: [t.runId, t.id] })],
);

/** Results of tools that may be given again, for a while; expired ones are removed by maintenance. */
export const toolResults = pawl.table(
  'tool_results',
  {
    /** Hash of tenant, agent and version, tool and canonical arguments. */
    key: text('key').primaryKey(),
    body: text('body').notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [index('tool_results_expiry').on(t.expiresAt)],
);

/** Tools that an operator has withdrawn. Read by every claim: the table holds a few rows at most. */
export const toolStops = pawl.table(
  'tool_stops',
  {
    tool: text('tool').notNull(),
    /** Empty: whichever agent has the tool. */
    agent: text('agent').notNull(),
    stoppedAt: at('stopped_at').notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.tool, t.agent] })],
);

/** Tools that fail, counted, and those that are out of order. Open ones are read by every claim: a few rows at most. */
export const toolOutages = pawl.table(
  'tool_outages',
  {
    agent: text('agent').notNull(),
    tool: text('tool').notNull(),
    failed: integer('failed').notNull(),
    calls: integer('calls').notNull(),
    runs: text('runs').array().notNull(),
    sinceAt: at('since_at').notNull(),
    openedAt: at('opened_at'),
    trialAt: at('trial_at'),
    trials: integer('trials').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.agent, t.tool] }),
    check('tool_outages_trial', sql.raw('(opened_at is null) = (trial_at is null)')),
  ],
);

/** Whole texts whose cut form stands on the step and in the message. */
export const outputs = pawl.table(
  'outputs',
  {
    runId: text('run_id').notNull(),
    seq: integer('seq').notNull(),
    body: text('body').notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.seq] })],
);

/** The newest row of a key is the fact, the older ones are its history. They outlive the runs that said them. */
export const facts = pawl.table(
  'facts',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    tenant: text('tenant').notNull().default(''),
    scope: text('scope').notNull(),
    /** The agent, the thread, or nothing. */
    owner: text('owner').notNull(),
    key: text('key').notNull(),
    value: text('value').notNull(),
    /** Of key and value, with spaces between, whatever the language. */
    words: text('words').notNull(),
    runId: text('run_id').notNull(),
    seq: integer('seq').notNull(),
    at: at('at').notNull().defaultNow(),
    /** Of key and value by that model, as 32-bit floats, the low byte first; null until somebody recalls by meaning. */
    vector: bytea('vector'),
    vectorModel: text('vector_model'),
  },
  (t) => [
    index('facts_of').on(t.tenant, t.scope, t.owner, t.key, t.id.desc()),
    check('facts_scope', sql.raw(oneOf('scope', factScopes))),
    check('facts_sizes', sql.raw(`length(key) between 1 and 100 and length(value) between 1 and 2000`)),
    check('facts_vector', sql.raw(`(vector is null) = (vector_model is null)`)),
  ],
);
