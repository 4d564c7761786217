import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clip, harmless, oneLine, padEnd, padStart, widthOf } from '../../../src/cli/width.js';

// biome-ignore lint/suspicious/noControlCharactersInRegex: that none of these is left is what is asserted
const obeyed = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]/;

describe('the width of text', () => {
  it('is two columns for a Chinese character, none for a mark or a colour', () => {
    expect(widthOf('abc')).toBe(3);
    expect(widthOf('订单表')).toBe(6);
    expect(widthOf('e\u0301')).toBe(1);
    expect(widthOf('\x1b[31mred\x1b[0m')).toBe(3);
    expect(widthOf('👍')).toBe(2);
    expect(widthOf('👩‍👩‍👧')).toBe(2);
    expect(widthOf('・'.repeat(3))).toBe(6);
  });

  it('is kept to when text is cut, which never splits a character', () => {
    expect(clip('订单表的说明', 7)).toBe('订单表…');
    expect(clip('订单表的说明', 6)).toBe('订单…');
    expect(clip('short', 5)).toBe('short');
    expect(clip('longer', 5)).toBe('long…');
    expect(clip('x', 0)).toBe('');
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 0, max: 20 }), (text, columns) => {
        const cut = clip(text, columns);
        return widthOf(cut) <= columns && cut.isWellFormed();
      }),
    );
  });

  it('is filled up to', () => {
    expect(padEnd('订单', 6)).toBe('订单  ');
    expect(padStart('订单', 6)).toBe('  订单');
    expect(padEnd('longer', 3)).toBe('longer');
  });
});

describe('text of any origin', () => {
  it('loses what a terminal would obey, whole sequences at a time', () => {
    expect(harmless('a\x1b[31mred\x1b[0m')).toBe('ared');
    expect(harmless('\x1b]0;title\x07x\x1b]8;;http://evil\x1b\\link')).toBe('xlink');
    expect(harmless('a\u009b31mb\u202ec\b')).toBe('a31mbc');
    expect(harmless('one\r\ntwo\rthree\tfour')).toBe('one\ntwo\nthree\tfour');
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !obeyed.test(harmless(text))));
  });

  it('fits into a cell as one line', () => {
    expect(oneLine('  a\n\n b\tc ')).toBe('a b c');
    expect(oneLine('x'.repeat(1_000_000))).toHaveLength(2_000);
  });
});
