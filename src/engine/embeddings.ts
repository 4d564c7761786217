/**
 * The embedding model at work: facts ranked by their meaning, and calls that say the same in other words. It is asked for what
 * has no vector yet and for nothing else, and it is never in the way: what it does not answer is judged by words alone, and an
 * endpoint that failed is left alone for a while. What it costs is the step's that asked. The rules are core/likeness.ts.
 */
import { roughTokens } from '../core/context.js';
import { describeThrown } from '../core/errors.js';
import type { FactReader, KnownFact } from '../core/fact.js';
import {
  type AskedTurn,
  askedTurns,
  cosine,
  rankFacts,
  type Vector,
  type Wordings,
  wordingsOf,
} from '../core/likeness.js';
import type { LoopRule } from '../core/loop.js';
import type { StoredMessage } from '../core/message.js';
import { costOf, noUsage } from '../core/run.js';
import type { Clock, Embedder, Log, Store } from '../ports.js';
import { type Call, raceCall } from './calls.js';

/** Facts that are compared with a query, those with its words and the newest. */
const mostRanked = 500;
/** Facts that one recall asks vectors for; the others have their turn at the next. */
const mostNew = 100;
/** Texts of one request: some providers take no more. */
const batchSize = 10;
/** What is embedded of a text: models take some 8,000 tokens. */
const shownChars = 6_000;
const timeoutMs = 10_000;
const restMs = 30_000;
/** Of queries and wordings; a vector is some 6 kB. */
const keptVectors = 500;
/** Turns looked back on for calls in other words. */
const mostTurns = 40;

