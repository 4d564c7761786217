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
  let tokens = 0;
  for (const [piece] of text.matchAll(encoding.pattern)) {
    let count = encoding.counted.get(piece);
    if (count === undefined) {
      count = countPiece(encoding, piece);
      if (piece.length <= cachedChars) {
        if (encoding.counted.size >= cacheCap) encoding.counted.clear();
        encoding.counted.set(piece, count);
      }
    }
    tokens += count;
  }
  return tokens;
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
