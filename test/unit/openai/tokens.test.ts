/** Token counts: equal to js-tiktoken's where that one can count at all, and never long in the event loop. */
import fc from 'fast-check';
import { Tiktoken } from 'js-tiktoken/lite';
import cl100k from 'js-tiktoken/ranks/cl100k_base';
import o200k from 'js-tiktoken/ranks/o200k_base';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { countIn } from '../../../src/openai/encoding.js';
import { countTokens, exactChars } from '../../../src/openai/tokens.js';

/** Characters of each piece that the encoding was given. */
const pieces = vi.hoisted((): number[] => []);
vi.mock('../../../src/openai/encoding.js', async (original) => {
  const real = await original<typeof import('../../../src/openai/encoding.js')>();
  const countIn: typeof real.countIn = (encoding, text) => {
    pieces.push(text.length);
    return real.countIn(encoding, text);
  };
  return { ...real, countIn };
});

// The reference is slow, and the machine may be busy.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const count = async (text: string, model = 'gpt-4o') => (await countTokens(model, [text]))[0] ?? -1;

let reference: Tiktoken;
let older: Tiktoken;
const referenceCount = (text: string) => reference.encode(text, [], []).length;

beforeAll(async () => {
  reference = new Tiktoken(o200k);
  older = new Tiktoken(cl100k);
  await countTokens('gpt-4o', ['warm']);
});

/** Numbers from a fixed seed, so that a text is the same at every run. */
function fixed(length: number, alphabet: string): string {
  const letters = [...alphabet];
  let state = 1;
  let text = '';
  while (text.length < length) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    text += letters[(state >> 8) % letters.length];
  }
  return text.slice(0, length);
}

const chinese = '今天天气很好我们去公园散步看到了许多花一二三四五六七八九十的是不在有人这中大来上国';
const english = 'The quick brown fox jumps over 12,345 lazy dogs; "isn\'t it"?\n\n  - yes\t(really)\r\n';

describe('Counting', () => {
  it.each([
    ['nothing', ''],
    ['a space', ' '],
    ['a word', 'hi'],
    ['some pages of prose', english.repeat(200)],
    ['the names of special tokens', '<|endoftext|> and <|im_start|>'],
    ['JSON', '{"a":[1,2.5,null],"b":"\\n"}'],
    ['Chinese', '你好，世界！'],
    ['joined emoji and flags', '👩‍👩‍👧‍👦🇩🇪'],
    ['a NUL', 'a\u0000b'],
    ['half a surrogate pair', '\ud83d alone'],
    ['contractions in odd case', "I'LL we'Ve"],
    ['indentation', '\n\n\n   x'],
    ['a short run of a letter', 'x'.repeat(100)],
    ['a short run of spaces', ' '.repeat(100)],
  ])('of %s equals js-tiktoken’s', async (_, text) => expect(await count(text)).toBe(referenceCount(text)));

  it.each(['gpt-4o', 'gpt-4'])('of any short text equals js-tiktoken’s, by the table of %s', async (model) => {
    const known = model === 'gpt-4o' ? reference : older;
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 60 }),
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.string({ unit: fc.constantFrom(' ', '\n', 'a', 'B', '1', "'s", '中', '.', '🎉', '\t'), maxLength: 60 }),
      fc.string({ unit: fc.constantFrom(' ', 'the', 'Is', 'é', '\u0301', "'", '"', '_', '9', '\r'), maxLength: 30 }),
    );
    await fc.assert(
      fc.asyncProperty(text, async (said) => (await count(said, model)) === known.encode(said, [], []).length),
      { numRuns: 200 },
    );
  });

  it('asks the pattern only where a text is no plain words', () => {
    const pattern = /\S+|\s+/gu;
    const asked = vi.spyOn(pattern, 'test');
    const words = { pattern, ranks: new Map<string, number>(), counted: new Map<string, number>() };
    countIn(words, 'The order was paid on time-and left,for its town');
    expect(asked).not.toHaveBeenCalled();
    countIn(words, "The order isn't, 12");
    expect(asked.mock.calls.length).toBeGreaterThan(0);
  });

  it('of long ordinary text equals js-tiktoken’s, chunks or not', async () => {
    const text = english.repeat(600);
    expect(text.length).toBeGreaterThan(40_000);
    expect(text.length).toBeLessThan(exactChars);
    expect(await count(text)).toBe(referenceCount(text));
  });

  it('of a text too long to be counted whole is within 3 % of the whole count', async () => {
    for (const text of [english.repeat(1_000), fixed(80_000, 'abcdefghij klmn opqr')]) {
      const exact = referenceCount(text);
      expect(Math.abs((await count(text)) - exact) / exact).toBeLessThan(0.03);
    }
  });

  it('follows the model, and takes a stranger for the newest', async () => {
    const text = '今天天气很好，我们去公园散步。';
    expect(await count(text, 'gpt-4')).toBe(older.encode(text, [], []).length);
    expect(await count(text, 'gpt-4o-2024-08-06')).toBe(referenceCount(text));
    expect(await count(text, 'deepseek-chat')).toBe(referenceCount(text));
  });

  it('answers one number a text, in order, and never fewer with more text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ maxLength: 200 }), { maxLength: 5 }), async (texts) => {
        const counts = await countTokens('gpt-4o', texts);
        expect(counts).toHaveLength(texts.length);
        expect(counts.every((tokens, at) => (texts[at] === '' ? tokens === 0 : tokens > 0))).toBe(true);
      }),
    );
    expect(await count('x '.repeat(80_000))).toBeGreaterThan(await count('x '.repeat(30_000)));
  });
});

describe('A megabyte', () => {
  const million = 1_000_000;
  it.each<[string, string]>([
    ['one repeated letter', 'x'.repeat(million)],
    ['spaces', ' '.repeat(million)],
    ['line ends', '\n'.repeat(million)],
    ['one repeated emoji', '🎉'.repeat(million / 2)],
    ['English', english.repeat(million / 80)],
    ['Chinese without a stop', fixed(million, chinese)],
    ['letters without a space', fixed(million, 'abcdefghijklmnopqrstuvwxyz')],
    ['base64', fixed(million, 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/')],
    ['punctuation', fixed(million, '!@#$%^&*()_+-=[]{};:,.<>/?')],
  ])('of %s is counted by samples, none of them long, with a look at the clock after each', async (_, text) => {
    await count('warm');
    const looks = vi.spyOn(performance, 'now');
    pieces.length = 0;
    try {
      expect(await count(text)).toBeGreaterThan(1_000);
      expect(pieces.reduce((sum, piece) => sum + piece, 0)).toBeLessThanOrEqual(exactChars);
      expect(Math.max(...pieces)).toBeLessThanOrEqual(2_048);
      expect(looks.mock.calls.length).toBeGreaterThanOrEqual(pieces.length);
    } finally {
      looks.mockRestore();
    }
  });

  it('gives the event loop a turn whenever it has counted for eight milliseconds', async () => {
    await count('warm');
    let now = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => ++now);
    let turns = 0;
    let done = false;
    const look = () => {
      turns += 1;
      if (!done) setImmediate(look);
    };
    setImmediate(look);
    try {
      await count('x'.repeat(million));
    } finally {
      done = true;
      clock.mockRestore();
    }
    // A millisecond at each look at the clock, and 64 looks.
    expect(turns).toBeGreaterThanOrEqual(6);
  });
});
