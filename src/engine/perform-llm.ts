/**
 * Performs an LLM step: the guard, the window, exactly one model call, and the reading of its reply into checked calls or
 * a checked answer. Ids a provider gives to calls are dropped here: a call's identity is its run and seq.
 */
import { type Agent, answerTokens } from '../core/agent.js';
import { faultyArguments } from '../core/arguments.js';
import { type Compaction, planCompaction } from '../core/compact.js';
import { type Conduct, isDenied } from '../core/conduct.js';
import { assemblePrompt, budgetAfterOverflow, chooseWindow, type Window, type WindowRule } from '../core/context.js';
import { historyInJson, instructInJson, readJsonCalls } from '../core/json-calls.js';
import { guardLlmStep, roomForSummary } from '../core/limits.js';
import { goesOn } from '../core/loop.js';
import type { StoredMessage } from '../core/message.js';
import type { CallFault, LlmFailure, LlmReply, Outcome, PlannedCall } from '../core/outcome.js';
import { retryDelayMs } from '../core/retry.js';
import { costOf, noUsage, type Reason, type Reserve, type Usage } from '../core/run.js';
import { callHash, canonicalJson, cleanText } from '../core/storable.js';
import { isWithdrawn, type StoppedTool } from '../core/tool-stop.js';
import { inWords } from '../core/words.js';
import type { Ids, Llm, LlmRequest, Log } from '../ports.js';
import { type Call, raceCall } from './calls.js';
import { countOnce } from './count-once.js';
import type { Embeddings } from './embeddings.js';
import type { Claimed } from './gaps.js';
import { type AskedRepetition, guardTurns, noticeOf, stopEarly, withhold } from './guard-turns.js';
import { type Opening, openRun } from './open-run.js';
import { type Answered, readSummary } from './read-summary.js';
import { accepted, type Judgement, verifyAnswer } from './verify-answer.js';

