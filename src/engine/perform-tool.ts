/**
 * Performs a tool step: exactly one call of the tool, or, for a `once` call whose fate is not known, of what its definition
 * says to do about that. Everything a tool can return, throw or fail to do has its outcome here; nothing is thrown.
 */
import type { Agent } from '../core/agent.js';
import type { ParsedArguments } from '../core/arguments.js';
import { isDenied } from '../core/conduct.js';
import { describeThrown } from '../core/errors.js';
import { type KnownFact, type NewFact, readFacts } from '../core/fact.js';
import { hash } from '../core/hash.js';
import type { Outcome, StorableText } from '../core/outcome.js';
import { planRoom, readPlan, updatePlanName } from '../core/plan.js';
import { countCharacters, type OutputPage, type PageAsked, readPageAsked, tellPage } from '../core/read-output.js';
import { retryDelayMs } from '../core/retry.js';
import type { StepState } from '../core/step.js';
import { canonicalJson, cleanText, cutMiddle, toStorableText } from '../core/storable.js';
import { readToolMark, type Tool, type ToolContext } from '../core/tool.js';
import { isWithdrawn } from '../core/tool-stop.js';
import type { Ids, Llm, Log, Store } from '../ports.js';
import { budgetOf } from './ask-model.js';
import { type Call, raceCall, raceTime, type Stop } from './calls.js';
import type { Claimed } from './gaps.js';
import type { ToolHealth } from './tool-health.js';

export interface ToolPerformance {
  agent: Agent;
  claim: Claimed;
  call: Call;
  llm: Llm;
  /** A page of an output of the run; `stopping`: the worker stops before the database answers. */
  readOutput(page: PageAsked): Promise<OutputPage | null | 'stopping'>;
  /** Of tools with `cacheMs`. */
  results: Pick<Store, 'keptResult' | 'keepResult'>;
  /** Facts the run may see. Throws where the database does not answer. */
  recall(query: string, most: number): Promise<KnownFact[]>;
  health: Pick<ToolHealth, 'mayCall' | 'wentWell' | 'worksAgain' | 'failed'>;
  ids: Ids;
  log(): Log;
}

export async function performTool(performance: ToolPerformance): Promise<Outcome> {
  const { agent, claim } = performance;
  const tool = agent.tool(claim.step.name);
  if (tool === undefined)
    return failed(performance, 'unknown_tool', agent.words.unknownTool(claim.step.name, []), { retry: false });
  if (!claim.step.unknown && isDenied(claim.run.conduct, tool.name)) {
    return failed(performance, 'permission_denied', agent.words.closed(tool.name, mayHaveActed(claim.step)), {
      retry: false,
    });
  }
  if (!claim.step.unknown && isWithdrawn(claim.stops, agent.name, tool.name)) {
    return failed(performance, 'tool_disabled', agent.words.disabled(tool.name, mayHaveActed(claim.step)), {
      retry: false,
    });
  }
  const parsed = tool.parse(claim.step.input ?? '{}', agent.words);
  if (!parsed.ok) return failed(performance, 'invalid_arguments', parsed.fault, { retry: false });
  if (tool.builtIn) {
    return tool.name === updatePlanName
      ? updatePlan(performance, tool, parsed.args)
      : readOutput(performance, tool, parsed.args);
  }
  return claim.step.unknown ? settleUnknown(performance, tool, parsed) : execute(performance, tool, parsed);
}

/** Of an attempt before this one nobody knows for sure that it did nothing. */
function mayHaveActed({ attempt, effect }: StepState): boolean {
  return attempt > 1 && effect !== 'none';
}

async function readOutput(performance: ToolPerformance, tool: Tool, args: unknown): Promise<Outcome> {
  const asked = readPageAsked(args);
  const page = await performance.readOutput(asked);
  if (page === 'stopping') return aborted(performance, false);
  const read = tellPage(asked, page, performance.agent.words);
  if (!read.ok) return failed(performance, 'no_output', read.text, { retry: false });
  return { kind: 'tool_value', value: await storable(performance, tool, read.text) };
}

