/**
 * Plays a task with the scripted model and with no loop to speak of: each call is done at once, each failure told in the
 * plainest words, and the clock is counted, not waited for. What is counted is what no loop gets under: of each prompt the
 * tools, the instructions and the task, without the history; of the time the model's own, and that of queries which cannot
 * answer. Next: bounds.ts, which plays all tasks so.
 */
import { z } from 'zod';
import type { Message, ToolCall } from '../../src/core/message.js';
import type { ToolSpec } from '../../src/ports.js';
import { callsOf, promptOf, saidTokensOf, tokensOf } from './counting.js';
import { daysOf, type Order } from './data.js';
import { pace } from './habits.js';
import { answerOf, type Rates } from './model.js';
import { type Trial, trialOf } from './play.js';
import { halves, readSums } from './reading.js';
import type { Served } from './server.js';
import { instructions } from './side.js';
import type { Task } from './tasks.js';
import {
  listDescription,
  listInput,
  type QueryArgs,
  queryDescription,
  queryInput,
  toolTimeoutMs,
  Warehouse,
  widestDays,
} from './tools.js';

export interface Course {
  rates: Rates;
  /** A query over too many days is answered, as two would be. */
  answersWide?: boolean;
  /** A listing is shown without its middle. */
  cutsListings?: boolean;
  /** Words that the model is shown after each turn's results. */
  wordAfter?: string;
}

export interface Setting {
  name: string;
  task: Task;
  seed: number;
  orders: readonly Order[];
}

interface Done {
  content: string;
  isResult: boolean;
  ms: number;
}

/** The schemas alone, in the fewest words that JSON Schema has for them. */
const tools: ToolSpec[] = [
  { name: 'query_orders', description: queryDescription, parameters: schemaOf(queryInput) },
  { name: 'list_orders', description: listDescription, parameters: schemaOf(listInput) },
];
/** More than any course takes that is played for a bound: one that comes here repeats itself. */
const mostRounds = 40;

export async function playCourse(course: Course, { name, task, seed, orders }: Setting): Promise<Trial> {
  // What is cold answers a loop that tries again, at best as fast as if it were not.
  const warehouse = new Warehouse(orders, []);
  const messages: Message[] = [{ role: 'user', content: task.text }];
  const head = promptOf({ tools, system: instructions, messages });
  const served: Served[] = [];
  const results: boolean[] = [];
  let ms = 0;
  for (;;) {
    const answer = answerOf({ messages, tools }, seed, course.rates);
    const calls = callsOf(answer, promptOf({ tools, system: instructions, messages }));
    served.push({ task: task.text, promptTokens: tokensOf(head), cachedTokens: 0, calls });
    ms += pace.firstTokenMs + saidTokensOf(answer, calls) * pace.msPerToken;
    const isOver = served.length > mostRounds;
    if (calls.length === 0 || isOver) {
      const ended = isOver ? 'max_rounds' : 'completed';
      const played = { answer: answer.text ?? null, ended, endedAtLimit: isOver, calls: results, ms };
      return trialOf({ side: name, seed, task, played, served });
    }
    const done = await Promise.all(calls.map((call) => perform(warehouse, call, course)));
    results.push(...done.map(({ isResult }) => isResult));
    ms += Math.max(...done.map((one) => one.ms));
    messages.push({ role: 'assistant', content: answer.text ?? null, toolCalls: calls });
    calls.forEach((call, at) => {
      messages.push({ role: 'tool', callId: call.id, name: call.name, content: done[at]?.content ?? '' });
    });
    if (course.wordAfter !== undefined) messages.push({ role: 'assistant', content: course.wordAfter, toolCalls: [] });
  }
}

async function perform(warehouse: Warehouse, call: ToolCall, course: Course): Promise<Done> {
  const given = JSON.parse(call.arguments) as unknown;
  if (call.name === 'query_orders') {
    const args = queryInput.safeParse(given);
    if (!args.success) return refused(args.error);
    const isWide = daysOf(args.data.from, args.data.to) > widestDays;
    if (isWide && !course.answersWide) return timedOut;
    return result(await (isWide ? queryInHalves(warehouse, args.data) : warehouse.query(args.data, unused)));
  }
  if (call.name === 'list_orders') {
    const args = listInput.safeParse(given);
    if (!args.success) return refused(args.error);
    const listing = await warehouse.list(args.data, unused);
    return result(course.cutsListings && args.data.limit === undefined ? withoutMiddle(listing) : listing);
  }
  const content = `There is no tool ${call.name}: there are query_orders and list_orders.`;
  return { content, isResult: false, ms: 0 };
}

/** Nothing that is asked with it takes longer than it is waited for. */
const unused = new AbortController().signal;
const timedOut: Done = { content: 'The call timed out: ask for fewer days.', isResult: false, ms: toolTimeoutMs };

function result(content: string): Done {
  return { content, isResult: true, ms: 0 };
}

function refused({ issues }: z.ZodError): Done {
  const told = issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
  return { content: `The arguments are invalid: ${told}`, isResult: false, ms: 0 };
}

async function queryInHalves(warehouse: Warehouse, { from, to, ...rest }: QueryArgs): Promise<string> {
  const sums = new Map<string, number>();
  for (const part of halves({ id: '', tool: 'query_orders', args: { from, to } })) {
    const span = { from: String(part.args.from), to: String(part.args.to) };
    for (const [key, value] of readSums(await warehouse.query({ ...rest, ...span }, unused)) ?? [])
      sums.set(key, Math.round(((sums.get(key) ?? 0) + value) * 100) / 100);
  }
  return JSON.stringify({ rows: [...sums].map(([key, value]) => ({ key, value })) });
}

/** Its head, its first order and its total. */
function withoutMiddle(listing: string): string {
  const lines = listing.split('\n');
  return lines.length < 4 ? listing : [...lines.slice(0, 2), '…', lines.at(-1)].join('\n');
}

function schemaOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, additionalProperties: __, ...rest } = z.toJSONSchema(schema);
  return rest;
}
