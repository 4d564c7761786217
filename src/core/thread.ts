/**
 * A thread: runs one after another, each of which is shown what the ones before it said. Here stand the rule that lets a run
 * have its turn, and what it takes over from the run before it: whole runs, the newest first, as copies under seqs below 0,
 * so that a run's history stands in its own rows. See context.ts for how they are shown, draft.ts for the wait.
 */
import { assemblePrompt, isPlan, roughTokens } from './context.js';
import type { Draft } from './draft.js';
import { type Message, type StoredMessage, tokensPerMessage } from './message.js';
import { readmit } from './record.js';
import { isFinal, type RunState } from './run.js';
import type { Words } from './words.js';

/** What a thread does with a run that is started while another of it is not at its end. */
export const busyThreads = ['wait', 'refuse'] as const;
export type BusyThread = (typeof busyThreads)[number];

/** Gives a waiting run the thread. The store lets at most one run have it. */
export function takeThread(draft: Draft): void {
  const { run } = draft;
  const mayNot = isFinal(run.status) || run.endingAs !== null || run.pauseAt !== null;
  if (run.threadId === null || run.holdsThread || mayNot) return;
  run.holdsThread = true;
  draft.touch();
  for (const step of draft.open()) if (step.waitingFor === 'slot') readmit(draft, step);
}

/** The last run of the thread that said anything, with the messages it was shown. */
export interface Earlier {
  run: Pick<RunState, 'windowFrom' | 'digestBefore' | 'summarySeq'>;
  messages: readonly StoredMessage[];
}

/**
 * The messages that the first request of a run begins with, at most `roomTokens` of them. Run -1 is the last one, -2 the one
 * before it. Where the last one has no room whole, its task and its answer may.
 */
export function continueThread({ run, messages }: Earlier, roomTokens: number, words: Words): StoredMessage[] {
  const groups = [groupOf(messages, run, words), ...groupsBefore(messages, run.windowFrom)];
  const kept: Message[][] = [];
  let left = roomTokens;
  for (const group of groups) {
    const fits = [group, ...(kept.length === 0 ? [ends(group)] : [])].find((one) => tokensOf(one) <= left);
    if (fits === undefined || fits.length === 0) break;
    kept.push(fits);
    left -= tokensOf(fits);
    if (fits !== group) break;
  }
  return number(kept);
}

/** The run's own part, as it was shown last: its summary in words, its calls as they were answered. */
function groupOf(messages: readonly StoredMessage[], run: Earlier['run'], words: Words): Message[] {
  // Facts and the like, which stand beside the task, are for that run, and so is its plan.
  const own = messages.filter((one) => (one.seq > 0 && !isPlan(one)) || (one.seq === 0 && one.pos === 0));
  return assemblePrompt({ ...run, messages: own, tokens: 0 }, words);
}

/** The parts it had taken over itself, the newest first. */
function groupsBefore(messages: readonly StoredMessage[], windowFrom: number): Message[][] {
  const seqs = [...new Set(messages.map(({ seq }) => seq))].filter((seq) => seq < 0 && seq >= windowFrom);
  return seqs
    .sort((a, b) => b - a)
    .map((of) =>
      messages
        .filter(({ seq }) => seq === of)
        .sort((a, b) => a.pos - b.pos)
        .map(({ message }) => message),
    );
}

function ends(group: readonly Message[]): Message[] {
  const [task] = group;
  const answer = group.findLast((message) => message.role === 'assistant' && message.toolCalls.length === 0);
  return task === undefined || answer === undefined ? [] : [task, answer];
}

function tokensOf(group: readonly Message[]): number {
  return group.reduce((sum, message) => sum + tokensOfOne(message) + tokensPerMessage, 0);
}

function tokensOfOne(message: Message): number {
  if (message.role !== 'assistant') return roughTokens(message.content);
  const calls = message.toolCalls.map((call) => call.name + call.arguments).join('');
  return roughTokens((message.content ?? '') + (message.reasoning ?? '') + calls);
}

/**
 * What a run knows from its beginning on, by the messages of seqs up to 0: facts, and of each earlier run its task, the results
 * of its tools and its answer. What it said besides, and what was objected to, it does not know.
 */
export function knownTexts(messages: readonly StoredMessage[]): string[] {
  const texts = messages.flatMap(({ seq, pos, message }) =>
    seq === 0 && pos > 0 && message.role === 'user' ? [message.content] : [],
  );
  for (const seq of new Set(messages.map((stored) => stored.seq).filter((of) => of < 0))) {
    const group = messages.filter((stored) => stored.seq === seq).map(({ message }) => message);
    const [task] = group;
    const last = group.at(-1);
    if (task?.role === 'user') texts.push(task.content);
    for (const message of group) if (message.role === 'tool') texts.push(message.content);
    if (last?.role === 'assistant' && last.toolCalls.length === 0) texts.push(last.content ?? '');
  }
  return texts;
}

/** With ids of calls that no call of the run itself has: those begin with a c. */
function number(groups: readonly Message[][]): StoredMessage[] {
  let made = 0;
  return groups.flatMap((group, index) => {
    const ids = new Map<string, string>();
    const idOf = (given: string) => {
      const id = ids.get(given) ?? `t${String(++made).padStart(8, '0')}`;
      ids.set(given, id);
      return id;
    };
    return group.map((message, pos) => {
      const renamed =
        message.role === 'tool'
          ? { ...message, callId: idOf(message.callId) }
          : message.role === 'assistant'
            ? { ...message, toolCalls: message.toolCalls.map((call) => ({ ...call, id: idOf(call.id) })) }
            : message;
      return { seq: -1 - index, pos, tokens: tokensOfOne(message), message: renamed };
    });
  });
}
