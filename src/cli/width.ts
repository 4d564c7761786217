/**
 * How wide text is on a terminal, where a Chinese character takes two columns, and how to cut it to fit. Whatever a model
 * or a tool wrote is made harmless first: a terminal obeys escape sequences, whoever printed them. Next: output.ts.
 */

/** Ranges of East Asian Wide and Fullwidth characters, and of the emoji that are drawn as wide. */
const wideRanges: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x2e80, 0x303e],
  [0x3041, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x1b000, 0x1b2ff],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];
const graphemes = new Intl.Segmenter();
const allAscii = /^[\x20-\x7e]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: colour sequences begin with one
const colourSequence = /\x1b\[[0-9;]*m/g;

/** Columns that text takes on one line; colour sequences take none. */
export function widthOf(text: string): number {
  const bare = text.replace(colourSequence, '');
  if (allAscii.test(bare)) return bare.length;
  let width = 0;
  for (const { segment } of graphemes.segment(bare)) width += graphemeWidth(segment);
  return width;
}

function graphemeWidth(grapheme: string): number {
  if (/^[\p{Cc}\p{Mn}\p{Me}\p{Cf}]/u.test(grapheme)) return 0;
  if (/^\p{Emoji_Presentation}|\ufe0f/u.test(grapheme)) return 2;
  const code = grapheme.codePointAt(0) ?? 0;
  return wideRanges.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}

/** Text without colour, cut to at most that many columns; what was cut shows as `…`. */
export function clip(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let width = 0;
  let kept = '';
  for (const { segment } of graphemes.segment(text)) {
    width += graphemeWidth(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return columns < 1 ? '' : `${kept}…`;
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)));
}

export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - widthOf(text))) + text;
}

/** Control characters, and the marks that make text read in another order than it is stored. Line ends and tabs stay. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const harmful = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** Whole escape sequences, so that none leaves its tail behind as text: those of colour and cursor, and titles and links. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const sequences = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)/g;

/** Text of any origin, safe to write to a terminal, line breaks kept. */
export function harmless(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(sequences, '').replace(harmful, '');
}

/** The same on one line, for a cell of a table: every run of white space is one space. At most 2,000 characters are looked at. */
export function oneLine(text: string): string {
  return harmless(text.slice(0, 2_000)).replace(/\s+/g, ' ').trim();
}
