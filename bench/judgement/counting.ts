/** What a request and its answer count for, in tokens of four characters each: for the server, and for courses that need none. */
import { createHash } from 'node:crypto';
import type { ToolCall } from '../../src/core/message.js';
import type { ScriptedAnswer, ScriptedRequest } from '../../src/testing/index.js';

export const tokensOf = (text: string) => Math.ceil(text.length / 4);

/** The text that a provider would make the prompt of: tools, instructions, then the messages in their order. */
export function promptOf({ tools, system, messages }: Pick<ScriptedRequest, 'tools' | 'system' | 'messages'>): string {
  return JSON.stringify([tools, system, ...messages]);
}

/** The calls of an answer, with ids that follow from the prompt. */
export function callsOf(answer: ScriptedAnswer, prompt: string): ToolCall[] {
  return (answer.calls ?? []).map((call, at) => {
    const id = createHash('sha256').update(`${prompt} ${at}`).digest('hex').slice(0, 9);
    return { name: call.name, arguments: JSON.stringify(call.arguments), id };
  });
}

export function saidTokensOf(answer: ScriptedAnswer, calls: readonly ToolCall[]): number {
  return tokensOf(JSON.stringify([answer.text ?? '', calls]));
}
