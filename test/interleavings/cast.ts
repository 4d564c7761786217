/**
 * Who plays: agents whose runs have few steps and a known answer, on tools that keep what they did. Each worker's place has
 * agents of its own, defined once, since to define one takes longer than to play.
 */
import { type Agent, defineAgent } from '../../src/core/agent.js';
import { defineTool, type ToolContext } from '../../src/core/tool.js';
import type { Llm, LlmRequest } from '../../src/ports.js';

/** The world outside in one play. */
export interface Outside {
  /** A call that has its turn of the scheduler, made by whoever holds the place now. */
  act<T>(place: number, what: string, act: () => T): Promise<T>;
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
};
const takesMs: Record<string, number> = { look: 700, step: 400, pay: 900 };

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
    });
    await world.sleep(takesMs[tool] ?? 0, signal);
    return resultOf(tool);
  };
  const tool = (name: string, rest: { effect: 'idempotent' | 'once'; sequential?: boolean }) =>
    defineTool({
      name,
      description: 'does it',
      ...(rest.effect === 'once' ? { timeoutMs: 6_000 } : { attempts }),
      ...rest,
      execute: (_, context) => done(name, context),
    });
  const agent = defineAgent({
    name: 'helper',
    instructions: 'Help.',
    model: 'scripted',
    retry: { attempts, baseMs: 500, capMs: 2_000 },
    limits: { deadlineMs: 3_600_000 },
    tools: [
      tool('look', { effect: 'idempotent' }),
      tool('step', { effect: 'idempotent', sequential: true }),
      tool('pay', { effect: 'once' }),
    ],
  });
  return [agent];
}

export function resultOf(tool: string): string {
  return `${tool} is done`;
}

/** A model that asks for the turns of its task and then says what it was shown. */
export function modelOf(onRequest: (request: LlmRequest) => void): Llm {
  const usage = { inputTokens: 7, cachedInputTokens: 0, outputTokens: 3, costUsd: null, estimated: false };
  return {
    async complete(request) {
      onRequest(request);
      const turns = tasks[request.messages[0]?.content ?? ''] ?? [];
      const turn = turns[request.messages.filter(({ role }) => role === 'assistant').length] ?? [];
      const shown = request.messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
      const calls = turn.map((name) => ({ name, arguments: '{}' }));
      const content = calls.length > 0 ? null : answerOf(shown);
      return { ok: true, reply: { content, calls, usage, model: request.model } };
    },
    countTokens: async (_, texts) => texts.map((text) => text.length),
    contextTokens: () => 128_000,
    price: () => null,
  };
}

export function answerOf(shown: readonly string[]): string {
  return `shown: ${shown.join(', ')}`;
}

export function expectedAnswer(task: string): string {
  return answerOf((tasks[task] ?? []).flat().map(resultOf));
}