/** Puts another plan in the place of the run's: it is kept with the call's result. */
async function updatePlan(performance: ToolPerformance, tool: Tool, args: unknown): Promise<Outcome> {
  const { agent, claim } = performance;
  const { words, language } = agent;
  const room = planRoom(budgetOf(performance, modelOf(agent, claim)), language);
  const given = cleanText((args as { plan: string }).plan);
  const plan = readPlan(given, room);
  // A plan of which a part would be left out is for the model to shorten.
  if (plan === null || plan !== readPlan(given, { ...room, tokens: Number.POSITIVE_INFINITY })) {
    return failed(performance, 'no_plan', words.planUnusable(room.chars), { retry: false });
  }
  return { kind: 'tool_value', value: await storable(performance, tool, words.planReplaced()), plan };
}

type Parsed = Extract<ParsedArguments, { ok: true }>;

async function execute(performance: ToolPerformance, tool: Tool, parsed: Parsed): Promise<Outcome> {
  const { agent, call } = performance;
  const { args, reasoning } = parsed;
  const objection = await objectionOf(performance, tool, { args, reasoning });
  if (objection !== null) return objection;
  const key = tool.cacheMs === 0 ? null : keptUnder(performance, tool, parsed.canonical);
  const kept = key === null ? null : await keptResult(performance, key);
  if (kept !== null) return { kind: 'tool_value', value: await storable(performance, tool, kept), note: 'cache' };
  const recalled = { yes: false };
  const { claim, health } = performance;
  const healthOf = { agent: agent.name, tool, runId: claim.run.id };
  const may = claim.stops.length === 0 ? 'yes' : await health.mayCall(healthOf, claim.stops);
  if (may === 'no') {
    const text = agent.words.outOfOrder(tool.name, mayHaveActed(claim.step));
    return failed(performance, 'tool_out', text, { retry: false });
  }
  const raced = await raceCall(call, call.remainingMs(), (stop) =>
    tool.execute(args, contextOf(performance, stop, { reasoning, recalled })),
  );
  if (raced.ended === 'returned' || raced.ended === 'threw' || raced.ended === 'timeout') {
    if (isAnswer(raced)) health.wentWell(healthOf);
    else if (claim.step.failures + 1 >= claim.step.maxAttempts) await health.failed(healthOf);
    if (may === 'trial' && isAnswer(raced)) await health.worksAgain(healthOf);
  }
  const tries = performance.claim.step.failures + 1;
  const once = tool.effect === 'once';
  // A trial of a tool that is out of order is one call.
  const retry = may !== 'trial';
  switch (raced.ended) {
    case 'returned': {
      const mark = readToolMark(raced.value);
      if (mark !== null) return marked(performance, tool, mark);
      const value = await storable(performance, tool, raced.value);
      // What was recalled may be for this thread or this moment alone.
      if (key !== null && !recalled.yes) await keepResult(performance, tool, key, value.full ?? value.text);
      const facts = recalled.yes ? [] : await factsOf(performance, tool, args, raced.value);
      return { kind: 'tool_value', value, ...(facts.length === 0 ? {} : { facts }) };
    }
    case 'threw': {
      const mark = readToolMark(raced.thrown);
      if (mark !== null) return marked(performance, tool, mark);
      const message = messageOf(raced.thrown);
      if (once) return { kind: 'tool_unknown', code: 'threw', message };
      return failed(performance, 'threw', agent.words.toolThrew(tool.name, message, tries), { retry, message });
    }
    case 'timeout':
      if (once) return { kind: 'tool_unknown', code: 'timeout', message: lateBy(tool) };
      return failed(performance, 'timeout', agent.words.toolTimedOut(tool.name, tool.timeoutMs, tries), {
        retry,
        message: lateBy(tool),
      });
    case 'not_started':
    case 'aborted':
      return aborted(performance, raced.ended === 'aborted');
  }
}

/** How long code of the user's may take to find facts in a result. */
const extractTimeoutMs = 5_000;

/**
 * The facts in a result: none where they cannot be told, for the call itself has succeeded. Whatever cuts calls short comes too
 * late for it: its result is recorded, and its facts with it, unless its worker stops before they are told.
 */