export class Embeddings {
  private readonly kept = new Map<string, Vector>();
  private restsUntilMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly parts: { embedder: Embedder; store: Store; clock: Clock; log: Log }) {}

  /** Facts by relevance to the query; by full text where the model does not answer. */
  async recall(
    call: Call,
    reader: FactReader,
    asked: { query: string; most: number; all: boolean },
  ): Promise<KnownFact[]> {
    const { store, embedder } = this.parts;
    const query = asked.query.trim();
    if (query === '') return store.recall(reader, asked);
    const found = await store.factsToRank(reader, { query, model: embedder.model, most: mostRanked });
    if (found.length === 0) return [];
    const unknown = found.filter(({ vector }) => vector === null).slice(0, mostNew);
    const textOf = ({ fact: { key, value } }: (typeof found)[number]) => `${key}: ${value}`;
    const vectors = await this.vectorsOf(call, [query, ...unknown.map(textOf)]);
    const near = vectors.get(query);
    if (near === undefined) return store.recall(reader, asked);
    const learnt = unknown.flatMap((candidate) => {
      const vector = vectors.get(textOf(candidate));
      return vector === undefined ? [] : [{ ...candidate, vector }];
    });
    await this.keep(learnt);
    const byId = new Map(learnt.map((candidate) => [candidate.id, candidate]));
    return rankFacts(
      found.map((candidate) => byId.get(candidate.id) ?? candidate),
      near,
      asked,
    );
  }

  /** A vector that is not kept is asked for again by the next recall. */
  private async keep(learnt: readonly { id: number; vector: Vector }[]): Promise<void> {
    if (learnt.length === 0) return;
    try {
      await this.parts.store.keepVectors(this.parts.embedder.model, learnt);
    } catch (error) {
      this.parts.log.warn({ cause: describeThrown(error) }, 'the vectors of facts could not be kept');
    }
  }

  /** By distance, from 1: turns in a row that asked for what the turn so many before them did, and got the same. */
  async alikeTurns(call: Call, messages: readonly StoredMessage[], rule: LoopRule): Promise<number[]> {
    const turns = askedTurns(messages, Math.min(mostTurns, rule.cycle * (rule.identicalCalls + 2)));
    const alike: number[] = [];
    for (let period = 1; period <= rule.cycle; period++) {
      const wordings = wordingsBack(turns, period);
      const mayMatter =
        wordings.length >= period * (rule.identicalCalls - 1) && wordings.some(({ length }) => length > 0);
      alike.push(mayMatter ? await this.countNear(call, wordings, rule.likeness) : 0);
    }
    return alike;
  }

  /** Whether calls that a reply asks for say what a turn before them said. */
  async sayTheSame(
    call: Call,
    asked: readonly { name: string; arguments: string }[],
    { messages, period, likeness }: { messages: readonly StoredMessage[]; period: number; likeness: number },
  ): Promise<boolean> {
    const before = askedTurns(messages, period)[period - 1];
    const wordings = before === undefined ? null : wordingsOf(asked, before);
    return wordings !== null && (await this.countNear(call, [wordings], likeness)) === 1;
  }

  /** How many of these, from the first on, are near enough. */
  private async countNear(call: Call, wordings: readonly NonNullable<Wordings>[], likeness: number): Promise<number> {
    const vectors = await this.vectorsOf(call, wordings.flat(2));
    const isNear = ([a, b]: readonly [string, string]) => {
      const [one, other] = [vectors.get(a), vectors.get(b)];
      return one !== undefined && other !== undefined && cosine(one, other) >= likeness;
    };
    const end = wordings.findIndex((pairs) => !pairs.every(isNear));
    return end < 0 ? wordings.length : end;
  }

  /** The vectors of the texts, as many as the model gives. */
  private async vectorsOf(call: Call, texts: readonly string[]): Promise<Map<string, Vector>> {
    const vectors = new Map<string, Vector>();
    const unknown: string[] = [];
    for (const text of new Set(texts)) {
      const kept = this.kept.get(text);
      if (kept === undefined) unknown.push(text);
      else vectors.set(text, kept);
    }
    for (let from = 0; from < unknown.length; from += batchSize) {
      const batch = unknown.slice(from, from + batchSize);
      const made = await this.embed(call, batch);
      if (made === null) break;
      for (const [at, text] of batch.entries()) {
        const vector = made[at];
        if (vector === undefined) continue;
        vectors.set(text, vector);
        this.remember(text, vector);
      }
    }
    return vectors;
  }

  private charge(call: Call, inputTokens: number, estimated: boolean): void {
    const costUsd = costOf({ inputTokens, outputTokens: 0 }, this.parts.embedder.price);
    call.spend({ ...noUsage, inputTokens, costUsd, estimated });
  }

  private remember(text: string, vector: Vector): void {
    this.kept.set(text, vector);
    const [oldest] = this.kept.keys();
    if (this.kept.size > keptVectors && oldest !== undefined) this.kept.delete(oldest);
  }

  private async embed(call: Call, texts: readonly string[]): Promise<Vector[] | null> {
    const { embedder, clock, log } = this.parts;
    if (clock.monotonicMs() < this.restsUntilMs) return null;
    const shown = texts.map((text) => text.slice(0, shownChars));
    const roughly = shown.reduce((sum, text) => sum + roughTokens(text), 0);
    const raced = await raceCall(call, Math.min(timeoutMs, call.remainingMs()), (stop) =>
      embedder.embed(shown, stop.signal),
    );
    if (raced.ended === 'returned') {
      const { vectors, inputTokens } = raced.value;
      this.charge(call, inputTokens ?? roughly, inputTokens === null);
      return vectors;
    }
    // What was sent and not waited for may be billed all the same; a refusal is not.
    if (raced.ended === 'aborted' || raced.ended === 'timeout') this.charge(call, roughly, true);
    if (raced.ended === 'aborted' || raced.ended === 'not_started') return null;
    this.restsUntilMs = clock.monotonicMs() + restMs;
    const cause = raced.ended === 'threw' ? describeThrown(raced.thrown) : `no answer within ${timeoutMs} ms`;
    log.warn({ model: embedder.model, cause }, 'the embedding model does not answer; words alone are compared');
    return null;
  }
}

/** What has to be near for each turn, from the newest back, to be like the one `period` before it; up to the first that is not. */
function wordingsBack(turns: readonly AskedTurn[], period: number): NonNullable<Wordings>[] {
  const wordings: NonNullable<Wordings>[] = [];
  for (let at = 0; at + period < turns.length; at++) {
    const [turn, before] = [turns[at], turns[at + period]];
    const found = turn === undefined || before === undefined ? null : wordingsOf(turn, before, turn);
    if (found === null) break;
    wordings.push(found);
  }
  return wordings;
}
