/**
 * The model of a play: it asks for the turns of its task and then says what it was shown, from the history alone. What it sums
 * up is what it knows; now and then it cannot answer.
 */
import type { Message } from '../../src/core/message.js';
import type { LlmFailure } from '../../src/core/outcome.js';
import { wordsOf } from '../../src/core/words.js';
import type { Llm, LlmRequest } from '../../src/ports.js';
import { answerOf, draftOf, drafts, isDraft, padding, tasks } from './cast.js';

/** What a model knows of its run: the calls of each turn, and the result of each call. */
interface Known {
  turns: string[][];
  results: Record<string, string>;
}

/** What each reply costs. */
export const billed = { inputTokens: 7, outputTokens: 3 };
const plan = 'to do it, and then to say so';

const trouble: LlmFailure = {
  class: 'retryable',
  code: 'server_error',
  message: 'not now',
  reason: 'attempts_exhausted',
  retryAfterMs: null,
  usage: null,
};

export interface ModelParts {
  onRequest(request: LlmRequest): void;
  onReply(): void;
  /** Whether it is in trouble just now. */
  fails(): boolean;
}

export function modelOf({ onRequest, onReply, fails }: ModelParts): Llm {
  const usage = { ...billed, cachedInputTokens: 0, costUsd: null, estimated: false };
  return {
    async complete(request) {
      onRequest(request);
      if (fails()) return { ok: false, failure: trouble };
      onReply();
      return { ok: true, reply: { ...said(request), usage, model: request.model } };
    },
    countTokens: async (_, texts) => texts.map((text) => text.length),
    contextTokens: () => 128_000,
    price: () => null,
  };
}

const words = wordsOf('en');
const wishForSummary = words.summarise(0).slice(0, 40);
const wishForPlan = words.makePlan({ chars: 1_000, tools: [] }).slice(0, 40);
const wishForJudgement = words.reflect('It is no draft.').slice(0, 40);

function said({ messages }: LlmRequest) {
  const wish = messages.at(-1)?.content ?? '';
  const text = (content: string) => ({ content, calls: [] });
  if (wish.includes(wishForPlan)) return text(plan);
  if (wish.includes(wishForJudgement)) return text(judgementOf(messages));
  const own = ownPart(messages);
  const { turns, results } = knownFrom(own);
  if (wish.includes(wishForSummary)) return text(JSON.stringify({ turns, results }));
  const task = taskOf(own[0]);
  const turn = tasks[task]?.[turns.length] ?? [];
  if (turn.length > 0) return { content: null, calls: turn.map((name) => ({ name, arguments: '{}' })) };
  const answer = answerOf(turns.flat().map((id) => results[id] ?? '?'));
  const wasRefused = own.some(({ role, content }) => role === 'assistant' && isDraft(content ?? ''));
  return text(drafts(task) && !wasRefused ? draftOf(answer) : answer);
}

function judgementOf(messages: readonly Message[]): string {
  const answer = messages.findLast(({ role }) => role === 'assistant')?.content ?? '';
  return JSON.stringify(isDraft(answer) ? { accepted: false, objections: ['it is a draft'] } : { accepted: true });
}

/** A line of its own: what stands before it in a thread, or with it, may be in the same message. */
function taskOf(message: Message | undefined): string {
  const lines = message?.role === 'user' ? message.content.split('\n') : [];
  return lines.find((line) => line in tasks) ?? '';
}

/** Without the runs before it in its thread: the last task begins the run's own part. */
function ownPart(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex((message) => taskOf(message) in tasks));
}

/** From the summary, and from the turns shown beside it, some of which it may stand for as well. */
function knownFrom(messages: readonly Message[]): Known {
  const summary = /<summary>\n(.*)\n<\/summary>/.exec(messages[0]?.content ?? '')?.[1];
  const known: Known = summary === undefined ? { turns: [], results: {} } : (JSON.parse(summary) as Known);
  for (const message of messages) {
    if (message.role === 'tool') known.results[message.callId] = message.content.replace(padding, '');
    if (message.role !== 'assistant' || message.toolCalls.length === 0) continue;
    const ids = message.toolCalls.map(({ id }) => id);
    if (!known.turns.some(([first]) => first === ids[0])) known.turns.push(ids);
  }
  return known;
}
