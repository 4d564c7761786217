/**
 * What is looked at before an LLM step spends anything, beside the limits: whether the agent's `stopWhen` has what it wants,
 * whether the breaker is open, and whether the run repeats itself. The rules are core/loop.ts; this puts them to work.
 */
import type { Agent, StopLook } from '../core/agent.js';
import { isSummary } from '../core/context.js';
import { describeThrown } from '../core/errors.js';
import { turnsLeft } from '../core/limits.js';
import { brokenBy, findRepetition } from '../core/loop.js';
import type { StoredMessage, ToolCall } from '../core/message.js';
import type { Outcome, PlannedCall } from '../core/outcome.js';
import type { Reason } from '../core/run.js';
import type { Words } from '../core/words.js';
import type { Log } from '../ports.js';
import { type Call, raceCall } from './calls.js';
import type { Claimed } from './gaps.js';

/** What is looked at: a claimed LLM step, before it is performed. */
export interface Look {
  agent: Agent;
  claim: Claimed;
  call: Call;
  log(): Log;
}

export type AskedRepetition = Extract<Outcome, { kind: 'reply' }>['repetition'];

export type TurnsGuard =
  | { go: true; lastBecause: Reason | null; repetition: AskedRepetition }
  | { go: false; outcome: Outcome };

/** How long code of the user's may take to look at a run. */
const lookTimeoutMs = 5_000;

/**
 * `lastBecause`: the limit that makes this call the last already; then nothing is repeated any more. `alike`: what
 * findRepetition is told of calls in other words.
 */
export function guardTurns({ agent, claim }: Look, lastBecause: Reason | null, alike: readonly number[]): TurnsGuard {
  const { conduct, limits } = claim.run;
  if (lastBecause !== null) return { go: true, lastBecause, repetition: null };
  const broken = brokenBy(conduct, agent.loop);
  if (broken !== null) {
    const message = `every tool call of ${broken.turns} turns in a row failed; the last error: ${broken.lastError}`;
    return { go: false, outcome: { kind: 'stop', reason: 'breaker_open', error: { code: 'breaker_open', message } } };
  }
  const found = findRepetition(conduct, agent.loop, alike);
  if (found === null) return { go: true, lastBecause: null, repetition: null };
  const tools = [...new Set(lastTurn(claim.messages).calls.map((call) => call.name))];
  if (found.rung === 'answer' && limits.onLimit === 'fail') {
    const message = `the model asked for the same for ${found.turns} turns in a row (${tools.join(', ')})`;
    return { go: false, outcome: { kind: 'stop', reason: 'loop_detected', error: { code: 'loop_detected', message } } };
  }
  return {
    go: true,
    lastBecause: found.rung === 'answer' ? 'loop_detected' : null,
    repetition: { ...found, tools },
  };
}

/** Turns before a limit in which the model is told how many are left. */
const lastTurns = 2;

/**
 * Pawl's word at the end of the request, where it changes nothing of the head that a provider has cached: the limit that
 * makes this the last call, a repetition, how many turns are left.
 */
export function noticeOf(
  { agent: { words, tools }, claim: { run } }: Pick<Look, 'agent' | 'claim'>,
  { lastBecause, repetition }: { lastBecause: Reason | null; repetition: AskedRepetition },
): string | null {
  if (lastBecause !== null) return words.lastTurn(lastBecause);
  const left = turnsLeft(run);
  const notices = [
    ...(repetition === null ? [] : [words.repeats(repetition)]),
    ...(tools.length === 0 || left > lastTurns ? [] : [words.turnsLeft(left, run.limits.onLimit)]),
  ];
  return notices.length === 0 ? null : notices.join('\n\n');
}

/** Calls that go on with a repetition the model was told of, not to be executed. */
export function withhold<Planned extends Pick<PlannedCall, 'name' | 'fault'>>(
  calls: readonly Planned[],
  words: Words,
): Planned[] {
  return calls.map((call) =>
    call.fault === null ? { ...call, fault: { text: words.withheld(call.name), tokens: 0, code: 'withheld' } } : call,
  );
}

/** Asks `stopWhen` of each call of the last turn that succeeded. One that fails or takes too long has not said yes. */
export async function stopEarly({ agent, claim, call, log }: Look): Promise<Outcome | null> {
  const { stopWhen } = agent;
  if (stopWhen === null || claim.run.finishingAs !== null) return null;
  for (const lastToolResult of succeeded(claim.messages)) {
    const look: StopLook = { lastToolResult, usage: claim.run.usage };
    const raced = await raceCall(call, Math.min(lookTimeoutMs, call.remainingMs()), () => stopWhen(look));
    if (raced.ended === 'threw') log().warn({ cause: describeThrown(raced.thrown) }, 'stopWhen threw; the run goes on');
    if (raced.ended === 'timeout') log().warn({ lookTimeoutMs }, 'stopWhen took too long; the run goes on');
    if (raced.ended !== 'returned' || raced.value !== true) continue;
    const answer = agent.checkOutput(lastToolResult.text);
    const isJson = answer.ok && agent.outputSchema !== null;
    return { kind: 'stop_early', output: isJson ? answer.text : lastToolResult.text, isJson };
  }
  return null;
}

function succeeded(messages: readonly StoredMessage[]): StopLook['lastToolResult'][] {
  const { calls, results } = lastTurn(messages);
  return calls.flatMap(({ id, name, arguments: given }) => {
    const result = results.get(id);
    if (result === undefined || result.error !== undefined) return [];
    return [{ name, arguments: JSON.parse(given) as unknown, text: result.content, value: asValue(result.content) }];
  });
}

function lastTurn(messages: readonly StoredMessage[]) {
  const seq = messages.reduce((last, stored) => (isSummary(stored) ? last : Math.max(last, stored.seq)), 0);
  const calls: ToolCall[] = [];
  const results = new Map<string, { content: string; error?: string }>();
  for (const { seq: at, message } of messages) {
    if (at !== seq) continue;
    if (message.role === 'assistant') calls.push(...message.toolCalls);
    if (message.role === 'tool') results.set(message.callId, message);
  }
  return { calls, results };
}

/** The text's value where it is JSON, else the text. */
export function asValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
