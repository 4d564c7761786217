/**
 * Facts: what outlives a run. A fact is a key and a value under a scope; the newest value of a key is the fact, the older ones
 * are its history. Tools say them (`extractFacts`), the record of their call writes them, and whoever recalls is given text. Pure:
 * here is what is taken, cut and turned into words to be found by.
 */
import { Options } from './options.js';
import type { RunState } from './run.js';
import { cleanText } from './storable.js';

/** Who shares a fact, within one tenant: the runs of an agent, all runs, or the runs of a thread. */
export const factScopes = ['agent', 'tenant', 'thread'] as const;
export type FactScope = (typeof factScopes)[number];

/** A fact as a tool says it. */
export interface Fact {
  key: string;
  value: string;
  /** Left out: `agent`. */
  scope?: FactScope;
}

/** A fact as it is recalled. */
export interface KnownFact {
  key: string;
  value: string;
  scope: FactScope;
  at: Date;
}

export interface NewFact {
  scope: FactScope;
  /** The agent, the thread, or nothing. */
  owner: string;
  key: string;
  value: string;
  /** Of key and value, for the index. */
  words: string;
}

/** Whose facts a run may see. */
export type FactReader = Pick<RunState, 'tenant' | 'agent' | 'threadId'>;

/** With tenant and owner it is the key of an index. */
const maxKeyChars = 100;
const maxValueChars = 2_000;
/** Of one call. */
const maxFacts = 50;

/** What `extractFacts` answered, fit to be stored. Throws a PawlError that names what cannot be. */
export function readFacts(given: unknown, run: FactReader): NewFact[] {
  if (given === undefined || given === null) return [];
  if (!Array.isArray(given)) return new Options('extractFacts', {}).fail('it must return a list of facts');
  if (given.length > maxFacts)
    new Options('extractFacts', {}).fail(`it returned ${given.length} facts, and ${maxFacts} are taken of one call`);
  return given.map((one, index) => readFact(Options.of(`fact ${index} of extractFacts`, one), run));
}

function readFact(fact: Options, run: FactReader): NewFact {
  fact.knowsOnly(['key', 'value', 'scope']);
  const scope = fact.oneOf('scope', factScopes, 'agent');
  if (scope === 'thread' && run.threadId === null) fact.fail("scope is 'thread', and the run has none");
  const key = textOf(fact, 'key', maxKeyChars);
  const value = textOf(fact, 'value', maxValueChars);
  const owner = scope === 'agent' ? run.agent : scope === 'thread' ? (run.threadId ?? '') : '';
  return { scope, owner, key, value, words: wordsIn(`${key} ${value}`).join(' ') };
}

function textOf(fact: Options, field: string, maxChars: number): string {
  const given = fact.given[field];
  const text = typeof given === 'string' ? cleanText(given).trim() : '';
  if (text === '' || text.length > maxChars) fact.refuse(field, `1 to ${maxChars} characters of text`);
  return text;
}

const segmenter = new Intl.Segmenter('zh', { granularity: 'word' });
const mostWords = 400;

/** The words of a text in any language, once each, in lower case: Chinese has no spaces to find them by. */
export function wordsIn(text: string): string[] {
  const words = new Set<string>();
  for (const { segment, isWordLike } of segmenter.segment(text.slice(0, 10_000).toLowerCase())) {
    if (isWordLike === true) words.add(segment.replace(/['\\:]/g, ''));
    if (words.size === mostWords) break;
  }
  words.delete('');
  return [...words];
}

const shownValueChars = 400;
const shownChars = 4_000;

/** Facts as lines for a prompt, as many as fit. */
export function factLines(facts: readonly KnownFact[]): string[] {
  const lines: string[] = [];
  let left = shownChars;
  for (const { key, value } of facts) {
    const shown = value.length > shownValueChars ? `${cleanText(value.slice(0, shownValueChars))}…` : value;
    const line = `${key}: ${shown}`.replace(/\s+/g, ' ');
    left -= line.length;
    if (left < 0) break;
    lines.push(line);
  }
  return lines;
}
