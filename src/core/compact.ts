/**
 * Compaction: which turns a summary takes the place of, how long it may be, and whether what the model wrote is one. Pure. A
 * summary that is refused changes nothing but what is shown: the turns it was to stand for are left out instead. See
 * context.ts for the window without one.
 */
import {
  chooseWindow,
  cut,
  digestOlder,
  divide,
  enough,
  isSummary,
  roughTokens,
  tokensOf,
  type Window,
  type WindowRule,
  type WindowState,
  windowOf,
} from './context.js';
import { callLines } from './digest.js';
import { type StoredMessage, tokensPerMessage } from './message.js';

export interface Compaction {
  /** What the model is shown for its summary: the window as it was, as far as it fits. */
  shown: Window;
  /** Characters asked for. */
  chars: number;
  /** The window after it, the summary apart. */
  after: Window;
  /** Lines of the finished calls in the turns left out, those an earlier summary brought included. */
  calls: string[];
}

/** Of the budget, the share a summary and its lines of calls may take each. */
const summaryShare = 0.1;
const leastTokens = 60;
const mostTokens = 2_000;
/** Roughly, for asking: an English token is more, a Chinese one less. */
const charsPerToken = 3;

/** The compaction in whose place turns would be left out; null: none would be, or the rest is too long for a summary as well. */
export function planCompaction(
  stored: readonly StoredMessage[],
  state: WindowState,
  rule: WindowRule,
): Compaction | null {
  if (chooseWindow(stored, state, rule).windowFrom <= state.windowFrom) return null;
  const tokens = Math.max(leastTokens, Math.min(mostTokens, Math.floor(rule.budgetTokens * summaryShare)));
  const history = divide(stored, state, rule);
  const digested = digestOlder(history, state, rule);
  // The turns that are left have to make room for the summary that comes.
  const roomy = { ...history, pinnedTokens: history.pinnedTokens + 2 * tokens };
  const after = cut(roomy, digested, rule, enough(rule));
  if (after.windowFrom <= state.windowFrom || after.tokens > enough(rule)) return null;
  const gone = history.turns.filter(({ seq }) => seq < after.windowFrom).flatMap(({ messages }) => messages);
  const { message } = history.pinned.findLast(isSummary) ?? {};
  const earlier = message?.role === 'user' ? (message.summary?.calls ?? []) : [];
  const calls = newest([...earlier, ...callLines(gone, rule.words)], tokens * charsPerToken);
  const kept = history.pinned
    .filter((one) => !isSummary(one))
    .reduce((sum, one) => sum + tokensOf(one), rule.fixedTokens);
  const rest = after.tokens - roomy.pinnedTokens + kept;
  return {
    shown: fitBudget(stored, state, rule),
    chars: tokens * charsPerToken,
    after: { ...after, tokens: rest },
    calls,
  };
}

/** The lines that fit, the oldest left out. */
function newest(lines: readonly string[], chars: number): string[] {
  let left = chars;
  let from = lines.length;
  for (; from > 0; from--) {
    left -= lines[from - 1]?.length ?? 0;
    if (left < 0) break;
  }
  return lines.slice(from);
}

/** The window as it was, or without as many of its oldest turns as the budget asks for. */
function fitBudget(stored: readonly StoredMessage[], state: WindowState, rule: WindowRule): Window {
  const history = divide(stored, state, rule);
  const whole = windowOf(history, state);
  if (whole.tokens <= rule.budgetTokens) return whole;
  return cut(history, digestOlder(history, state, rule), { ...rule, compactTo: 1, keepTurns: 1 });
}

export type Summary =
  | { ok: true; content: string; tokens: number; promptTokens: number }
  /** What is wrong with it, in words for people. */
  | { ok: false; why: string };

/** Whether a text can stand for the turns left out: there must be one, and the prompt with it short enough to go on. */
export function judgeSummary(text: string | null, { after, calls }: Compaction, rule: WindowRule): Summary {
  const content = (text ?? '').trim();
  if (content === '') return { ok: false, why: 'the model wrote no summary' };
  const tokens = roughTokens(rule.words.summary(content, calls));
  const promptTokens = after.tokens + tokens + tokensPerMessage;
  if (promptTokens > enough(rule)) {
    return { ok: false, why: `with the summary the prompt would still take ${promptTokens} tokens` };
  }
  return { ok: true, content, tokens, promptTokens };
}