async function factsOf(performance: ToolPerformance, tool: Tool, args: unknown, result: unknown): Promise<NewFact[]> {
  const { call, claim, log } = performance;
  const { extractFacts } = tool;
  if (extractFacts === null) return [];
  const { tenant, threadId } = claim.run;
  const raced = await raceTime(call, extractTimeoutMs, () =>
    extractFacts({ name: tool.name, args, tenant, threadId }, result),
  );
  try {
    if (raced.ended === 'returned') return readFacts(raced.value, claim.run);
    throw raced.ended === 'threw' ? raced.thrown : new Error('no answer within its time');
  } catch (error) {
    log().warn(
      { tool: tool.name, cause: describeThrown(error) },
      'extractFacts failed: no facts are kept of this call',
    );
  }
  return [];
}

/** Whether the tool works, whatever it said: a refusal of permission is an answer, and notStarted is none. */
function isAnswer(
  raced: { ended: 'returned'; value: unknown } | { ended: 'threw'; thrown: unknown } | { ended: 'timeout' },
) {
  if (raced.ended === 'timeout') return false;
  const mark = readToolMark(raced.ended === 'returned' ? raced.value : raced.thrown);
  return mark === null ? raced.ended === 'returned' : mark.kind === 'permission_denied';
}

/** By what a result is found again: whatever the call could depend on. */
function keptUnder({ agent, claim }: ToolPerformance, tool: Tool, canonicalArguments: string): string {
  const { name, description, parameters } = tool;
  const what = [agent.name, agent.version, name, description, canonicalJson(parameters), canonicalArguments];
  return hash([claim.run.tenant, ...what]);
}

/** Neither a result that cannot be looked up nor one that cannot be kept is a fault of the call. */
async function keptResult({ results, log }: ToolPerformance, key: string): Promise<string | null> {
  try {
    return await results.keptResult(key);
  } catch (error) {
    log().warn({ cause: describeThrown(error) }, 'the kept results do not answer; the tool is called');
    return null;
  }
}

async function keepResult({ results, log }: ToolPerformance, tool: Tool, key: string, body: string): Promise<void> {
  try {
    await results.keepResult(key, body, tool.cacheMs);
  } catch (error) {
    log().warn({ tool: tool.name, cause: describeThrown(error) }, 'the result could not be kept for other calls');
  }
}

/** What the tool's own check says before it acts: nothing was done then, whatever the tool's effect. */
async function objectionOf(
  performance: ToolPerformance,
  tool: Tool,
  { args, reasoning }: Pick<Parsed, 'args' | 'reasoning'>,
): Promise<Outcome | null> {
  const { agent, call } = performance;
  const { check } = tool;
  if (check === null) return null;
  const raced = await raceCall(call, call.remainingMs(), (stop) =>
    check(args, contextOf(performance, stop, { reasoning })),
  );
  switch (raced.ended) {
    case 'returned': {
      const objection: unknown = raced.value;
      if (objection === undefined || objection === null) return null;
      const text = agent.words.objectedTo(tool.name, messageOf(objection));
      return failed(performance, 'objection', text, { retry: false });
    }
    case 'threw': {
      const mark = readToolMark(raced.thrown);
      if (mark !== null) return marked(performance, tool, mark);
      const message = messageOf(raced.thrown);
      const text = agent.words.toolThrew(tool.name, message, performance.claim.step.failures + 1);
      return failed(performance, 'threw', text, { retry: true, message });
    }
    case 'timeout': {
      const text = agent.words.toolTimedOut(tool.name, tool.timeoutMs, performance.claim.step.failures + 1);
      return failed(performance, 'timeout', text, { retry: true, message: lateBy(tool) });
    }
    case 'not_started':
    case 'aborted':
      return aborted(performance, false);
  }
}

async function aborted(performance: ToolPerformance, started: boolean): Promise<Outcome> {
  const { agent, call } = performance;
  const text = agent.words.notExecuted('deadline');
  return {
    kind: 'aborted',
    cause: call.cause ?? 'lost',
    started,
    usage: null,
    observation: await observation(performance, text),
  };
}