export interface LlmPerformance extends Judgement, Opening {
  agent: Agent;
  claim: Claimed;
  call: Call;
  llm: Llm;
  /** Seqs, by call hash, of this run's `once` calls that failed or are unknown. */
  unsettledOnce(callHashes: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Null: where no embedding model is configured. */
  embeddings: Embeddings | null;
  ids: Ids;
  log(): Log;
}

/** Tokens kept free for the answer where the agent names no maximum, as a share of the window. */
const answerShare = 0.1;
const adapterGraceMs = 500;

export async function performLlm(performance: LlmPerformance): Promise<Outcome> {
  const { agent, claim, call, llm } = performance;
  const early = await stopEarly(performance);
  if (early !== null) return early;
  const guard = guardLlmStep(claim.run, claim.now);
  if (!guard.go) return { kind: 'limit', reason: guard.reason };
  const turns = guardTurns(performance, guard.lastBecause, await alikeTurns(performance));
  if (!turns.go) return turns.outcome;
  const { lastBecause, repetition } = turns;
  const model = modelOf(performance);
  const rule = await windowRule(performance, model);
  const opened = await openRun(performance, await countTask(performance, model), rule);
  if (opened === null) return abortedCall(performance, null);
  const { history, state, brought } = opened;
  const trimmed = chooseWindow(history, state, rule);
  const isCut = brought === null && trimmed.windowFrom > state.windowFrom;
  const compaction = isCut ? dueCompaction(performance, history, rule, lastBecause) : null;
  const window = compaction?.shown ?? trimmed;
  const notice = compaction === null ? noticeOf(performance, turns) : agent.words.summarise(compaction.chars);
  const request = writeRequest(performance, model, window, notice, lastBecause === null);
  const timeoutMs = Math.min(call.remainingMs(), untilDeadline(claim));
  // The adapter keeps the deadline itself, and its answer says what the call cost; the race is for one that does not.
  const raced = await raceCall(call, timeoutMs > 0 ? timeoutMs + adapterGraceMs : 0, (stop) =>
    llm.complete({ ...request, timeoutMs: Math.max(1, timeoutMs) }, stop.signal),
  );
  const sent: Usage = { ...noUsage, ...weigh(performance, model, window.tokens, 0), estimated: true };
  const asked: Asked = { model, window, lastBecause, repetition, brought };
  if (raced.ended === 'aborted' || raced.ended === 'not_started') {
    return abortedCall(performance, raced.ended === 'aborted' ? sent : null);
  }
  const answered = answerOf(raced, agent, sent);
  if (compaction !== null) {
    const reserve = (promptTokens: number) => reserveOf(performance, model, promptTokens);
    const summary = readSummary({ claim, compaction, rule, reserveOf: reserve }, answered);
    if (summary !== null) return summary;
  }
  if ('reply' in answered) return readReply(performance, answered.reply, asked);
  const { failure } = answered;
  const budgetTokens = failure.class === 'overflow' ? budgetAfterOverflow(history, window, rule) : null;
  return failedCall(performance, failure, budgetTokens, asked);
}

/** Turns in a row that repeat others in other words; none where there is nothing to compare, or nothing to compare it by. */
async function alikeTurns({ agent, call, claim, embeddings }: LlmPerformance): Promise<readonly number[]> {
  if (embeddings === null || claim.run.finishingAs !== null) return [];
  return embeddings.alikeTurns(call, claim.messages, agent.loop);
}

/** A summary in the place of the turn, where turns would have to be left out without it. */
function dueCompaction(
  { agent, claim }: LlmPerformance,
  history: readonly StoredMessage[],
  rule: WindowRule,
  lastBecause: Reason | null,
): Compaction | null {
  const mayCompact = agent.context.summary && lastBecause === null && roomForSummary(claim.run);
  return mayCompact ? planCompaction(history, claim.run, rule) : null;
}

/** `spent`: null where nothing was sent. */
function abortedCall({ call }: LlmPerformance, spent: Usage | null): Outcome {
  const observation = { text: '', tokens: 0, full: null };
  return { kind: 'aborted', cause: call.cause ?? 'lost', started: spent !== null, usage: spent, observation };
}

function weigh({ llm }: LlmPerformance, model: string, inputTokens: number, outputTokens: number): Reserve {
  return { inputTokens, outputTokens, costUsd: costOf({ inputTokens, outputTokens }, llm.price(model)) };
}

function reserveOf(performance: LlmPerformance, model: string, inputTokens: number): Reserve {
  return weigh(performance, model, inputTokens, performance.agent.maxOutputTokens ?? answerTokens);
}

/** The models to ask, the preferred first; a run that was started with a model of its own has no other. */
function modelsOf({ agent, claim }: LlmPerformance): string[] {
  const { model, llmName } = claim.run;
  return model === null ? [agent.model ?? llmName, ...agent.fallbacks] : [model];
}

/** Once a run has fallen back it stays with that model: each step would pay for the failures of the others again. */
function modelOf(performance: LlmPerformance): string {
  const models = modelsOf(performance);
  const { llmName } = performance.claim.run;
  return models.includes(llmName) ? llmName : (models[0] ?? llmName);
}

/** Clients store the task uncounted; every other message carries its count, but for one said in other words than it was. */
async function countTask({ agent, claim, llm }: LlmPerformance, model: string): Promise<StoredMessage[]> {
  const history = inWords(claim.messages, agent.words);
  for (const [at, stored] of history.entries()) {
    if (stored.tokens === null) history[at] = { ...stored, tokens: await countOnce(llm, stored, model, taskOf) };
  }
  return history;
}

async function windowRule({ agent, claim, llm }: LlmPerformance, model: string): Promise<WindowRule> {
  const windowTokens = agent.context.windowTokens ?? llm.contextTokens(model);
  const { compactAt, compactTo, keepTurns } = agent.context;
  const budgetTokens = windowTokens - (agent.maxOutputTokens ?? Math.ceil(windowTokens * answerShare));
  return {
    budgetTokens: Math.min(budgetTokens, claim.run.budgetTokens ?? budgetTokens),
    fixedTokens: await countOnce(llm, agent, model, headOf),
    compactAt,
    compactTo,
    keepTurns,
    words: agent.words,
  };
}

const taskOf = (stored: StoredMessage) => [stored.message.content ?? ''];
const headOf = (agent: Agent) => [
  systemOf(agent),
  ...(agent.toolCalling === 'json' ? [] : agent.tools).map(({ name, description, parameters }) =>
    JSON.stringify({ name, description, parameters }),
  ),
  ...(agent.outputSchema === null ? [] : [JSON.stringify(agent.outputSchema)]),
];

function systemOf(agent: Agent): string {
  return agent.toolCalling === 'json' ? instructInJson(agent, agent.words) : agent.instructions;
}

function writeRequest(
  { agent }: LlmPerformance,
  model: string,
  window: Window,
  notice: string | null,
  mayCall: boolean,
): Omit<LlmRequest, 'timeoutMs'> {
  const inJson = agent.toolCalling === 'json';
  const messages = assemblePrompt(window, agent.words, notice);
  const tools = mayCall && !inJson ? agent.tools : [];
  return {
    model,
    system: systemOf(agent),
    messages: inJson ? historyInJson(messages, agent.words) : messages,
    tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    // A provider that holds the answer to a schema would not let a call through.
    outputSchema: inJson && mayCall && agent.tools.length > 0 ? null : agent.outputSchema,
    temperature: agent.temperature,
    maxOutputTokens: agent.maxOutputTokens,
  };
}

function untilDeadline(claim: Claimed): number {
  if (claim.run.deadlineAt === null || claim.run.limits.onLimit === 'suspend') return Number.POSITIVE_INFINITY;
  return claim.run.deadlineAt.getTime() - claim.now.getTime();
}

type RacedAnswer = Awaited<ReturnType<typeof raceCall<Awaited<ReturnType<Llm['complete']>>>>>;

/** `sent`: what a call costs at least that was sent and not answered, as an estimate. */
function answerOf(raced: RacedAnswer, agent: Agent, sent: Usage): Answered {
  const fault = (code: string, message: string): Answered => {
    const rest = { class: 'retryable', reason: 'attempts_exhausted', retryAfterMs: null, usage: sent } as const;
    return { failure: { ...rest, code, message } };
  };
  if (raced.ended === 'timeout') return fault('timeout', `the model did not answer within ${agent.llmTimeoutMs} ms`);
  if (raced.ended === 'threw') return fault('internal', 'the model adapter threw');
  if (raced.ended !== 'returned') throw new Error(`a model call that ended ${raced.ended} has no answer`);
  return raced.value.ok ? { reply: raced.value.reply } : { failure: raced.value.failure };
}

function failedCall(
  performance: LlmPerformance,
  failure: LlmFailure,
  budgetTokens: number | null,
  { model, window, lastBecause }: Asked,
): Outcome {
  const { agent, claim, ids, log } = performance;
  const { baseMs, capMs } = agent.retry;
  const attempt = claim.step.failures + 1;
  const models = modelsOf(performance);
  log().warn({ code: failure.code, class: failure.class }, 'the model call failed');
  return {
    kind: 'llm_failure',
    failure,
    retryInMs: retryDelayMs({ attempt, baseMs, capMs, retryAfterMs: failure.retryAfterMs, random: ids.random() }),
    budgetTokens,
    reserve: reserveOf(performance, model, window.tokens),
    lastBecause,
    models: { failed: model, next: models[models.indexOf(model) + 1] ?? null, first: models[0] ?? model },
  };
}

interface Asked {
  model: string;
  window: Window;
  lastBecause: Reason | null;
  repetition: AskedRepetition;
  brought: StoredMessage[] | null;
}

async function readReply(performance: LlmPerformance, sent: LlmReply, asked: Asked): Promise<Outcome> {
  const { agent, llm } = performance;
  const { reply, unreadable } = readCalls(agent, sent);
  const content = reply.content === null ? null : cleanText(reply.content);
  const given = asked.lastBecause === null ? reply.calls : [];
  if (given.length === 0 && (content ?? '').trim() === '') {
    const failure: LlmFailure = {
      class: 'retryable',
      code: 'invalid_response',
      message: 'the model answered with neither text nor a call it may make',
      reason: 'invalid_response',
      retryAfterMs: null,
      usage: reply.usage,
    };
    return failedCall(performance, failure, null, asked);
  }
  const calls = await planCalls(performance, given, asked);
  const answer =
    unreadable !== null
      ? ({ ok: false, fault: unreadable } as const)
      : calls.length === 0
        ? agent.checkOutput(content ?? '')
        : null;
  const verdict = answer?.ok === true ? await verifyAnswer(performance, answer.value, asked.brought) : accepted;
  if (verdict.is === 'aborted') return abortedCall(performance, reply.usage);
  if (verdict.is === 'unknown') return failedCall(performance, { ...verdict.failure, usage: reply.usage }, null, asked);
  const objection = answer !== null && !answer.ok ? answer.fault : verdict.objection;
  const said = [content ?? '', reply.reasoning ?? '', ...calls.map((call) => call.name + call.arguments)].join('');
  const [tokens = 0, objectionTokens = 0] = await llm.countTokens(asked.model, [said, objection ?? '']);
  return {
    kind: 'reply',
    content: answer?.ok ? answer.text : content,
    ...(reply.reasoning === undefined ? {} : { reasoning: cleanText(reply.reasoning) }),
    calls,
    lastBecause: asked.lastBecause,
    isJson: answer?.ok === true && agent.outputSchema !== null,
    objection: objection === null ? null : { text: objection, tokens: objectionTokens },
    usage: reply.usage,
    model: asked.model,
    tokens,
    window: { windowFrom: asked.window.windowFrom, digestBefore: asked.window.digestBefore },
    ...(asked.brought === null ? {} : { opening: asked.brought }),
    repetition: asked.repetition,
    // The provider's own count goes before ours where it is higher.
    reserve: reserveOf(performance, asked.model, Math.max(asked.window.tokens, reply.usage.inputTokens)),
  };
}

/** Of an agent whose model calls tools in its text, the calls taken out of it; or what is said of one that cannot be read. */
function readCalls(
  { toolCalling, tools, words }: Agent,
  reply: LlmReply,
): { reply: LlmReply; unreadable: string | null } {
  const plain = { reply, unreadable: null };
  if (toolCalling === 'native' || tools.length === 0) return plain;
  const read = readJsonCalls(reply.content ?? '');
  if (read.is === 'unreadable') return { reply, unreadable: words.jsonUnreadable(cleanText(read.problem)) };
  return read.is === 'answer' ? plain : { reply: { ...reply, content: null, calls: read.calls }, unreadable: null };
}

async function planCalls(
  performance: LlmPerformance,
  given: LlmReply['calls'],
  { model, repetition }: Asked,
): Promise<PlannedCall[]> {
  const { agent, claim, llm } = performance;
  const planned = given.map((call) => planCall(agent, claim, call));
  const goesOn = await goesOnWith(performance, planned, repetition);
  const calls = goesOn ? withhold(planned, agent.words) : planned;
  const faulty = calls.some((call) => call.fault !== null);
  const faults = faulty
    ? await llm.countTokens(
        model,
        calls.map((call) => call.fault?.text ?? ''),
      )
    : [];
  const once = calls.filter((call) => call.effect === 'once' && call.fault === null).map((call) => call.callHash);
  const identical = once.length === 0 ? new Map<string, number>() : await performance.unsettledOnce(once);
  return calls.map((call, index) => ({
    ...call,
    fault: call.fault === null ? null : { ...call.fault, tokens: faults[index] ?? 0 },
    identicalTo: call.effect === 'once' ? (identical.get(call.callHash) ?? null) : null,
  }));
}

/** Whether these calls go on with a repetition whose calls are withheld. */
async function goesOnWith(
  { agent, call, claim, embeddings }: LlmPerformance,
  planned: readonly CheckedCall[],
  repetition: AskedRepetition,
): Promise<boolean> {
  if (repetition?.rung !== 'withhold') return false;
  if (goesOn(claim.run.conduct, repetition, planned)) return true;
  if (embeddings === null || repetition.reworded !== true) return false;
  const { period } = repetition;
  return embeddings.sayTheSame(call, planned, { messages: claim.messages, period, likeness: agent.loop.likeness });
}

type CheckedCall = Omit<PlannedCall, 'identicalTo'>;

function planCall(agent: Agent, { run, stops }: Claimed, call: LlmReply['calls'][number]): CheckedCall {
  const tool = agent.tool(call.name);
  if (tool === undefined) {
    const text = faultyArguments(call.arguments);
    const name =
      cleanText(call.name)
        .replace(/[^a-zA-Z0-9_-]/g, '_')
        .slice(0, 64) || 'unnamed';
    const fault = agent.words.unknownTool(
      cleanText(call.name),
      agent.tools.map((known) => known.name),
    );
    const canonical = canonicalJson(JSON.parse(text));
    const rest = {
      effect: 'none',
      queue: 'tool',
      maxAttempts: 1,
      timeoutMs: 1,
      sequential: false,
      maxCalls: null,
    } as const;
    return {
      name,
      arguments: text,
      canonicalArguments: canonical,
      callHash: callHash(name, canonical),
      fault: { text: fault, tokens: 0 },
      ...rest,
    };
  }
  const parsed = tool.parse(call.arguments, agent.words);
  const { canonical } = parsed;
  return {
    name: tool.name,
    arguments: parsed.text,
    canonicalArguments: canonical,
    callHash: callHash(tool.name, canonical),
    effect: tool.effect,
    queue: tool.queue,
    maxAttempts: tool.attempts,
    timeoutMs: tool.timeoutMs,
    sequential: tool.sequential,
    maxCalls: tool.maxCalls,
    fault: refusalOf(agent, run.conduct, stops, tool.name) ?? (parsed.ok ? null : { text: parsed.fault, tokens: 0 }),
  };
}

/** Why a tool that exists is not called, whatever its arguments. */
function refusalOf(
  { name: agent, words }: Agent,
  conduct: Conduct | null,
  stops: readonly StoppedTool[],
  tool: string,
): CallFault | null {
  if (isWithdrawn(stops, agent, tool)) return { text: words.disabled(tool), tokens: 0, code: 'tool_disabled' };
  if (isDenied(conduct, tool)) return { text: words.closed(tool), tokens: 0, code: 'permission_denied' };
  return null;
}
