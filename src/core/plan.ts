/**
 * The plan of a run under `mode: 'plan'`: an LLM step before the first turn asks for it, and the model may replace it by the
 * tool update_plan. It stands in every later prompt, whatever is left out of it. Pure; context.ts shows it. A run without a
 * plan goes on as any other. Next: engine/read-plan.ts.
 */
import { roughTokens } from './context.js';
import type { Language } from './language.js';
import { defineTool, type Tool } from './tool.js';
import type { Words } from './words.js';

export const updatePlanName = 'update_plan';

/** Of what a prompt may hold, the share that a plan is asked to take at most. */
const planShare = 0.1;
const leastTokens = 40;
const mostTokens = 500;

export interface PlanRoom {
  /** What is asked for. */
  chars: number;
  /** What is kept: a model that is asked for a length seldom keeps to it. */
  tokens: number;
}

export function planRoom(budgetTokens: number, language: Language): PlanRoom {
  const tokens = Math.max(leastTokens, Math.min(mostTokens, Math.floor(budgetTokens * planShare)));
  return { chars: tokens * (language === 'zh' ? 1 : 3), tokens: 2 * tokens };
}

/** The plan in a text: its lines, as many as there is room for; null: there is none. */
export function readPlan(text: string | null, { tokens }: PlanRoom): string | null {
  const lines = (text ?? '').split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trimEnd()]));
  let left = tokens;
  const fit = lines.findIndex((line) => {
    left -= roughTokens(line);
    return left < 0;
  });
  const kept = (fit < 0 ? lines : lines.slice(0, fit)).join('\n').trim();
  return kept === '' ? null : kept;
}

/** The tool, in the words of the agent; its calls go where those of the agent's own tools go. */
export function updatePlanTool(words: Words, queue: string): Tool {
  const tool = defineTool({
    name: updatePlanName,
    description: words.updatePlan(),
    effect: 'none',
    outage: false,
    input: { type: 'object', properties: { plan: { type: 'string' } }, required: ['plan'] },
    execute: () => {
      throw new Error('update_plan is carried out by the worker');
    },
  });
  return Object.freeze({ ...tool, queue, builtIn: true });
}
