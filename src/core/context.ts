/**
 * Which part of its history a model is shown, and the request's messages made from it. Old tool results shrink to a line,
 * then whole turns are left out: rarely and in big steps, so that the head of the prompt stays the same between them and the
 * provider's cache holds. The task, the newest summary and the newest plan are never left out. Nothing here counts tokens:
 * each message brings its count. See message.ts for the order of a history, compact.ts for summaries, plan.ts for plans.
 */
import { digestsOf } from './digest.js';
import { carriedPos, type Message, type StoredMessage, tokensPerMessage } from './message.js';
import type { RunState } from './run.js';
import type { Words } from './words.js';

/** What a run's row keeps of its window. Neither ever goes back. */
export interface WindowState {
  /** Turns before this seq are left out. 0: none are. */
  windowFrom: number;
  /** Results of turns before this seq are shown as a line. */
  digestBefore: number;
}

/** What a step has shown, and the plan that stands in none of the turns from there on: it has to be said again. */
export interface WindowMoved extends WindowState {
  plan?: { content: string; tokens: number };
}

export interface WindowRule {
  /** Tokens a prompt may hold: the window without what is reserved for the answer. */
  budgetTokens: number;
  /** Tokens of the system message, the tools and the schema of the answer. */
  fixedTokens: number;
  /** Shares of the budget: a prompt above the first is brought down to the second. */
  compactAt: number;
  compactTo: number;
  /** The newest turns, kept whole while they fit the budget; the newest one is kept in any case. */
  keepTurns: number;
  words: Words;
}

export interface Window extends WindowMoved {
  /** The task, the newest summary, the plan and the turns to send. */
  messages: StoredMessage[];
  /** Tokens of the prompt, the fixed ones included. */
  tokens: number;
}

export interface Turn {
  seq: number;
  messages: StoredMessage[];
  /** With its results whole, and with those shortened that a line is much shorter than. */
  tokens: number;
  digested: number;
  /** Holds a call that nothing has answered. */
  isOpen: boolean;
}

export interface History {
  pinned: StoredMessage[];
  /** Of the task, the summary, a plan of its own message and what is fixed. */
  pinnedTokens: number;
  turns: Turn[];
  /** The newest plan as a message of its own; null: there is none. */
  plan: StoredMessage | null;
}

/** Whether the messages of a seq are of the window: the task, the newest summary, and the turns not left out. */
export function isShown(seq: number, run: Pick<RunState, 'windowFrom' | 'summarySeq'>): boolean {
  return seq === 0 || seq >= run.windowFrom || seq === run.summarySeq;
}

/** The window for the next request. Up to the budget's first share it is the one it was. */
export function chooseWindow(stored: readonly StoredMessage[], state: WindowState, rule: WindowRule): Window {
  const before = windowOf(divide(stored, state, rule, state.digestBefore), state);
  if (before.tokens <= rule.budgetTokens * rule.compactAt) return before;
  const history = divide(stored, state, rule);
  const digested = windowOf(history, digestOlder(history, state, rule));
  return digested.tokens <= enough(rule) ? digested : cut(history, digested, rule);
}

/** What a step must reach, or the next one would come after a few turns: halfway between the two shares. */
export function enough({ budgetTokens, compactAt, compactTo }: WindowRule): number {
  return (budgetTokens * (compactAt + compactTo)) / 2;
}

/**
 * The budget to go on with after a prompt that turned out not to fit, or null where none of its turns can be left out:
 * tokens were counted by other rules than the provider's, so the counts are believed only as shares of one another.
 */
export function budgetAfterOverflow(
  stored: readonly StoredMessage[],
  state: WindowState,
  rule: WindowRule,
): number | null {
  const { tokens } = windowOf(divide(stored, state, rule), state);
  const budgetTokens = Math.floor(Math.min(tokens, rule.budgetTokens) * 0.8);
  const smaller = chooseWindow(stored, state, { ...rule, budgetTokens });
  return smaller.tokens < tokens ? budgetTokens : null;
}

