/**
 * Which part of its history a model is shown, and the request's messages made from it. History is cut in whole turns, rarely
 * and in big steps, so that the head of the prompt stays the same between cuts and the provider's cache holds. The task is
 * never cut. Nothing here counts tokens: each message brings its count. See message.ts for the order of a history.
 */
import { type Message, type StoredMessage, tokensPerMessage } from './message.js';
import type { Words } from './words.js';

export interface WindowRule {
  /** Tokens a prompt may hold: the window without what is reserved for the answer. */
  budgetTokens: number;
  /** Tokens of the system message, the tools and the schema of the answer. */
  fixedTokens: number;
  /** Shares of the budget: a prompt above the first is cut down to the second. */
  compactAt: number;
  compactTo: number;
  /** The newest turns, kept while they fit the budget; the newest one is kept in any case. */
  keepTurns: number;
}

export interface Window {
  /** The task and the turns to send, in order. */
  messages: StoredMessage[];
  /** Never below the one given. */
  windowFrom: number;
  /** Tokens of the prompt, the fixed ones included. */
  tokens: number;
}

interface Turn {
  seq: number;
  messages: StoredMessage[];
  tokens: number;
}

/** The window for the next request. Within the budget's first share it is the one it was. */
export function chooseWindow(history: readonly StoredMessage[], windowFrom: number, rule: WindowRule): Window {
  const { pinned, turns, tokens } = divide(history, windowFrom, rule);
  if (tokens <= rule.budgetTokens * rule.compactAt) return windowOf(pinned, turns, windowFrom, tokens);
  return cut(pinned, turns, windowFrom, tokens, rule);
}

/**
 * A smaller window than the one that turned out not to fit, or null when nothing is left to cut: tokens were counted by
 * other rules than the provider's, so the counts are believed only as shares of one another.
 */
export function shrinkWindow(history: readonly StoredMessage[], windowFrom: number, rule: WindowRule): Window | null {
  const { pinned, turns, tokens } = divide(history, windowFrom, rule);
  if (turns.length < 2) return null;
  const budgetTokens = Math.min(tokens, rule.budgetTokens);
  const smaller = cut(pinned, turns, windowFrom, tokens, { ...rule, budgetTokens, keepTurns: 1 });
  if (smaller.windowFrom > windowFrom) return smaller;
  return cut(pinned, turns, windowFrom, tokens, { ...rule, budgetTokens: 0, keepTurns: 1 });
}

function divide(history: readonly StoredMessage[], windowFrom: number, rule: WindowRule) {
  const ordered = inOrder(history);
  const pinned = ordered.filter((stored) => stored.seq === 0);
  const turns: Turn[] = [];
  for (const stored of ordered) {
    if (stored.seq === 0 || stored.seq < windowFrom) continue;
    const last = turns.at(-1);
    if (last?.seq !== stored.seq) turns.push({ seq: stored.seq, messages: [stored], tokens: tokensOf(stored) });
    else {
      last.messages.push(stored);
      last.tokens += tokensOf(stored);
    }
  }
  const head = pinned.reduce((sum, stored) => sum + tokensOf(stored), rule.fixedTokens);
  return { pinned, turns, tokens: turns.reduce((sum, turn) => sum + turn.tokens, head) };
}

/** A history comes in order from every store, so that there is seldom anything to sort. */
function inOrder(history: readonly StoredMessage[]): readonly StoredMessage[] {
  const isBefore = (a: StoredMessage, b: StoredMessage) => a.seq < b.seq || (a.seq === b.seq && a.pos <= b.pos);
  const isOrdered = history.every((stored, at) => at === 0 || isBefore(history[at - 1] ?? stored, stored));
  return isOrdered ? history : [...history].sort((a, b) => a.seq - b.seq || a.pos - b.pos);
}

function cut(pinned: StoredMessage[], turns: Turn[], windowFrom: number, tokens: number, rule: WindowRule): Window {
  const target = rule.budgetTokens * rule.compactTo;
  let rest = tokens;
  let first = 0;
  while (first < turns.length - 1) {
    const goal = turns.length - first > rule.keepTurns ? target : rule.budgetTokens;
    if (rest <= goal) break;
    rest -= turns[first]?.tokens ?? 0;
    first += 1;
  }
  const kept = turns.slice(first);
  return windowOf(pinned, kept, first === 0 ? windowFrom : (kept[0]?.seq ?? windowFrom), rest);
}

function windowOf(pinned: StoredMessage[], turns: Turn[], windowFrom: number, tokens: number): Window {
  return { messages: pinned.concat(turns.flatMap((turn) => turn.messages)), windowFrom, tokens };
}

function tokensOf(stored: StoredMessage): number {
  return (stored.tokens ?? estimateTokens(stored.message)) + tokensPerMessage;
}

/** For a message not yet counted: on the high side, a token for three bytes. */
function estimateTokens(message: Message): number {
  const calls = message.role === 'assistant' ? message.toolCalls : [];
  const reasoning = message.role === 'assistant' ? (message.reasoning ?? '') : '';
  const text = (message.content ?? '') + reasoning + calls.map((call) => call.name + call.arguments).join('');
  return Math.ceil(Buffer.byteLength(text) / 3);
}

/**
 * The messages of a request (I7): the task first, each call answered once and right after its reply, no answer without its
 * call, no empty message, no two user messages in a row. `notice`: Pawl's word for this request only, at its end.
 */
export function assemblePrompt(window: Window, words: Words, notice: string | null = null): Message[] {
  const messages: Message[] = [];
  const stored = inOrder(window.messages).map(({ message }) => message);
  const answers = new Map<string, Message>();
  for (const message of stored) if (message.role === 'tool') answers.set(message.callId, message);
  for (const message of stored) {
    if (message.role === 'user') sayAsUser(messages, message.content);
    else if (message.role === 'assistant') {
      const { toolCalls } = message;
      const content = toolCalls.length > 0 ? message.content || null : (message.content ?? '');
      messages.push({ ...message, content });
      for (const { id, name } of toolCalls) {
        const answer = answers.get(id);
        messages.push({ role: 'tool', callId: id, name, content: answer?.content || words.noResult() });
      }
    }
    if (messages.length === 1 && window.windowFrom > 0) sayAsUser(messages, words.turnsLeftOut());
  }
  if (notice !== null) sayAsUser(messages, notice);
  return messages;
}

function sayAsUser(messages: Message[], content: string): void {
  const last = messages.at(-1);
  if (last?.role !== 'user') messages.push({ role: 'user', content });
  else messages[messages.length - 1] = { role: 'user', content: `${last.content}\n\n${content}` };
}
