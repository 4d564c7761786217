/**
 * A tool result as one line: what was called, how long the answer was and how it begins. Pure, and the same for the same
 * call, so that a prompt in which results were shortened stays the same from then on.
 */
import { cleanText } from './json-writer.js';
import { type StoredMessage, stepOfCall, type ToolCall } from './message.js';
import type { Words } from './words.js';

interface Shown {
  argumentChars: number;
  resultChars: number;
}

const inPlace: Shown = { argumentChars: 120, resultChars: 200 };
const inSummary: Shown = { argumentChars: 80, resultChars: 80 };

/** The digests of the tool results that one shortens to less than half. */
export function digestsOf(stored: readonly StoredMessage[], words: Words): Map<StoredMessage, string> {
  const calls = callsIn(stored);
  const digests = new Map<StoredMessage, string>();
  for (const one of stored) {
    if (one.message.role !== 'tool') continue;
    const { callId, content } = one.message;
    // Whatever the arguments, a digest is longer than this.
    const call = content.length > inPlace.resultChars ? calls.get(callId) : undefined;
    if (call === undefined) continue;
    const digest = words.digest(digestLine(call, content, words, inPlace));
    if (digest.length * 2 < content.length) digests.set(one, digest);
  }
  return digests;
}

/** Of each call that was answered, one line. */
export function callLines(stored: readonly StoredMessage[], words: Words): string[] {
  const calls = callsIn(stored);
  return stored.flatMap(({ message }) => {
    const call = message.role === 'tool' ? calls.get(message.callId) : undefined;
    return call === undefined ? [] : [digestLine(call, message.content ?? '', words, inSummary)];
  });
}

function callsIn(stored: readonly StoredMessage[]): Map<string, ToolCall> {
  return new Map(
    stored.flatMap(({ message }) =>
      message.role === 'assistant' ? message.toolCalls.map((call): [string, ToolCall] => [call.id, call]) : [],
    ),
  );
}

function digestLine({ id, name, arguments: given }: ToolCall, content: string, words: Words, shown: Shown): string {
  const call = `${name} ${begin(given, shown.argumentChars)}`;
  return words.digestLine({
    call,
    step: stepOfCall(id),
    chars: content.length,
    begins: begin(content, shown.resultChars),
  });
}

function begin(text: string, chars: number): string {
  const line = text
    .slice(0, chars * 2)
    .replace(/\s+/g, ' ')
    .trim();
  return line.length <= chars && text.length <= chars * 2 ? line : `${cleanText(line.slice(0, chars))}…`;
}
