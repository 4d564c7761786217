/**
 * The agents of a campaign as a worker has them. What their tools do happens in the world's process (world.ts), which is
 * never killed; here is only the asking, so nothing that a killed worker knew is missed.
 */
import { z } from 'zod';
import { type Agent, defineAgent } from '../../../src/core/agent.js';
import type { Fact } from '../../../src/core/fact.js';
import { defineTool, type FactCall, notStarted, type Tool, type ToolContext } from '../../../src/core/tool.js';
import { draft, tokenIn, withToken } from './plan.js';
import { resultOf } from './result.js';
import { crews, llmTimeoutMs, type ToolName, toolAttempts, tools, toolTimeoutMs } from './trade.js';

/** A call as the world is told of it. */
export interface EffectOrder {
  ref: string;
  tool: ToolName;
  runId: string;
  seq: number;
  attempt: number;
  key: string;
}

/** `n`: the number of the hit. */
export type EffectAnswer = { n: number; token: string } & ({ ok: true } | { ok: false; message: string });

/** What the ledger says of a call: whether it ever took effect. */
export interface Fate {
  happened: boolean;
  token: string;
}

const input = z.object({ ref: z.string(), note: z.string().optional() });

export function crewOf(worldUrl: string): Agent[] {
  async function ask<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    const response = await fetch(`${worldUrl}/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
    if (!response.ok) throw new Error(`the world answered ${response.status}`);
    return (await response.json()) as T;
  }

  async function act(tool: ToolName, ref: string, context: ToolContext): Promise<string> {
    const { runId, stepSeq: seq, attempt, idempotencyKey: key, signal } = context;
    const order: EffectOrder = { ref, tool, runId, seq, attempt, key };
    const answer = await ask<EffectAnswer>(tools[tool].effect === 'once' ? 'once' : 'effect', order, signal);
    if (answer.ok) return resultOf(tool, answer);
    const message = withToken(answer.message, answer.token);
    // A refusal says for certain that nothing happened, and an error says nothing.
    throw tools[tool].effect === 'once' && answer.message === 'refused' ? notStarted(message) : new Error(message);
  }

  const define = (name: ToolName): Tool => {
    const { effect, onUnknown, pool, sequential, saysFact, cacheMs, shownChars } = tools[name];
    const base = {
      name,
      description: `Does what ${name} does.`,
      input,
      effect,
      timeoutMs: toolTimeoutMs,
      sequential,
      // Plans know of no outage either: a net that is broken would be one.
      outage: false as const,
      ...(pool === null ? {} : { pool }),
      ...(effect === 'once' ? {} : { attempts: toolAttempts }),
      ...(saysFact ? { extractFacts: factsOf } : {}),
      ...(shownChars === null ? {} : { maxOutputChars: shownChars }),
      cacheMs,
      execute: ({ ref }: { ref: string }, context: ToolContext) => act(name, ref, context),
    };
    if (onUnknown === null) return defineTool(base);
    if (onUnknown !== 'look') return defineTool({ ...base, onUnknown });
    return defineTool({
      ...base,
      async onUnknown({ context: { runId, stepSeq: seq, signal } }) {
        const fate = await ask<Fate>('fate', { runId, seq }, signal);
        return fate.happened ? { done: withToken(`done: ${name}`, fate.token) } : 'ask';
      },
    });
  };

  const crew = Object.entries(crews).map(([name, { tools: names, objects, thread, models, windowTokens, mode }]) =>
    defineAgent({
      name,
      instructions: `You are the ${name}.`,
      model: models ?? 'scripted',
      tools: names.map(define),
      // A judgement that fails for good lets a draft stand: whatever is broken for a while must not be enough for that.
      retry: { baseMs: 100, capMs: 500, ...(mode === 'reflect' ? { attempts: 100 } : {}) },
      llmTimeoutMs,
      limits: { maxSteps: 200, maxTurns: 100 },
      // The plans of runs know nothing of the breaker: tools fail by chance, now and then in three turns in a row.
      // Nor of the loop guard: some ask for one thing again and again.
      loop: { toolFailures: 100, identicalCalls: 100, sameArguments: 100 },
      // The newest turn and one more fit beside a summary, and one more turn never fills the window to the brim.
      ...(windowTokens === undefined
        ? {}
        : { context: { windowTokens, compactAt: 0.85, compactTo: 0.6, keepTurns: 2 } }),
      ...(thread === undefined ? {} : { busyThread: thread }),
      ...(mode === 'plan' ? { mode } : {}),
      ...(mode === 'reflect' ? { mode: { reflect: { rounds: 2, criteria: 'It is no draft.' } } } : {}),
      ...(objects === 'verify' ? { verify } : {}),
      ...(objects === 'output' ? { output: z.object({ digest: z.string() }) } : {}),
    }),
  );
  return [...crew, poison];
}

/** In no plan: its one call takes the process down that makes it, again and again. */
const poison = defineAgent({
  name: 'poison',
  instructions: 'You are poison.',
  model: 'scripted',
  tools: [
    defineTool({
      name: 'die',
      description: 'Takes its process down.',
      effect: 'idempotent',
      execute: () => {
        process.kill(process.pid, 'SIGKILL');
        return new Promise(() => {});
      },
    }),
  ],
});

function factsOf({ args: { ref }, threadId }: FactCall<{ ref: string }>, result: unknown): Fact[] {
  return [{ key: ref, value: tokenIn(String(result)) ?? '', scope: threadId === null ? 'agent' : 'thread' }];
}

const verify = (answer: unknown) => (String(answer).startsWith(draft) ? 'a draft is no answer' : undefined);
