/**
 * Tool calls for models that have no function calling: the tools are described in the instructions, calls come as one JSON
 * object in place of an answer, results go back as a message. History is kept as for any other agent, and put into this form
 * when it is sent. Read strictly: what looks like a call and is none goes back to the model, and never runs or passes for an
 * answer. The words of it stand in words.ts.
 */
import { describeThrown } from './errors.js';
import type { Message } from './message.js';
import type { JsonSchema } from './schema.js';
import type { Words } from './words.js';

/** The one field of an object that asks for tools. */
export const callsField = 'call_tools';

export interface DescribedTool {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** The instructions with the tools and the way to call them; the same bytes for the whole run. */
export function instructInJson(
  {
    instructions,
    tools,
    outputSchema,
  }: { instructions: string; tools: readonly DescribedTool[]; outputSchema: JsonSchema | null },
  words: Words,
): string {
  if (tools.length === 0) return instructions;
  const described = tools.map(({ name, description, parameters }) => JSON.stringify({ name, description, parameters }));
  return `${instructions}\n\n${words.jsonCalls(described, outputSchema === null ? null : JSON.stringify(outputSchema))}`;
}

/** Calls as the model would have written them, and their results as what it is told. */
export function historyInJson(messages: readonly Message[], words: Words): Message[] {
  const told: Message[] = [];
  const say = (content: string) => {
    const last = told.at(-1);
    if (last?.role === 'user') told[told.length - 1] = { role: 'user', content: `${last.content}\n\n${content}` };
    else told.push({ role: 'user', content });
  };
  for (const message of messages) {
    if (message.role === 'user') say(message.content);
    else if (message.role === 'tool') say(words.jsonResult(message.name, message.content));
    else {
      const { toolCalls, ...rest } = message;
      const content = toolCalls.length === 0 ? message.content : writeCalls(toolCalls);
      told.push({ ...rest, content, toolCalls: [] });
    }
  }
  return told;
}

function writeCalls(calls: readonly { name: string; arguments: string }[]): string {
  const written = calls.map((call) => `{"name":${JSON.stringify(call.name)},"arguments":${call.arguments}}`);
  return `{"${callsField}":[${written.join(',')}]}`;
}

type Read =
  | { is: 'answer' }
  | { is: 'calls'; calls: { name: string; arguments: string }[] }
  | { is: 'unreadable'; problem: string };

/** What the text of a reply is. A code fence around the whole is taken off. */
export function readJsonCalls(content: string): Read {
  const text = content.trim();
  const json = /^```[a-z]*\s*\n([\s\S]*?)\n?```$/i.exec(text)?.[1] ?? text;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    // An answer may speak of anything, but not begin as a call does.
    const seems = new RegExp(`\\{\\s*"${callsField}"\\s*:`).test(text);
    return seems ? { is: 'unreadable', problem: describeThrown(thrown).slice(0, 200) } : { is: 'answer' };
  }
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, callsField)) return { is: 'answer' };
  const { [callsField]: calls, ...rest } = value as Record<string, unknown>;
  const beside = Object.keys(rest);
  if (beside.length > 0)
    return { is: 'unreadable', problem: `beside ${callsField} stands ${beside.slice(0, 5).join(', ')}` };
  if (!Array.isArray(calls) || calls.length === 0)
    return { is: 'unreadable', problem: `${callsField} is no list of calls` };
  const read = calls.map(readCall);
  const bad = read.indexOf(null);
  if (bad >= 0) return { is: 'unreadable', problem: `${callsField}[${bad}] is not {"name": …, "arguments": {…}}` };
  return { is: 'calls', calls: read.filter((call) => call !== null) };
}

/** Arguments are checked as those of any call; here only that the call is one. */
function readCall(call: unknown): { name: string; arguments: string } | null {
  if (typeof call !== 'object' || call === null || Array.isArray(call)) return null;
  const { name, arguments: given = {}, ...rest } = call as Record<string, unknown>;
  if (typeof name !== 'string' || Object.keys(rest).length > 0) return null;
  return { name, arguments: typeof given === 'string' ? given : JSON.stringify(given) };
}
