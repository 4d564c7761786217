/**
 * What the first request of a run brings along from outside the run: the history of its thread. It is read once and stored
 * with the reply, so from then on the run's own rows hold all that it is shown, and its head stays the same. A request that
 * failed reads it again. The rule is core/thread.ts.
 */
import { tokensOf, type WindowRule, type WindowState } from '../core/context.js';
import type { StoredMessage } from '../core/message.js';
import { continueThread, type Earlier } from '../core/thread.js';
import type { Claimed } from './gaps.js';

export interface Opening {
  claim: Claimed;
  /** Null: the worker stops before the database answers. */
  earlierInThread(): Promise<{ earlier: Earlier | null } | null>;
}

export interface Opened {
  history: StoredMessage[];
  state: WindowState;
  /** What is new in the history; null: nothing. */
  brought: StoredMessage[] | null;
}

/** Null: the worker stops before it knows. */
export async function openRun(
  { claim, earlierInThread }: Opening,
  history: StoredMessage[],
  rule: WindowRule,
): Promise<Opened | null> {
  const { run } = claim;
  const nothing: Opened = { history, state: run, brought: null };
  if (run.threadId === null || history.some(({ seq }) => seq !== 0)) return nothing;
  const found = await earlierInThread();
  if (found === null) return null;
  if (found.earlier === null) return nothing;
  const taken = history.reduce((sum, stored) => sum + tokensOf(stored), rule.fixedTokens);
  const brought = continueThread(found.earlier, rule.budgetTokens * rule.compactTo - taken, rule.words);
  const first = Math.min(0, ...brought.map(({ seq }) => seq));
  if (brought.length === 0) return nothing;
  return { history: [...brought, ...history], state: { windowFrom: first, digestBefore: first }, brought };
}
