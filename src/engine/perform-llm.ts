/**
 * Performs an LLM step: the guard, the window, exactly one model call, and the reading of its reply into checked calls or
 * a checked answer. Ids a provider gives to calls are dropped here: a call's identity is its run and seq.
 */
import type { Agent } from '../core/agent.js';
import { faultyArguments } from '../core/arguments.js';
import { type Compaction, planCompaction } from '../core/compact.js';
import { type Conduct, isDenied } from '../core/conduct.js';
import { budgetAfterOverflow, chooseWindow, type Window, type WindowMoved, type WindowRule } from '../core/context.js';
import { readJsonCalls } from '../core/json-calls.js';
import { guardLlmStep, roomForSummary } from '../core/limits.js';
import { goesOn } from '../core/loop.js';
import type { StoredMessage } from '../core/message.js';
import type { CallFault, LlmFailure, LlmReply, Outcome, PlannedCall } from '../core/outcome.js';
import { answerToJudge } from '../core/reflect.js';
import type { Reason } from '../core/run.js';
import { callHash, canonicalJson, cleanText } from '../core/storable.js';
import { isWithdrawn, type StoppedTool } from '../core/tool-stop.js';
import {
  type Asking,
  abortedCall,
  askModel,
  countTask,
  failedCall,
  modelOf,
  reserveOf,
  windowRule,
} from './ask-model.js';
import type { Embeddings } from './embeddings.js';
import type { Claimed } from './gaps.js';
import { type AskedRepetition, guardTurns, noticeOf, stopEarly, withhold } from './guard-turns.js';
import { type Opening, openRun } from './open-run.js';
import { askForPlan, type DuePlan, readPlanReply } from './read-plan.js';
import { readSummary } from './read-summary.js';
import { reflect } from './reflect.js';
import { accepted, type Judgement, verifyAnswer } from './verify-answer.js';

export interface LlmPerformance extends Asking, Judgement, Opening {
  /** Seqs, by call hash, of this run's `once` calls that failed or are unknown. */
  unsettledOnce(callHashes: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Null: where no embedding model is configured. */
  embeddings: Embeddings | null;
}

export async function performLlm(performance: LlmPerformance): Promise<Outcome> {
  const { agent, claim } = performance;
  const answer = agent.mode.is === 'reflect' ? answerToJudge(claim.messages) : null;
  if (agent.mode.is === 'reflect' && answer !== null) return reflect(performance, agent.mode, answer);
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
  const plan = duePlan(performance, rule, lastBecause);
  const window = compaction?.shown ?? trimmed;
  const notice =
    plan?.notice ?? (compaction === null ? noticeOf(performance, turns) : agent.words.summarise(compaction.chars));
  const wanted = { mayCall: lastBecause === null && plan === null, isAnswer: plan === null && compaction === null };
  const answered = await askModel(performance, { model, window, notice, wanted });
  if ('aborted' in answered) return answered.aborted;
  const reserve = (promptTokens: number) => reserveOf(performance, model, promptTokens);
  const instead =
    plan !== null
      ? readPlanReply({ agent, room: plan.room, window, brought, reserveOf: reserve }, answered)
      : compaction !== null
        ? readSummary({ claim, compaction, rule, reserveOf: reserve }, answered)
        : null;
  if (instead !== null) return instead;
  const asked: Asked = { model, window, lastBecause, repetition, brought };
  if ('reply' in answered) return readReply(performance, answered.reply, asked);
  const { failure } = answered;
  const budgetTokens = failure.class === 'overflow' ? budgetAfterOverflow(history, window, rule) : null;
  return failedCall(performance, failure, budgetTokens, asked);
}

/** A plan in the place of the first turn. */
function duePlan({ agent, claim }: LlmPerformance, rule: WindowRule, lastBecause: Reason | null): DuePlan | null {
  const isDue = agent.mode.is === 'plan' && claim.step.seq === 1 && lastBecause === null && roomForSummary(claim.run);
  return isDue ? askForPlan(agent, rule) : null;
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
    window: movedTo(asked.window),
    ...(asked.brought === null ? {} : { opening: asked.brought }),
    repetition: asked.repetition,
    ...(agent.mode.is === 'reflect' ? { reflect: { rounds: agent.mode.rounds } } : {}),
    // The provider's own count goes before ours where it is higher.
    reserve: reserveOf(performance, asked.model, Math.max(asked.window.tokens, reply.usage.inputTokens)),
  };
}

function movedTo({ windowFrom, digestBefore, plan }: Window): WindowMoved {
  return { windowFrom, digestBefore, ...(plan === undefined ? {} : { plan }) };
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