/** `digestTo`: only of turns before this seq it is asked what they are shortened. */
export function divide(
  stored: readonly StoredMessage[],
  state: WindowState,
  rule: WindowRule,
  digestTo = Number.POSITIVE_INFINITY,
): History {
  const ordered = inOrder(stored);
  const summary = ordered.findLast(isSummary);
  const plan = planIn(ordered, rule.words);
  const pinned = ordered.filter((one) => one.seq === 0 || one === summary || one === plan);
  const shown = ordered.filter(
    (one) => one.seq !== 0 && one.seq >= state.windowFrom && !isSummary(one) && one !== plan,
  );
  const digests = digestsOf(
    shown.filter(({ seq }) => seq < digestTo),
    rule.words,
  );
  const turns: Turn[] = [];
  for (const one of shown) {
    let last = turns.at(-1);
    if (last?.seq !== one.seq) {
      last = { seq: one.seq, messages: [], tokens: 0, digested: 0, isOpen: false };
      turns.push(last);
    }
    const tokens = tokensOf(one);
    const digest = digests.get(one);
    last.messages.push(one);
    last.tokens += tokens;
    last.digested += digest === undefined ? tokens : Math.min(tokens, roughTokens(digest) + tokensPerMessage);
  }
  for (const turn of turns) turn.isOpen = hasOpenCall(turn.messages);
  return { pinned, pinnedTokens: pinned.reduce((sum, one) => sum + tokensOf(one), rule.fixedTokens), turns, plan };
}

/** The newest plan: the message that says it, or one made of the result of the call that put it in place. */
function planIn(ordered: readonly StoredMessage[], words: Words): StoredMessage | null {
  const said = ordered.findLast(holdsPlan);
  if (said === undefined || said.message.role !== 'tool') return said ?? null;
  const content = said.message.plan ?? '';
  const tokens = roughTokens(words.plan(content));
  return { seq: said.seq, pos: carriedPos, tokens, message: { role: 'user', content, plan: true } };
}

/** Those that a run takes over from its thread are past. */
function holdsPlan({ seq, message }: StoredMessage): boolean {
  return seq > 0 && message.role !== 'assistant' && message.plan !== undefined;
}

export function isPlan({ seq, message }: StoredMessage): boolean {
  return seq > 0 && message.role === 'user' && message.plan === true;
}

/** A history comes in order from every store, so that there is seldom anything to sort. */
function inOrder(history: readonly StoredMessage[]): readonly StoredMessage[] {
  const isBefore = (a: StoredMessage, b: StoredMessage) => a.seq < b.seq || (a.seq === b.seq && a.pos <= b.pos);
  const isOrdered = history.every((stored, at) => at === 0 || isBefore(history[at - 1] ?? stored, stored));
  return isOrdered ? history : [...history].sort((a, b) => a.seq - b.seq || a.pos - b.pos);
}

export function isSummary({ message }: StoredMessage): boolean {
  return message.role === 'user' && message.summary !== undefined;
}

function hasOpenCall(messages: readonly StoredMessage[]): boolean {
  const answered = new Set(messages.flatMap(({ message }) => (message.role === 'tool' ? [message.callId] : [])));
  return messages.some(
    ({ message }) => message.role === 'assistant' && message.toolCalls.some(({ id }) => !answered.has(id)),
  );
}

export function windowOf(history: History, state: WindowState): Window {
  const { pinned, pinnedTokens, turns, plan } = history;
  const kept = turns.filter(({ seq }) => seq >= state.windowFrom);
  const moved = plan !== null && plan.seq < state.windowFrom ? planMoved(plan) : {};
  const tokens = kept.reduce((sum, turn) => sum + weigh(turn, state), pinnedTokens + tokensCarried(history, state));
  const carried = plan !== null && moved.plan !== undefined && !pinned.includes(plan) ? [plan] : [];
  const messages = pinned.concat(carried, ...kept.map((turn) => turn.messages));
  return { messages, tokens, windowFrom: state.windowFrom, digestBefore: state.digestBefore, ...moved };
}

function planMoved({ message, tokens }: StoredMessage): Pick<WindowMoved, 'plan'> {
  return { plan: { content: message.content ?? '', tokens: tokens ?? estimateTokens(message) } };
}

/** Of a plan whose call is in a turn that is left out, so that it has to be said by a message of its own. */
function tokensCarried({ plan, pinned }: History, { windowFrom }: Pick<WindowState, 'windowFrom'>): number {
  return plan === null || plan.seq >= windowFrom || pinned.includes(plan) ? 0 : tokensOf(plan);
}

function weigh(turn: Turn, { digestBefore }: WindowState): number {
  return turn.seq < digestBefore ? turn.digested : turn.tokens;
}

/** Shortens the results of all but the newest turns. */
export function digestOlder({ turns }: History, state: WindowState, { keepTurns }: WindowRule): WindowState {
  // Where all turns are among the newest, nothing is shortened, and nothing is said of it.
  const firstKept = turns.length > keepTurns ? (turns.at(-keepTurns)?.seq ?? 0) : 0;
  return { ...state, digestBefore: Math.max(state.digestBefore, firstKept) };
}

