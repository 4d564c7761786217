/**
 * Who plays in a case, in whatever process: an agent of one turn, its tools, and a model. All three ask the stage in the
 * test's own process over HTTP, so that what was really done is known whoever is killed. Next: stage.ts.
 */
import { z } from 'zod';
import { type Agent, defineAgent } from '../../src/core/agent.js';
import type { LlmAnswer } from '../../src/core/outcome.js';
import { defineTool, type ToolContext } from '../../src/core/tool.js';
import type { Llm } from '../../src/ports.js';

export interface Cast {
  agent: Agent;
  llm: Llm;
}

/** An effect as the world outside sees it. */
export interface Effect {
  caseId: string;
  tool: string;
  runId: string;
  seq: number;
  attempt: number;
  key: string;
}

export function castOf({ stageUrl, caseId }: { stageUrl: string; caseId: string }): Cast {
  async function ask(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const response = await fetch(`${stageUrl}/${path}`, { method: 'POST', body: JSON.stringify(body), signal });
    if (!response.ok) throw new Error(`the stage answered ${response.status}: ${await response.text()}`);
    return response.json();
  }
  const act = (tool: string, { runId, stepSeq, attempt, idempotencyKey, signal }: ToolContext) => {
    const effect: Effect = { caseId, tool, runId, seq: stepSeq, attempt, key: idempotencyKey };
    return ask('effect', effect, signal);
  };
  const put = defineTool({
    name: 'put',
    description: 'Puts an item on the shelf',
    input: z.object({ item: z.string() }),
    effect: 'idempotent',
    execute: (_, context) => act('put', context),
  });
  const charge = defineTool({
    name: 'charge',
    description: 'Charges the card',
    input: z.object({ cents: z.number() }),
    effect: 'once',
    execute: (_, context) => act('charge', context),
  });
  const agent = defineAgent({
    name: 'clerk',
    instructions: 'You keep a shelf.',
    model: 'scripted',
    tools: [put, charge],
    retry: { baseMs: 100, capMs: 200 },
  });
  const llm: Llm = {
    complete: async (request, signal) => (await ask('model', { caseId, request }, signal)) as LlmAnswer,
    countTokens: async (_, texts) => texts.map((text) => Math.ceil(text.length / 4)),
    price: () => null,
    contextTokens: () => 128_000,
  };
  return { agent, llm };
}
