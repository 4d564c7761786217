/**
 * A conversation as the scripted analyst reads it: which tools were called so far, with what, and what came back. Pure.
 */
import type { Message } from '../core/message.js';

/** A call of the model's that has its result. */
export interface DoneCall {
  name: string;
  args: Record<string, unknown>;
  result: string;
  /** The result, where it is a JSON object. */
  value: Record<string, unknown> | null;
  /** It is one, and reports no error. */
  ok: boolean;
}

export function readCalls(messages: readonly Message[]): DoneCall[] {
  const results = new Map<string, string>();
  for (const message of messages) {
    if (message.role === 'tool') results.set(message.callId, message.content);
  }
  return messages.flatMap((message) => {
    if (message.role !== 'assistant') return [];
    return message.toolCalls.flatMap(({ id, name, arguments: text }) => {
      const result = results.get(id);
      if (result === undefined) return [];
      const value = readObject(result);
      return [{ name, args: readObject(text) ?? {}, result, value, ok: value !== null && value.error === undefined }];
    });
  });
}

function readObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
