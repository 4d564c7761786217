/**
 * The scripted model: what it answers is a function of the request's messages and tools and of a seed. It keeps nothing
 * between requests: what it knows is what it can read in this one, and what it does by habit is drawn by lot from the seed,
 * the task and what it has already done in sight, so that two sides that show it the same get the same.
 * Its habits stand in habits.ts, its understanding in reading.ts. Next: server.ts, which answers with it over HTTP.
 */
import { createHash } from 'node:crypto';
import type { Message } from '../../src/core/message.js';
import type { ScriptedAnswer, ScriptedCall, ScriptedRequest } from '../../src/testing/index.js';
import { tokensOf } from './counting.js';
import { finalAnswer } from './final-answer.js';
import { habits } from './habits.js';
import {
  amountOf,
  type Found,
  halves,
  keyOf,
  type Need,
  needsOf,
  noteOf,
  readListing,
  readNotes,
  readObservation,
  readSums,
  totalLine,
} from './reading.js';

export interface AskedModel extends Pick<ScriptedRequest, 'messages' | 'tools'> {
  /** Of the body: `none` forbids calls. */
  toolChoice?: unknown;
}

/** How often it does what: its habits, or other rates for the same (courses.ts). */
export type Rates = { readonly [Habit in keyof typeof habits]: number };

/** A call in sight with its result. */
interface Pair {
  name: string;
  arguments: string;
  result: string;
  /** Tokens of the messages after the result. */
  under: number;
  /** Place of the result among the messages. */
  at: number;
}

interface View {
  task: string;
  pairs: Pair[];
  /** Places of the messages that speak to the model in the middle of its work. */
  nudges: number[];
  toolNames: string[];
  /** What the model itself wrote down, in its messages or in a summary of its. */
  notes: ReadonlyMap<string, Found>;
  rates: Rates;
  draw(habit: string, ...of: (string | number)[]): number;
}

type Look = { known: Found } | { ask: ScriptedCall[] };

export function answerOf(request: AskedModel, seed: number, rates: Rates = habits): ScriptedAnswer {
  const view = viewOf(request, seed, rates);
  if (isAskedForSummary(request)) return { text: summaryOf(view) };
  const { known, asks } = lookAround(view);
  const needs = needsOf(view.task, known);
  if (needs === null) return { text: 'I do not understand what is asked.' };
  const offered = asks.filter(({ name }) => view.toolNames.includes(name) || isInvented(name));
  if (offered.length === 0 || view.toolNames.length === 0) return { text: finalAnswer(view.task, known) };
  const isHasty = known.size > 0 && view.draw('answersTooSoon', known.size) < view.rates.answersTooSoon;
  if (isHasty) return { text: finalAnswer(view.task, known) };
  if (givesUp(view)) return { text: 'I could not get the figures: the tool keeps failing.' };
  const mayAskAtOnce = offered.length > 1 && !view.task.includes('one after the other');
  const together = mayAskAtOnce && view.draw('asksAtOnce', known.size) < view.rates.asksAtOnce;
  const noted = needs.flatMap((need) => {
    const found = known.get(need.id);
    const isNew = found !== undefined && !view.notes.has(keyOf(need));
    return isNew && view.draw('notes', need.id) < view.rates.notesWhatItFound ? [noteOf(need, found)] : [];
  });
  const calls = distinct(together ? offered : offered.slice(0, 1));
  return noted.length > 0 ? { text: noted.join('\n'), calls } : { calls };
}

function isAskedForSummary({ messages }: AskedModel): boolean {
  const last = messages.at(-1);
  return messages.length > 1 && last?.role === 'user' && /\bsummar(y|i[sz]e)\b|摘要|总结/i.test(last.content);
}

/** The task in a sentence, and whatever is known of it. */
function summaryOf(view: View): string {
  const { known } = lookAround(view);
  const notes = (needsOf(view.task, known) ?? []).flatMap((need) => {
    const found = known.get(need.id);
    return found === undefined ? [] : [noteOf(need, found)];
  });
  return [`Asked: ${view.task}`, ...notes].join('\n');
}

