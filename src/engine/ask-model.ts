/**
 * What every LLM step has in common, whatever it asks for: which model, what it holds, the request, exactly one call under its
 * deadline, and the outcome of a call that failed or was cut short. What the answers mean is for perform-llm.ts, read-plan.ts,
 * read-summary.ts and reflect.ts.
 */
import { type Agent, answerTokens } from '../core/agent.js';
import { assemblePrompt, type Window, type WindowRule } from '../core/context.js';
import { historyInJson, instructInJson } from '../core/json-calls.js';
import type { StoredMessage } from '../core/message.js';
import type { LlmFailure, Outcome } from '../core/outcome.js';
import { retryDelayMs } from '../core/retry.js';
import { costOf, noUsage, type Reason, type Reserve, type Usage } from '../core/run.js';
import { inWords } from '../core/words.js';
import type { Ids, Llm, LlmRequest, Log } from '../ports.js';
import { type Call, raceCall } from './calls.js';
import { countOnce } from './count-once.js';
import type { Claimed } from './gaps.js';
import type { Answered } from './read-summary.js';

/** An LLM step, and what asking a model takes. */
export interface Asking {
  agent: Agent;
  claim: Claimed;
  call: Call;
  llm: Llm;
  ids: Ids;
  log(): Log;
}

/** What a request wants: calls of tools, the answer to the task. */
export interface Wanted {
  mayCall: boolean;
  isAnswer: boolean;
}

/** Tokens kept free for the answer where the agent names no maximum, as a share of the window. */
const answerShare = 0.1;
const adapterGraceMs = 500;

/** Makes the one call of the step, with the window as it is and `notice` at its end. */
export async function askModel(
  performance: Asking,
  { model, window, notice, wanted }: { model: string; window: Window; notice: string | null; wanted: Wanted },
): Promise<Answered | { aborted: Outcome }> {
  const { agent, claim, call, llm } = performance;
  const request = writeRequest(performance, model, window, notice, wanted);
  const timeoutMs = Math.min(call.remainingMs(), untilDeadline(claim));
  // The adapter keeps the deadline itself, and its answer says what the call cost; the race is for one that does not.
  const raced = await raceCall(call, timeoutMs > 0 ? timeoutMs + adapterGraceMs : 0, (stop) =>
    llm.complete({ ...request, timeoutMs: Math.max(1, timeoutMs) }, stop.signal),
  );
  const sent: Usage = { ...noUsage, ...weigh(performance, model, window.tokens, 0), estimated: true };
  if (raced.ended === 'aborted' || raced.ended === 'not_started') {
    return { aborted: abortedCall(performance, raced.ended === 'aborted' ? sent : null) };
  }
  return answerOf(raced, agent, sent);
}

/** `spent`: null where nothing was sent. */
export function abortedCall({ call }: Asking, spent: Usage | null): Outcome {
  const observation = { text: '', tokens: 0, full: null };
  return { kind: 'aborted', cause: call.cause ?? 'lost', started: spent !== null, usage: spent, observation };
}

function weigh({ llm }: Asking, model: string, inputTokens: number, outputTokens: number): Reserve {
  return { inputTokens, outputTokens, costUsd: costOf({ inputTokens, outputTokens }, llm.price(model)) };
}

export function reserveOf(performance: Asking, model: string, inputTokens: number): Reserve {
  return weigh(performance, model, inputTokens, performance.agent.maxOutputTokens ?? answerTokens);
}

/** The models to ask, the preferred first; a run that was started with a model of its own has no other. */
function modelsOf({ agent, claim }: Asking): string[] {
  const { model, llmName } = claim.run;
  return model === null ? [agent.model ?? llmName, ...agent.fallbacks] : [model];
}

/** Once a run has fallen back it stays with that model: each step would pay for the failures of the others again. */
export function modelOf(performance: Asking): string {
  const models = modelsOf(performance);
  const { llmName } = performance.claim.run;
  return models.includes(llmName) ? llmName : (models[0] ?? llmName);
}

/** Clients store the task uncounted; every other message carries its count, but for one said in other words than it was. */
export async function countTask({ agent, claim, llm }: Asking, model: string): Promise<StoredMessage[]> {
  const history = inWords(claim.messages, agent.words);
  for (const [at, stored] of history.entries()) {
    if (stored.tokens === null) history[at] = { ...stored, tokens: await countOnce(llm, stored, model, taskOf) };
  }
  return history;
}

/** What a prompt may hold: the window without what is kept free for the answer. */
export function budgetOf({ agent, claim, llm }: Pick<Asking, 'agent' | 'claim' | 'llm'>, model: string): number {
  const windowTokens = agent.context.windowTokens ?? llm.contextTokens(model);
  const budgetTokens = windowTokens - (agent.maxOutputTokens ?? Math.ceil(windowTokens * answerShare));
  return Math.min(budgetTokens, claim.run.budgetTokens ?? budgetTokens);
}

export async function windowRule(performance: Asking, model: string): Promise<WindowRule> {
  const { agent, llm } = performance;
  const { compactAt, compactTo, keepTurns } = agent.context;
  return {
    budgetTokens: budgetOf(performance, model),
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
  { agent }: Asking,
  model: string,
  window: Window,
  notice: string | null,
  { mayCall, isAnswer }: Wanted,
): Omit<LlmRequest, 'timeoutMs'> {
  const inJson = agent.toolCalling === 'json';
  const messages = assemblePrompt(window, agent.words, notice);
  const tools = mayCall && !inJson ? agent.tools : [];
  return {
    model,
    system: systemOf(agent),
    messages: inJson ? historyInJson(messages, agent.words) : messages,
    tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    // A provider that holds the answer to a schema would let neither a call through nor a text that is no answer.
    outputSchema: !isAnswer || (inJson && mayCall && agent.tools.length > 0) ? null : agent.outputSchema,
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

export function failedCall(
  performance: Asking,
  failure: LlmFailure,
  budgetTokens: number | null,
  { model, window, lastBecause }: { model: string; window: Window; lastBecause: Reason | null },
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
