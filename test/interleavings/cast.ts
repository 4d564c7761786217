/**
 * Who plays: agents whose runs have few steps and a known answer, on tools that keep what they did. Each worker's place has
 * agents of its own, defined once, since to define one takes longer than to play.
 */
import { type Agent, defineAgent } from '../../src/core/agent.js';
import type { Message } from '../../src/core/message.js';
import { crashLimit } from '../../src/core/step.js';
import { defineTool, type ToolContext } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';
import type { Llm, LlmRequest } from '../../src/ports.js';

/** The world outside in one play. */
export interface Outside {
  /** A call that has its turn of the scheduler, made by whoever holds the place now. */
  act<T>(place: number, what: string, act: () => T): Promise<T>;
  /** Whoever holds the place dies. */
  die(place: number): void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** What was done, in order. */
  effects: Effect[];
}

export interface Effect {
  tool: string;
  runId: string;
  seq: number;
  key: string;
}

/** Any number above the crashes and failures that a play has faults for. */
const attempts = 9;
/** Turns by the task of the run, and how long each tool takes. */
export const tasks: Record<string, readonly (readonly string[])[]> = {
  fan: [['look', 'look', 'pay']],
  row: [['step', 'step']],
  pay: [['pay'], ['look']],
  long: [['look'], ['step', 'look']],
  short: [],
  // Takes its process down.
  mine: [['mine', 'look']],
  // Fails for good.
  fail: [['fail'], ['look']],
  // Outgrows its window.
  tall: Array.from({ length: 8 }, () => ['read']),
};
const takesMs: Record<string, number> = { look: 700, step: 400, pay: 900, read: 200 };
/** Calls of a mine that are the last of their process: the step is dead by then, and an operator has it tried again. */
const mineKills = 1 + crashLimit;
const failAttempts = 3;
const failure = 'it is broken';
/** What makes a history tall: a line would not halve it, so it is not shortened. */
const padding = '.'.repeat(300);
const context = { windowTokens: 3_600, keepTurns: 1 };

let outside: Outside | null = null;

/** From now on it is this play's. */
export function enter(world: Outside): void {
  outside = world;
}

/** Agents as the worker in that place has them. */
export function agentsOf(place: number): Agent[] {
  const done = async (tool: string, { runId, stepSeq, idempotencyKey, signal }: ToolContext) => {
    const world = outside;
    if (world === null) throw new Error('there is no play');
    await world.act(place, `${tool} begins`, () => {
      world.effects.push({ tool, runId, seq: stepSeq, key: idempotencyKey });
      const calls = world.effects.filter((effect) => effect.runId === runId && effect.seq === stepSeq).length;
      if (tool === 'mine' && calls <= mineKills) world.die(place);
    });
    await world.sleep(takesMs[tool] ?? 0, signal);
    if (tool === 'fail') throw new Error(failure);
    return tool === 'read' ? `${resultOf(tool)}${padding}` : resultOf(tool);
  };
  const tool = (name: string, rest: { effect: 'idempotent' | 'once'; sequential?: boolean }) =>
    defineTool({
      name,
      description: 'does it',
      ...(rest.effect === 'once' ? { timeoutMs: 6_000 } : { attempts }),
      // It says a fact, which is looked for when the call may be too late already.
      ...(name === 'look' ? { timeoutMs: 3_000, extractFacts: () => [{ key: name, value: 'done' }] } : {}),
      // Nothing but its throws ends a call of it.
      ...(name === 'fail' ? { attempts: failAttempts, timeoutMs: 600_000 } : {}),
      ...rest,
      execute: (_, context) => done(name, context),
    });
  const agent = defineAgent({
    name: 'helper',
    instructions: 'Help.',
    model: 'scripted',
    retry: { attempts, baseMs: 500, capMs: 2_000 },
    limits: { deadlineMs: 3_600_000 },
    context,
    // The same is read again and again on purpose.
    loop: { identicalCalls: 100, sameArguments: 100 },
    tools: [
      tool('look', { effect: 'idempotent' }),
      tool('read', { effect: 'idempotent' }),
      tool('mine', { effect: 'idempotent' }),
      tool('fail', { effect: 'idempotent' }),
      tool('step', { effect: 'idempotent', sequential: true }),
      tool('pay', { effect: 'once' }),
    ],
  });
  return [agent];
}

export function resultOf(tool: string): string {
  return `${tool} is done`;
}

/** What a model knows of its run: the calls of each turn, and the result of each call. */
interface Known {
  turns: string[][];
  results: Record<string, string>;
}

/** What each reply costs. */
export const billed = { inputTokens: 7, outputTokens: 3 };

/** A model that asks for the turns of its task and then says what it was shown; what it sums up is what it knows. */
export function modelOf(onRequest: (request: LlmRequest) => void): Llm {
  const usage = { ...billed, cachedInputTokens: 0, costUsd: null, estimated: false };
  return {
    async complete(request) {
      onRequest(request);
      const own = ownPart(request);
      const { turns, results } = knownFrom(own);
      const turn = tasks[taskOf(own[0])]?.[turns.length] ?? [];
      const sumsUp = request.messages.at(-1)?.content?.includes(wishForSummary) === true;
      const calls = sumsUp ? [] : turn.map((name) => ({ name, arguments: '{}' }));
      const shown = turns.flat().map((id) => results[id] ?? '?');
      const content = sumsUp ? JSON.stringify({ turns, results }) : calls.length > 0 ? null : answerOf(shown);
      return { ok: true, reply: { content, calls, usage, model: request.model } };
    },
    countTokens: async (_, texts) => texts.map((text) => text.length),
    contextTokens: () => 128_000,
    price: () => null,
  };
}

const wishForSummary = wordsOf('en').summarise(0).slice(0, 40);

const taskOf = (message: Message | undefined) =>
  message?.role === 'user' ? (message.content.split('\n')[0] ?? '') : '';

/** Without the runs before it in its thread: the last task begins the run's own part. */
function ownPart({ messages }: LlmRequest): readonly Message[] {
  return messages.slice(messages.findLastIndex((message) => taskOf(message) in tasks));
}

/** From the summary, and from the turns shown beside it, some of which it may stand for as well. */
function knownFrom(messages: readonly Message[]): Known {
  const summary = /<summary>\n(.*)\n<\/summary>/.exec(messages[0]?.content ?? '')?.[1];
  const known: Known = summary === undefined ? { turns: [], results: {} } : (JSON.parse(summary) as Known);
  for (const message of messages) {
    if (message.role === 'tool') known.results[message.callId] = message.content.replace(padding, '');
    if (message.role !== 'assistant') continue;
    const ids = message.toolCalls.map(({ id }) => id);
    if (!known.turns.some(([first]) => first === ids[0])) known.turns.push(ids);
  }
  return known;
}

export function answerOf(shown: readonly string[]): string {
  return `shown: ${shown.join(', ')}`;
}

export function expectedAnswer(task: string): string {
  const failed = wordsOf('en').toolThrew('fail', failure, failAttempts);
  return answerOf((tasks[task] ?? []).flat().map((tool) => (tool === 'fail' ? failed : resultOf(tool))));
}