/** What is known, and what is asked for: what is found out may say what else is needed. */
function lookAround(view: View): { known: Map<string, Found>; asks: ScriptedCall[] } {
  const known = new Map<string, Found>();
  const asks: ScriptedCall[] = [];
  for (let before = -1; before < known.size; ) {
    before = known.size;
    asks.length = 0;
    for (const need of needsOf(view.task, known) ?? []) {
      if (known.has(need.id)) continue;
      const look = lookFor(view, need);
      if ('known' in look) known.set(need.id, look.known);
      else asks.push(...look.ask);
    }
  }
  return { known, asks };
}

function viewOf({ messages, tools, toolChoice }: AskedModel, seed: number, rates: Rates): View {
  const task = messages.find(({ role }) => role === 'user')?.content?.split('\n\n')[0] ?? '';
  const results = new Map(
    messages.flatMap((message, at) => (message.role === 'tool' ? [[message.callId, { at, message }] as const] : [])),
  );
  const sizes = messages.map(sizeOf);
  const pairs = messages.flatMap((message) => {
    if (message.role !== 'assistant') return [];
    return message.toolCalls.flatMap((call): Pair[] => {
      const result = results.get(call.id);
      if (result === undefined) return [];
      const under = sizes.slice(result.at + 1).reduce((sum, size) => sum + size, 0);
      return [{ name: call.name, arguments: call.arguments, result: result.message.content, under, at: result.at }];
    });
  });
  const first = messages.findIndex(({ role }) => role === 'user');
  const nudges = messages.flatMap(({ role }, at) => (role === 'user' && at > first ? [at] : []));
  const draw = (habit: string, ...of: (string | number)[]) => {
    const bytes = createHash('sha256')
      .update(JSON.stringify([seed, task, habit, ...of]))
      .digest();
    return bytes.readUInt32BE(0) / 2 ** 32;
  };
  const toolNames = toolChoice === 'none' ? [] : tools.map(({ name }) => name);
  const notes = readNotes(messages.map(({ role, content }) => (role === 'tool' ? '' : (content ?? ''))).join('\n'));
  return { task, pairs, nudges, toolNames, notes, rates, draw };
}

function sizeOf(message: Message): number {
  const calls = message.role === 'assistant' ? message.toolCalls.map((call) => call.name + call.arguments) : [];
  return tokensOf((message.content ?? '') + calls.join(''));
}

/** What is known of a need, or what is asked for to know it. */
function lookFor(view: View, need: Need): Look {
  const mine = view.pairs.filter((pair) => isFor(pair, need));
  const good = mine.filter((pair) => isResult(pair, need));
  const last = good.at(-1);
  if (last !== undefined) return recall(view, need, good, last);
  const noted = view.notes.get(keyOf(need));
  if (noted !== undefined) return { known: noted };
  const inHalves = lookInHalves(view, need);
  if (inHalves !== null) return inHalves;
  const failures = mine.filter(({ result }) => readObservation(result, Object.keys(need.args)).isFailure);
  const failure = failures.at(-1);
  if (failure === undefined) return { ask: [firstCall(view, need, mine.length)] };
  return afterFailure(view, need, failures, failure);
}

/** A pair belongs to a need whose days, filters and field it names: the arguments may have been refused, and shown in another form. */
function isFor(pair: Pair, need: Need): boolean {
  const { from, to, group_by: field, region, category } = need.args;
  const text = pair.arguments.replaceAll('\\', '');
  const values = [from, to, region, category].filter((value) => value !== undefined);
  if (!values.every((value) => text.includes(`"${value}"`))) return false;
  if (need.tool === 'list_orders') return !text.includes('group_by');
  const fieldWords = [field, ...(need.misled?.field === 'group_by' ? [need.misled.word] : [])];
  return fieldWords.some((word) => text.includes(`"group_by":"${word}"`) || text.includes(`"group_by": "${word}"`));
}

