/**
 * Counts tokens by the model's tokenizer. A text up to `exactChars` is counted whole; of a longer one, stretches spread
 * evenly over it are counted and the rest is taken to be like them. So a megabyte of anything takes about as long as
 * `exactChars` of it, and the event loop gets a turn every few milliseconds. The tables load with the first count.
 */
import { setImmediate } from 'node:timers/promises';
import { getEncodingNameForModel, type TiktokenModel } from 'js-tiktoken/lite';
import { countIn, type Encoding, loadEncoding } from './encoding.js';
import { familyOf } from './prices.js';

/** Characters of one text that are counted one by one. */
export const exactChars = 65_536;
/** Characters counted between two looks at the clock; in the worst case some 5 ms. */
const chunkChars = 2_048;
/** How many stretches of a longer text are counted. */
const stretches = 64;
const stretchChars = 1_024;
const turnMs = 8;

type Table = 'o200k_base' | 'cl100k_base';

const loading = new Map<Table, Promise<Encoding>>();

/** Tokens of each text, without what a message costs beside its text. An unknown model counts as `o200k_base` does. */
export async function countTokens(model: string, texts: readonly string[]): Promise<number[]> {
  const turn = new Turn();
  const encoding = await encodingOf(tableOf(model), turn);
  const counts: number[] = [];
  for (const text of texts) counts.push(await countText(encoding, text, turn));
  return counts;
}

/** Gives the event loop a turn when the last one is `turnMs` ago. */
class Turn {
  #since = performance.now();
  async pass(): Promise<void> {
    if (performance.now() - this.#since < turnMs) return;
    await setImmediate();
    this.#since = performance.now();
  }
}

const tables = new Map<string, Table>();

function tableOf(model: string): Table {
  const known = tables.get(model);
  if (known !== undefined) return known;
  const table = findTable(model);
  tables.set(model, table);
  return table;
}

function findTable(model: string): Table {
  try {
    const name = getEncodingNameForModel(familyOf(model) as TiktokenModel);
    return name === 'cl100k_base' ? name : 'o200k_base';
  } catch {
    return 'o200k_base';
  }
}

function encodingOf(table: Table, turn: Turn): Promise<Encoding> {
  const known = loading.get(table);
  if (known !== undefined) return known;
  const load = (async () => {
    const module =
      table === 'cl100k_base'
        ? await import('js-tiktoken/ranks/cl100k_base')
        : await import('js-tiktoken/ranks/o200k_base');
    return loadEncoding(module.default, () => turn.pass());
  })();
  loading.set(table, load);
  return load;
}

async function countText(encoding: Encoding, text: string, turn: Turn): Promise<number> {
  if (text.length <= exactChars) return countStretch(encoding, text, turn);
  let counted = 0;
  let tokens = 0;
  for (let n = 0; n < stretches; n++) {
    const from = Math.floor((n * (text.length - stretchChars)) / (stretches - 1));
    const stretch = text.slice(from, from + stretchChars);
    tokens += countIn(encoding, stretch);
    counted += stretch.length;
    await turn.pass();
  }
  return Math.ceil((tokens / counted) * text.length);
}

async function countStretch(encoding: Encoding, text: string, turn: Turn): Promise<number> {
  let tokens = 0;
  for (let from = 0; from < text.length; ) {
    const to = cutAfter(text, from);
    tokens += countIn(encoding, text.slice(from, to));
    from = to;
    await turn.pass();
  }
  return tokens;
}

/**
 * Where the chunk that begins at `from` ends. Before a space that follows a word, where every pattern splits, so that the
 * sum over chunks is exact; in a text without one, anywhere but inside a surrogate pair, at the price of a token or two.
 */
function cutAfter(text: string, from: number): number {
  const limit = from + chunkChars;
  if (limit >= text.length) return text.length;
  for (let at = limit; at > from + 1; at--) {
    if (text[at] === ' ' && /[^\s]/.test(text[at - 1] ?? ' ')) return at;
  }
  const low = text.charCodeAt(limit);
  return low >= 0xdc00 && low <= 0xdfff ? limit - 1 : limit;
}
