/**
 * Likeness by vectors: how near two texts are, facts in the order of their relevance to a query, and calls that say the same
 * in other words. Pure: who makes the vectors is engine/embeddings.ts. What has no vector is judged by its words alone.
 */
import { type KnownFact, wordsIn } from './fact.js';
import type { StoredMessage } from './message.js';

export type Vector = Float32Array;

/** The cosine of the angle between two vectors: 1 for the same direction; 0 where they cannot be compared. */
export function cosine(a: Vector, b: Vector): number {
  if (a.length !== b.length) return 0;
  let dot = 0;
  let ofA = 0;
  let ofB = 0;
  for (let at = 0; at < a.length; at++) {
    const [x = 0, y = 0] = [a[at], b[at]];
    dot += x * y;
    ofA += x * x;
    ofB += y * y;
  }
  return ofA === 0 || ofB === 0 ? 0 : dot / Math.sqrt(ofA * ofB);
}

/** A fact that may be recalled. */
export interface Candidate {
  id: number;
  fact: KnownFact;
  /** By full text; 0: no word of the query is found in it. */
  relevance: number;
  /** Null: none is kept of the model in use. */
  vector: Vector | null;
}

/** A cosine below this is no find: models give unrelated texts 0 to 0.2, and related ones 0.3 and more. */
const nearest = 0.25;
/** Of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): the sum of 1 / (60 + rank) over the lists that name a fact. */
const steadiness = 60;
/** Full text also finds facts by a "the" that they share with the query. */
const weightOfWords = 0.5;

/**
 * The most relevant facts, by their nearness to the query and by its words. `found`: as full text orders them. `all`: also
 * those of no relevance, behind the others.
 */
export function rankFacts(
  found: readonly Candidate[],
  query: Vector,
  { most, all }: { most: number; all: boolean },
): KnownFact[] {
  const scores = new Map<Candidate, number>();
  const add = (ranked: readonly Candidate[], weight: number) => {
    for (const [rank, candidate] of ranked.entries())
      scores.set(candidate, (scores.get(candidate) ?? 0) + weight / (steadiness + rank + 1));
  };
  const near = found
    .map((candidate) => ({ candidate, near: candidate.vector === null ? 0 : cosine(candidate.vector, query) }))
    .filter(({ near }) => near >= nearest)
    .sort((a, b) => b.near - a.near);
  add(
    near.map(({ candidate }) => candidate),
    1,
  );
  add(
    found.filter(({ relevance }) => relevance > 0),
    weightOfWords,
  );
  const scoreOf = (candidate: Candidate) => scores.get(candidate) ?? 0;
  return found
    .filter((candidate) => all || scoreOf(candidate) > 0)
    .sort((a, b) => scoreOf(b) - scoreOf(a))
    .slice(0, most)
    .map(({ fact }) => fact);
}

/** A call that was answered. */
interface Answered {
  name: string;
  arguments: string;
  result: string;
  withheld: boolean;
}

/** What a turn asked for, by its calls, and with what results. */
export type AskedTurn = readonly Answered[];

/** The turns of a history whose calls are all answered, the newest first. */
export function askedTurns(messages: readonly StoredMessage[], most: number): AskedTurn[] {
  const turns: AskedTurn[] = [];
  for (let at = messages.length - 1; at >= 0 && turns.length < most; at--) {
    const stored = messages[at];
    if (stored === undefined || stored.seq <= 0) break;
    const { seq, message } = stored;
    if (message.role !== 'assistant' || message.toolCalls.length === 0) continue;
    const results = new Map(
      messages.flatMap((one) =>
        one.seq === seq && one.message.role === 'tool' ? [[one.message.callId, one.message]] : [],
      ),
    );
    const calls = message.toolCalls.flatMap(({ id, name, arguments: given }): Answered[] => {
      const result = results.get(id);
      if (result === undefined) return [];
      return [{ name, arguments: given, result: result.content, withheld: result.error === 'withheld' }];
    });
    if (calls.length < message.toolCalls.length) break;
    turns.push(calls);
  }
  return turns;
}

/** Texts of two calls' arguments whose nearness decides whether the calls ask for the same; null: they cannot. */
export type Wordings = readonly [string, string][] | null;

/**
 * What has to be near for two turns to have asked for the same: the same tools in the same order with the same results, and
 * arguments that differ in their words alone. Numbers, switches and names of fields are never worded otherwise, so that who
 * turns pages is not taken for one who repeats himself. `results`: whether they have to be the same as well.
 */
export function wordingsOf(
  turn: readonly Pick<Answered, 'name' | 'arguments'>[],
  other: AskedTurn,
  results?: AskedTurn,
): Wordings {
  if (turn.length === 0 || turn.length !== other.length) return null;
  const wordings: [string, string][] = [];
  for (const [at, call] of turn.entries()) {
    const before = other[at];
    if (before === undefined || before.name !== call.name) return null;
    const now = results?.[at];
    if (now !== undefined && now.result !== before.result && !now.withheld && !before.withheld) return null;
    if (call.arguments === before.arguments) continue;
    if (Math.max(call.arguments.length, before.arguments.length) > longestSaid) return null;
    const [mine, its] = [partsOf(call.arguments), partsOf(before.arguments)];
    if (mine.rest !== its.rest) return null;
    if (mine.text === its.text) continue;
    if (!isSaid(mine.text) || !isSaid(its.text)) return null;
    wordings.push([mine.text, its.text]);
  }
  return wordings;
}

const leastWords = 3;
/** Characters of arguments beyond which they are content, and no question. */
const longestSaid = 4_000;

/** Names and code that differ by a letter are near to one another, and mean something else. */
function isSaid(text: string): boolean {
  return /^[\p{L}\p{M}\p{N}\s.,:?!'"’“”&、。,:?!「」《》-]*$/u.test(text) && wordsIn(text).length >= leastWords;
}

/** A call's words, and all the rest that it says: fields, numbers, the digits within its words. */
function partsOf(given: string): { text: string; rest: string } {
  const texts: string[] = [];
  const rest = JSON.stringify(parsed(given), (_, value: unknown) => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
    if (typeof value !== 'string') return value;
    texts.push(value);
    return (value.match(/\d+/g) ?? []).join(' ');
  });
  return { text: texts.join('\n').trim(), rest };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
