/**
 * Makes what a model or a tool produced storable and bounded before any transaction begins: well-formed text without
 * U+0000, cut in the middle where it is too long, with the whole kept aside. Also the canonical form of arguments and the
 * hashes built on it, which are identities: a change of theirs changes keys that tools have already seen.
 */
import { hash } from './hash.js';
import { cleanText, writeJson } from './json-writer.js';
import { type Words, wordsOf } from './words.js';

export { cleanText } from './json-writer.js';

/** Characters of a whole output kept aside; a longer one is cut in the middle as well. */
export const maxFullChars = 1_000_000;
/** Characters of JSON written of one value at most; a value that would take more is cut at its end. */
const maxWrittenChars = 32_000_000;
const maxWrittenDepth = 100;

/**
 * A value as text of at most `maxChars` characters, and the whole of it where that was cut. A string is itself, `undefined`
 * is empty, all else is JSON.
 */
export function toStorableText(
  value: unknown,
  maxChars: number,
  words: Words = wordsOf('en'),
  notice: CutNotice = ({ out }) => words.cut(out.length),
): { text: string; full: string | null } {
  const whole = wholeText(value);
  if (whole.length <= maxChars) return { text: whole, full: null };
  return { text: cutWith(notice, whole, maxChars), full: cutMiddle(whole, maxFullChars, words) };
}

/** What stands in the place of `out`, which was cut out of a text after `head`. */
export type CutNotice = (cut: { head: string; out: string }) => string;

function wholeText(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return cleanText(value);
  return writeJson(value, { sortKeys: false, maxDepth: maxWrittenDepth, maxChars: maxWrittenChars });
}

/** Text of at most `maxChars` characters: its head and its tail, with a notice between; no character is cut in half. */
export function cutMiddle(text: string, maxChars: number, words: Words = wordsOf('en')): string {
  return cutWith(({ out }) => words.cut(out.length), text, maxChars);
}

function cutWith(notice: CutNotice, text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const room = maxChars - notice({ head: text, out: text }).length;
  if (room < 2) return text.slice(0, beforePair(text, Math.max(0, maxChars)));
  const headEnd = beforePair(text, Math.ceil(room * 0.7));
  const tailStart = afterPair(text, text.length - Math.floor(room * 0.3));
  const head = text.slice(0, headEnd);
  return head + notice({ head, out: text.slice(headEnd, tailStart) }) + text.slice(tailStart);
}

function beforePair(text: string, end: number): number {
  return isHigh(text.charCodeAt(end - 1)) && isLow(text.charCodeAt(end)) ? end - 1 : end;
}

function afterPair(text: string, start: number): number {
  return isHigh(text.charCodeAt(start - 1)) && isLow(text.charCodeAt(start)) ? start + 1 : start;
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** A JSON value as text with the keys of every object sorted by code unit: equal values give equal text. */
export function canonicalJson(value: unknown): string {
  return writeJson(value, {
    sortKeys: true,
    maxDepth: Number.POSITIVE_INFINITY,
    maxChars: Number.POSITIVE_INFINITY,
  });
}

/** The same for each attempt of a call, different for different calls (I5). */
export function idempotencyKey(runId: string, seq: number, canonicalArguments: string): string {
  return hash([runId, seq, canonicalArguments]);
}

/** Equal for identical calls: the same tool with the same arguments. */
export function callHash(name: string, canonicalArguments: string): string {
  return hash([name, canonicalArguments]);
}
