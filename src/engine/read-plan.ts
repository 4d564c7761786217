/**
 * Asks for the plan of a run and reads what the model answered. What is no plan leaves the run without one, and the run goes
 * on; a call that failed is tried again, falls back and dies like that of any turn. The rules are core/plan.ts.
 */
import type { Agent } from '../core/agent.js';
import { roughTokens, type Window, type WindowRule } from '../core/context.js';
import { readJsonCalls } from '../core/json-calls.js';
import type { StoredMessage } from '../core/message.js';
import type { LlmReply, Outcome } from '../core/outcome.js';
import { type PlanRoom, planRoom, readPlan } from '../core/plan.js';
import type { Reserve } from '../core/run.js';
import { cleanText } from '../core/storable.js';
import type { Answered } from './read-summary.js';

export interface DuePlan {
  room: PlanRoom;
  /** Stands at the end of the request. */
  notice: string;
}

/** The tools stand in the request as words: a model that is shown them as tools calls them. */
export function askForPlan({ words, tools, language }: Agent, { budgetTokens }: WindowRule): DuePlan {
  const room = planRoom(budgetTokens, language);
  const own = tools.filter(({ builtIn }) => !builtIn).map(({ name, description }) => `${name}: ${description}`);
  return { room, notice: words.makePlan({ chars: room.chars, tools: own }) };
}

interface AskedPlan {
  agent: Agent;
  room: PlanRoom;
  window: Window;
  brought: StoredMessage[] | null;
  reserveOf(promptTokens: number): Reserve;
}

/** Failures that say of the wish for a plan, and nothing of the turn that comes after it. */
const ofThePlan: ReadonlySet<string> = new Set(['truncated', 'invalid_response', 'refused', 'content_filter']);

/** Null: the call failed as that of a turn would have. */
export function readPlanReply(asked: AskedPlan, answered: Answered): Outcome | null {
  const { agent, room, window, brought, reserveOf } = asked;
  if ('failure' in answered && !ofThePlan.has(answered.failure.code)) return null;
  const read = 'failure' in answered ? null : planIn(agent, answered.reply, room);
  const why =
    'failure' in answered ? `${answered.failure.code}: ${answered.failure.message}` : 'the model wrote no plan';
  const usage = 'failure' in answered ? answered.failure.usage : answered.reply.usage;
  return {
    kind: 'plan',
    plan: read,
    why: read === null ? why : null,
    window: { windowFrom: window.windowFrom, digestBefore: window.digestBefore },
    ...(brought === null ? {} : { opening: brought }),
    usage,
    reserve: reserveOf(Math.max(window.tokens, usage?.inputTokens ?? 0)),
  };
}

function planIn(agent: Agent, { content }: LlmReply, room: PlanRoom): { content: string; tokens: number } | null {
  const text = cleanText(content ?? '');
  const isCall = agent.toolCalling === 'json' && readJsonCalls(text).is !== 'answer';
  const plan = isCall ? null : readPlan(text, room);
  return plan === null ? null : { content: plan, tokens: roughTokens(agent.words.plan(plan)) };
}