/**
 * Leaves out the oldest turns down to the second share; the newest ones are kept while they fit `keepWithin` tokens. No turn
 * is left out whose calls are not all answered.
 */
export function cut(history: History, state: WindowState, rule: WindowRule, keepWithin = rule.budgetTokens): Window {
  const { turns } = history;
  const open = turns.findIndex((turn) => turn.isOpen);
  const mayGo = open < 0 ? turns.length - 1 : Math.min(open, turns.length - 1);
  let { tokens } = windowOf(history, state);
  let first = 0;
  for (; first < mayGo; first++) {
    const goal = turns.length - first > rule.keepTurns ? rule.budgetTokens * rule.compactTo : keepWithin;
    const turn = turns[first];
    if (turn === undefined || tokens <= goal) break;
    tokens -= weigh(turn, state);
    if (history.plan?.seq === turn.seq) tokens += tokensCarried(history, { windowFrom: turn.seq + 1 });
  }
  return windowOf(history, { ...state, windowFrom: first === 0 ? state.windowFrom : (turns[first]?.seq ?? 0) });
}

export function tokensOf(stored: StoredMessage): number {
  return (stored.tokens ?? estimateTokens(stored.message)) + tokensPerMessage;
}

/** For a message not yet counted. */
function estimateTokens(message: Message): number {
  const calls = message.role === 'assistant' ? message.toolCalls : [];
  const reasoning = message.role === 'assistant' ? (message.reasoning ?? '') : '';
  return roughTokens((message.content ?? '') + reasoning + calls.map((call) => call.name + call.arguments).join(''));
}

/** On the high side, a token for three bytes. */
export function roughTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 3);
}

/**
 * The messages of a request (I7): the task first, each call answered once and right after its reply, no answer without its
 * call, no empty message, no two user messages in a row. `notice`: Pawl's word for this request only, at its end.
 */
export function assemblePrompt(window: Window, words: Words, notice: string | null = null): Message[] {
  const messages: Message[] = [];
  const stored = inOrder(window.messages);
  const answers = answersIn(stored, window, words);
  const summary = stored.findLast(isSummary)?.message;
  const plan = stored.findLast(isPlan)?.message;
  for (const [index, one] of stored.entries()) {
    const { seq, message } = one;
    if (message.role === 'user' && !isSummary(one) && !isPlan(one)) sayAsUser(messages, message.content);
    else if (message.role === 'assistant') {
      const { toolCalls } = message;
      const content = toolCalls.length > 0 ? message.content || null : (message.content ?? '');
      messages.push({ ...message, content });
      for (const { id, name } of toolCalls) {
        messages.push({ role: 'tool', callId: id, name, content: answers.get(id) || words.noResult() });
      }
    }
    if (seq !== 0 || stored[index + 1]?.seq === 0) continue;
    sayWhatIsLeftOut(messages, window, summary, words);
    // With the task from its first to its last request, so that the head stays the same.
    if (plan !== undefined) sayAsUser(messages, words.plan(plan.content ?? ''));
  }
  if (notice !== null) sayAsUser(messages, notice);
  return messages;
}

function answersIn(stored: readonly StoredMessage[], { digestBefore }: WindowState, words: Words): Map<string, string> {
  const older = stored.filter(({ seq }) => seq !== 0 && seq < digestBefore);
  const digests = digestsOf(older, words);
  return new Map(
    stored.flatMap((one) => {
      const { message } = one;
      return message.role === 'tool' ? [[message.callId, digests.get(one) ?? message.content]] : [];
    }),
  );
}

/** Stands with the task: what is no longer shown, and its summary. */
function sayWhatIsLeftOut(messages: Message[], window: WindowState, summary: Message | undefined, words: Words): void {
  const summed = summary?.role === 'user' ? summary.summary : undefined;
  if (window.windowFrom > (summed?.before ?? 0)) sayAsUser(messages, words.turnsLeftOut());
  if (summary !== undefined && summed !== undefined)
    sayAsUser(messages, words.summary(summary.content ?? '', summed.calls));
}

function sayAsUser(messages: Message[], content: string): void {
  const last = messages.at(-1);
  if (last?.role !== 'user') messages.push({ role: 'user', content });
  else messages[messages.length - 1] = { role: 'user', content: `${last.content}\n\n${content}` };
}
