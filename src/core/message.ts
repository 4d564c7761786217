/**
 * Messages: what the model and the agent said to one another. A message is stored once, under the step that made it, and
 * never changed. Pawl's own shape is provider-neutral; src/openai writes it in a provider's words.
 */
import type { Reason } from './run.js';

export interface ToolCall {
  /** Nine alphanumerics, made by Pawl from the call's seq: unique in a run and accepted by every provider. */
  id: string;
  name: string;
  /** JSON text of an object, always parseable; arguments that were not stand here as an object that shows the fault. */
  arguments: string;
}

/** Words of Pawl's own that were said where the agent was not at hand, so that it can say them in its words. */
export type Said =
  | { word: 'notExecuted'; about: [reason: Reason] }
  | { word: 'toolTimedOut'; about: [name: string, timeoutMs: number, tries: number] };

export type Message =
  /**
   * `summary`: the content is the summary of the turns before that seq; `calls`: a line for each of their last finished calls.
   * `plan`: the content is the plan that the run goes by.
   */
  | { role: 'user'; content: string; summary?: { before: number; calls: string[] }; plan?: true }
  | { role: 'assistant'; content: string | null; toolCalls: ToolCall[]; reasoning?: string }
  /** `error`: the code of the call's error, where it has one; the model is told by the content. `plan`: the one it put in place. */
  | { role: 'tool'; callId: string; name: string; content: string; error?: string; said?: Said; plan?: string };

/**
 * A stored message. (seq, pos) orders the history: the task is (0, 0); an LLM step writes its reply at (its seq, 0); the
 * result of the n-th call of that reply is (the LLM step's seq, n), whenever and in whatever order the calls ended; an
 * objection of Pawl's to a final answer is (its seq, 1). A summary is (its step's seq, 0), and so is a plan; one that stands
 * in a turn which a step leaves out is said again under (that step's seq, carriedPos), so that it is among what is loaded.
 */
export interface StoredMessage {
  seq: number;
  pos: number;
  /** Tokens of the message by the model's tokenizer; null: not counted yet (the task, which clients store uncounted). */
  tokens: number | null;
  message: Message;
}

/** Before the step's own message: its prompt holds the plan already. */
export const carriedPos = -1;

/** What each message costs beside its text: role and separators. */
export const tokensPerMessage = 4;

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz';

/** The step of a call of the run's own; null for an id that was made otherwise. */
export function stepOfCall(id: string): number | null {
  return /^c[0-9a-z]{8}$/.test(id) ? Number.parseInt(id.slice(1), 36) : null;
}

/** The id of the tool call that step `seq` of a run performs: `c` and eight base-36 digits. */
export function callIdOf(seq: number): string {
  let rest = seq;
  let digits = '';
  for (let i = 0; i < 8; i++) {
    digits = `${alphabet[rest % 36]}${digits}`;
    rest = Math.floor(rest / 36);
  }
  return `c${digits}`;
}