/** `onUnknown` may be asked more than once, and `execute` is never: an answer that fails is a question for an operator. */
async function settleUnknown(performance: ToolPerformance, tool: Tool, { args, reasoning }: Parsed): Promise<Outcome> {
  const { agent, call, log } = performance;
  const { onUnknown } = tool;
  let answer = typeof onUnknown === 'function' ? 'ask' : onUnknown;
  if (typeof onUnknown === 'function') {
    const raced = await raceCall(call, call.remainingMs(), (stop) =>
      onUnknown({ args, context: contextOf(performance, stop, { reasoning }) }),
    );
    if (raced.ended === 'aborted' || raced.ended === 'not_started') return aborted(performance, false);
    if (raced.ended === 'threw')
      log().warn({ cause: describeThrown(raced.thrown) }, 'onUnknown threw; an operator is asked');
    if (raced.ended === 'returned') {
      const found: unknown = raced.value;
      if (found === 'tell') answer = 'tell';
      if (typeof found === 'object' && found !== null) {
        if ('done' in found) return { kind: 'tool_value', value: await storable(performance, tool, found.done) };
        if ('failed' in found) {
          const message = messageOf(found.failed);
          const text = agent.words.resolvedFailed(tool.name, message);
          return { kind: 'unknown_settled', observation: await observation(performance, text) };
        }
      }
    }
  }
  if (answer === 'ask') return { kind: 'unknown_settled', observation: null };
  return { kind: 'unknown_settled', observation: await observation(performance, agent.words.unknownFate(tool.name)) };
}

async function marked(
  performance: ToolPerformance,
  tool: Tool,
  mark: { kind: 'permission_denied' | 'not_started'; message: string },
): Promise<Outcome> {
  const { words } = performance.agent;
  const message = messageOf(mark.message);
  if (mark.kind === 'permission_denied') {
    return failed(performance, 'permission_denied', words.permissionDenied(tool.name, message), { retry: false });
  }
  return failed(performance, 'not_started', words.notStarted(tool.name, message), { retry: true });
}

function lateBy(tool: Tool): string {
  return `no answer within ${tool.timeoutMs} ms`;
}

async function failed(
  performance: ToolPerformance,
  code: string,
  text: string,
  { retry, message }: { retry: boolean; message?: string },
): Promise<Outcome> {
  const { agent, claim, ids } = performance;
  const { baseMs, capMs } = agent.retry;
  const attempt = claim.step.failures + 1;
  return {
    kind: 'tool_failure',
    code,
    observation: await observation(performance, text),
    ...(message === undefined ? {} : { message }),
    retry,
    retryInMs: retryDelayMs({ attempt, baseMs, capMs, retryAfterMs: null, random: ids.random() }),
  };
}

async function storable(performance: ToolPerformance, tool: Tool, value: unknown): Promise<StorableText> {
  const { words } = performance.agent;
  const { seq: step } = performance.claim.step;
  const { text, full } = toStorableText(value, tool.maxOutputChars, words, ({ head, out }) =>
    words.cutOutput({ chars: countCharacters(out), step, offset: countCharacters(head) }),
  );
  return { ...(await observation(performance, text === '' ? words.emptyResult() : text)), full };
}

async function observation({ llm, agent, claim }: ToolPerformance, text: string): Promise<StorableText> {
  const [tokens = 0] = await llm.countTokens(modelOf(agent, claim), [text]);
  return { text, tokens, full: null };
}

/** What a tool threw or said, fit to be stored: else the record would be refused and its retry, or its question, lost. */
function messageOf(thrown: unknown): string {
  return cutMiddle(cleanText(describeThrown(thrown)), 2_000);
}

function modelOf(agent: Agent, claim: Claimed): string {
  return claim.run.model ?? agent.model ?? claim.run.llmName;
}

function contextOf(
  { claim, recall, log }: ToolPerformance,
  stop: Stop,
  { reasoning, recalled = { yes: false } }: { reasoning?: unknown; recalled?: { yes: boolean } },
): ToolContext {
  const { run, step } = claim;
  return {
    runId: run.id,
    stepSeq: step.seq,
    attempt: step.attempt,
    idempotencyKey: step.idempotencyKey ?? '',
    get signal() {
      return stop.signal;
    },
    get log() {
      return log();
    },
    tenant: run.tenant,
    threadId: run.threadId,
    reasoning,
    recall: (query, most) => {
      recalled.yes = true;
      return recall(String(query), most);
    },
  };
}