function isResult(pair: Pair, need: Need): boolean {
  if (need.wants === 'total' && totalLine.test(pair.result)) return true;
  return need.tool === 'query_orders' ? readSums(pair.result) !== null : readListing(pair.result) !== null;
}

/** What stands in the newest of the results, unless it is lost in what came after. */
function recall(view: View, need: Need, good: Pair[], last: Pair): Look {
  const again = { ask: [callOf(need)] };
  const heeds = view.nudges.some((at) => at > last.at) && view.draw('nudge', need.id) >= view.rates.ignoresNudge;
  const noted = view.notes.get(keyOf(need));
  if (noted !== undefined) return { known: noted };
  const isBuried = last.under > view.rates.buriedBeyondTokens;
  if (isBuried && !heeds && view.draw('buried', need.id, good.length) < view.rates.losesBuried) return again;
  const isSure = good.length > 1 || heeds || last.under > 0;
  if (!isSure && view.draw('again', need.id) < view.rates.checksAgain) return again;
  if (need.tool === 'query_orders') return { known: { sums: readSums(last.result) ?? new Map() } };
  return recallListing(view, need, good, last);
}

function recallListing(view: View, need: Need, good: Pair[], last: Pair): Look {
  const ordered = good.findLast(({ arguments: given }) => given.includes('"amount"'));
  const listing = readListing((ordered ?? last).result);
  const lines = listing?.lines ?? [];
  const ask = { ask: [callOf(need, { sort_by: 'amount', limit: 5 })] };
  if (need.wants === 'total') {
    const total = good.map(({ result }) => totalLine.exec(result)?.[0]).findLast((line) => line !== undefined);
    return total === undefined ? ask : { known: found(total) };
  }
  if (need.wants === 'first') {
    const unordered = good.findLast(({ arguments: given }) => !given.includes('"amount"'));
    const [first] = readListing(unordered?.result ?? '')?.lines ?? [];
    return first === undefined ? { ask: [callOf(need, { limit: 5 })] } : { known: found(first) };
  }
  if (ordered !== undefined) return { known: found(lines[0] ?? '') };
  if (listing?.isCut && view.draw('trustsCut', need.id) >= view.rates.trustsCut) return ask;
  const bySize = [...lines].sort((a, b) => amountOf(b) - amountOf(a));
  const [largest = '', next = ''] = bySize;
  const place = lines.indexOf(largest) / Math.max(1, lines.length - 1);
  const isInMiddle = tokensOf(last.result) > view.rates.longResultTokens && place > 0.2 && place < 0.8;
  const overlooks = isInMiddle && view.draw('overlooks', need.id) < view.rates.overlooksMiddle;
  return { known: found(overlooks ? next : largest) };
}

function found(line: string): Found {
  return { line, amount: /([\d.]+)$/.exec(line)?.[1] ?? '' };
}

/** The halves of a span, where they were asked for already; null: they were not. */
function lookInHalves(view: View, need: Need): Look | null {
  if (need.tool !== 'query_orders' || need.args.from === need.args.to) return null;
  const parts = halves(need);
  if (!parts.some((part) => view.pairs.some((pair) => isFor(pair, part)))) return null;
  const looks = parts.map((part) => lookFor(view, part));
  const ask = looks.flatMap((look) => ('ask' in look ? look.ask : []));
  if (ask.length > 0) return { ask };
  const sums = new Map<string, number>();
  for (const look of looks) {
    if (!('known' in look) || !('sums' in look.known)) continue;
    for (const [key, value] of look.known.sums) sums.set(key, Math.round(((sums.get(key) ?? 0) + value) * 100) / 100);
  }
  return { known: { sums } };
}

