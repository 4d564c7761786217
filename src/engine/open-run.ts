/**
 * What the first request of a run brings along from outside the run: the history of its thread, and facts. They are read once
 * and stored with the reply, so from then on the run's own rows hold all that it is shown, and its head stays the same. A
 * request that failed reads them again. The rules are core/thread.ts and core/fact.ts.
 */
import type { Agent } from '../core/agent.js';
import { roughTokens, tokensOf, type WindowRule, type WindowState } from '../core/context.js';
import { factLines, type KnownFact } from '../core/fact.js';
import type { StoredMessage } from '../core/message.js';
import { continueThread, type Earlier } from '../core/thread.js';
import { inWords } from '../core/words.js';
import type { Claimed } from './gaps.js';

export interface Opening {
  agent: Agent;
  claim: Claimed;
  /** Both: null where the worker stops before the database answers. */
  earlierInThread(): Promise<{ earlier: Earlier | null } | null>;
  recall(query: string, most: number): Promise<KnownFact[] | null>;
}

export interface Opened {
  history: StoredMessage[];
  state: WindowState;
  /** What is new in the history; null: nothing. */
  brought: StoredMessage[] | null;
}

/** Null: the worker stops before it knows. */
export async function openRun(opening: Opening, history: StoredMessage[], rule: WindowRule): Promise<Opened | null> {
  const { run } = opening.claim;
  const nothing: Opened = { history, state: run, brought: null };
  const [task] = history;
  if (task === undefined || history.length > 1) return nothing;
  const facts = await factsFor(opening, task, rule);
  if (facts === null) return null;
  const taken = [task, ...facts].reduce((sum, stored) => sum + tokensOf(stored), rule.fixedTokens);
  const thread = await threadOf(opening, rule, rule.budgetTokens * rule.compactTo - taken);
  if (thread === null) return null;
  const brought = [...thread, ...facts];
  if (brought.length === 0) return nothing;
  const first = Math.min(0, ...thread.map(({ seq }) => seq));
  const state = first === 0 ? run : { windowFrom: first, digestBefore: first };
  return { history: [...thread, task, ...facts], state, brought };
}

/** One message beside the task. */
async function factsFor(
  { agent, recall }: Opening,
  { message }: StoredMessage,
  { words }: WindowRule,
): Promise<StoredMessage[] | null> {
  const most = agent.context.facts;
  if (most === 0) return [];
  const known = await recall(message.content ?? '', most);
  if (known === null) return null;
  const lines = factLines(known);
  if (lines.length === 0) return [];
  const content = words.facts(lines);
  return [{ seq: 0, pos: 1, tokens: roughTokens(content), message: { role: 'user', content } }];
}

async function threadOf(
  { claim, earlierInThread }: Opening,
  { words }: WindowRule,
  roomTokens: number,
): Promise<StoredMessage[] | null> {
  if (claim.run.threadId === null) return [];
  const found = await earlierInThread();
  if (found === null) return null;
  const { earlier } = found;
  if (earlier === null) return [];
  return continueThread({ ...earlier, messages: inWords(earlier.messages, words) }, roomTokens, words);
}
