/**
 * A byte-pair encoding that counts without blocking: the ranks and the split pattern are js-tiktoken's, the merging is our
 * own. js-tiktoken's encode() rescans and joins the whole piece for every merge (50,000 "x" take two minutes, 44,000
 * Chinese characters 0.3 s) and its constructor holds the event loop for half a second; both are why this file exists.
 * Counts equal js-tiktoken's on every piece of at most `longestPiece` bytes. Next: tokens.ts.
 */
import type { TiktokenBPE } from 'js-tiktoken/lite';

/** Bytes of an unbroken run that are merged as one; a longer run is counted in parts of this size. */
export const longestPiece = 128;

export interface Encoding {
  /** Splits text into the pieces within which bytes merge. */
  pattern: RegExp;
  /** Rank of each token by its bytes, written as a string of one character a byte. */
  ranks: Map<string, number>;
  /** Tokens of pieces counted before; emptied when it grows beyond `cacheCap`. */
  counted: Map<string, number>;
}

const cacheCap = 20_000;
/** V8 copies a substring up to this length; a longer one would keep the whole text it was cut from in memory. */
const cachedChars = 12;

/** Decodes a rank table, giving the event loop a turn every few thousand tokens. */
export async function loadEncoding(table: TiktokenBPE, breathe: () => Promise<void>): Promise<Encoding> {
  const ranks = new Map<string, number>();
  // Lines of `! <rank of the first> <token> <token> …`, tokens in base64. Read word by word: the table is 2 MB long.
  const words = /\S+/g;
  let rank = 0;
  let isOffset = false;
  for (let word = words.exec(table.bpe_ranks); word !== null; word = words.exec(table.bpe_ranks)) {
    const [text] = word;
    if (isOffset) rank = Number(text);
    else if (text !== '!') {
      ranks.set(Buffer.from(text, 'base64').toString('latin1'), rank++);
      if (rank % 2_048 === 0) await breathe();
    }
    isOffset = text === '!';
  }
  return { pattern: new RegExp(table.pat_str, 'ug'), ranks, counted: new Map() };
}

/** Tokens of a text, special tokens' names counted as plain text. The time grows with the text's length, whatever it holds. */
export function countIn(encoding: Encoding, text: string): number {
  const { pattern, counted } = encoding;
  let tokens = 0;
  for (let from = 0; from < text.length; ) {
    const to = wordEnd(text, from) || patternEnd(pattern, text, from);
    const piece = text.slice(from, to);
    let count = counted.get(piece);
    if (count === undefined) {
      count = countPiece(encoding, piece);
      if (piece.length <= cachedChars) {
        if (counted.size >= cacheCap) counted.clear();
        counted.set(piece, count);
      }
    }
    tokens += count;
    from = to;
  }
  return tokens;
}

/**
 * The end of the piece at `from` where it is a plain word: a capital or none, small letters, maybe one sign or space before
 * them, and behind them what belongs to no word. Every pattern takes that as one piece; 0 where only the pattern can tell.
 * Most of a text is such words, and the pattern takes five times as long for each.
 */
function wordEnd(text: string, from: number): number {
  let at = from;
  let code = text.charCodeAt(at);
  if (isPlainSign(code)) code = text.charCodeAt(++at);
  if (code >= 65 && code <= 90) code = text.charCodeAt(++at);
  const small = at;
  while (code >= 97 && code <= 122) code = text.charCodeAt(++at);
  // Behind the end of the text the code is NaN.
  const isOver = at >= text.length || isPlainSign(code) || (code >= 48 && code <= 57) || code === 10 || code === 13;
  return at > small && isOver ? at : 0;
}

/** A space or an ASCII sign, but no apostrophe, which may belong to the word before it. */
function isPlainSign(code: number): boolean {
  if (code === 39 || code === 10 || code === 13) return false;
  return code < 48 || (code > 57 && code < 65) || (code > 90 && code < 97) || (code > 122 && code < 128);
}

function patternEnd(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  // Every character begins a piece; of one that would not, one unit is counted.
  return pattern.test(text) ? pattern.lastIndex : from + 1;
}

function countPiece({ ranks }: Encoding, piece: string): number {
  const bytes = Buffer.from(piece, 'utf8').toString('latin1');
  if (ranks.has(bytes)) return 1;
  if (bytes.length <= longestPiece) return merge(bytes, ranks);
  let tokens = 0;
  for (let at = 0; at < bytes.length; at += longestPiece) tokens += merge(bytes.slice(at, at + longestPiece), ranks);
  return tokens;
}

const none = 0x7fffffff;
// Of the piece at hand: where each part begins (its end is the next one's beginning), and the rank of it and the next merged.
const starts = new Int32Array(longestPiece + 1);
const pairs = new Int32Array(longestPiece + 1);

/** Merges the pair of lowest rank, the leftmost first, until no pair has one; re-ranks only the merge's neighbours. */
function merge(bytes: string, ranks: Map<string, number>): number {
  let parts = bytes.length;
  const rankAt = (at: number): number =>
    at + 2 > parts ? none : (ranks.get(bytes.slice(starts[at], starts[at + 2])) ?? none);
  for (let at = 0; at <= parts; at++) starts[at] = at;
  for (let at = 0; at < parts; at++) pairs[at] = rankAt(at);
  while (parts > 1) {
    let lowest = none;
    let at = -1;
    for (let i = 0; i < parts - 1; i++) {
      const rank = pairs[i] ?? none;
      if (rank < lowest) {
        lowest = rank;
        at = i;
      }
    }
    if (at < 0) break;
    starts.copyWithin(at + 1, at + 2, parts + 1);
    pairs.copyWithin(at + 1, at + 2, parts);
    parts--;
    pairs[at] = rankAt(at);
    if (at > 0) pairs[at - 1] = rankAt(at - 1);
  }
  return parts;
}