/** The first call for a need, or the first that is still in sight. */
function firstCall(view: View, need: Need, before: number): ScriptedCall {
  const { misled } = need;
  if (misled && view.draw('misled', need.id) < view.rates.takesTheWordOfTheTask) return misledCall(need);
  if (view.draw('invents', need.id, before) < view.rates.inventsTool)
    return { ...callOf(need), name: inventedName(need.tool) };
  if (need.tool === 'query_orders' && view.draw('forgets', need.id, before) < view.rates.forgetsField) {
    const { measure: _, ...rest } = need.args;
    return { name: need.tool, arguments: rest };
  }
  const sorts = need.wants === 'largest' && view.draw('sorts', need.id) < view.rates.sortsAtOnce;
  return callOf(need, sorts ? { sort_by: 'amount', limit: 5 } : {});
}

function misledCall(need: Need): ScriptedCall {
  const { field = '', word = null } = need.misled ?? {};
  const { [field]: _, ...rest } = need.args;
  return { name: need.tool, arguments: word === null ? rest : { ...rest, [field]: word } };
}

/** What follows a failure: another way, or the same call again. */
function afterFailure(view: View, need: Need, failures: Pair[], last: Pair): Look {
  const said = readObservation(last.result, ['from', 'to', 'measure', 'group_by', 'region', 'category']);
  const rate = leavingRate(view.rates, said) * view.rates.repetitionFeedsItself ** (failures.length - 1);
  const nudges = view.nudges.filter((at) => at > last.at);
  const heeds = nudges.length > 0 && view.draw('nudge', need.id, failures.length) >= view.rates.ignoresNudge;
  const leaves = heeds || view.draw('leaves', need.id, failures.length) < rate;
  if (!leaves) return { ask: [sameAgain(need, last)] };
  const isMended = !said.isTimeout && (said.isAboutArguments || said.isUnknownTool);
  if (isMended || need.tool !== 'query_orders' || need.args.from === need.args.to) return { ask: [callOf(need)] };
  return { ask: halves(need).map((part) => callOf(part)) };
}

function leavingRate(rates: Rates, said: ReturnType<typeof readObservation>): number {
  if (said.isTimeout) return said.saysToNarrow ? rates.narrowsToldTo : rates.narrowsToldTimeout;
  if (said.isUnknownTool) return said.listsTools ? rates.mendsToldFieldAndExpected : rates.mendsToldField;
  if (said.isAboutArguments && said.namesField)
    return said.saysExpected ? rates.mendsToldFieldAndExpected : rates.mendsToldField;
  if (said.isAboutArguments) return rates.mendsToldNothing;
  return said.saysToNarrow ? rates.narrowsToldTo : rates.leavesFailure;
}

/** The call that failed, as far as it can be read; refused arguments may be shown in another form. */
function sameAgain(need: Need, { name, arguments: given }: Pair): ScriptedCall {
  const args = asObject(given);
  const inside = Object.values(args).find((value) => typeof value === 'string' && value.startsWith('{'));
  const shown = inside === undefined ? args : asObject(String(inside));
  return { name, arguments: 'from' in shown ? shown : need.args };
}

function asObject(text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function callOf(need: Need, more: Record<string, unknown> = {}): ScriptedCall {
  return { name: need.tool, arguments: { ...need.args, ...more } };
}

function inventedName(tool: string): string {
  return tool === 'query_orders' ? 'search_orders' : 'get_orders';
}

function isInvented(name: string): boolean {
  return name === 'search_orders' || name === 'get_orders';
}

function givesUp(view: View): boolean {
  let failures = 0;
  for (const { result } of view.pairs.toReversed()) {
    const isData = readSums(result) !== null || readListing(result) !== null;
    if (isData || !readObservation(result, []).isFailure) break;
    failures += 1;
  }
  return failures >= view.rates.failuresInARow && view.draw('givesUp', failures) < view.rates.givesUp;
}

function distinct(calls: ScriptedCall[]): ScriptedCall[] {
  return [...new Map(calls.map((call) => [JSON.stringify(call), call])).values()];
}
