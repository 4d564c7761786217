import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  callHash,
  canonicalJson,
  cutMiddle,
  idempotencyKey,
  maxFullChars,
  toStorableText,
} from '../../src/core/storable.js';

const text = (value: unknown, maxChars = 4_000) => toStorableText(value, maxChars).text;

/** Text of any UTF-16 units: halves of characters and U+0000 among them. */
const anyUnits = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0xd83d, 0xde00, 0x61)), { maxLength: 300 })
  .map((units) => String.fromCharCode(...units));

describe('toStorableText', () => {
  it('leaves a storable string as it is, also one that looks like JSON', () => {
    for (const plain of ['', 'ok', '123', '{"a":1}', '好 😀'])
      expect(toStorableText(plain, 100)).toEqual({ text: plain, full: null });
  });

  it('writes ordinary values as JSON.stringify does', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        if (typeof value === 'string') return;
        const plain = JSON.stringify(value);
        fc.pre(plain.length <= 4_000 && !plain.includes('\\u0000') && !plain.includes('\\ud'));
        expect(text(value)).toBe(plain);
      }),
    );
  });

  it('makes text that Postgres takes and that keeps to its size of any string', () => {
    fc.assert(
      fc.property(anyUnits, fc.integer({ min: 0, max: 400 }), (given, maxChars) => {
        const { text, full } = toStorableText(given, maxChars);
        expect(text.length).toBeLessThanOrEqual(maxChars);
        for (const made of [text, full ?? '']) {
          expect(made.isWellFormed()).toBe(true);
          expect(made.includes('\0')).toBe(false);
        }
        expect(full === null).toBe(given.length <= maxChars);
      }),
    );
  });

  it('makes text of any value at all', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        const made = text(value, 1_000);
        expect(made.isWellFormed() && !made.includes('\0') && made.length <= 1_000).toBe(true);
      }),
    );
  });

  it('says what JSON cannot', () => {
    const circle: Record<string, unknown> = { big: 12345678901234567890n, f: execute, u: undefined, n: Number.NaN };
    circle.self = circle;
    expect(text(circle)).toBe('{"big":"12345678901234567890","n":null,"self":"[circular]"}');
    expect(text([undefined, execute, Symbol('s')])).toBe('[null,null,null]');
    expect(text(new Map([['a', 1]]))).toBe('[["a",1]]');
    expect(text(new Set([1]))).toBe('[1]');
    expect(text(Object.assign(new TypeError('bad'), { code: 'E1' }))).toBe(
      '{"code":"E1","name":"TypeError","message":"bad"}',
    );
    expect(text({ bytes: Buffer.from('abc') })).toBe('{"bytes":"[3 bytes]"}');
    expect(text({ at: new Date(0), never: new Date(Number.NaN) })).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","never":null}',
    );
    expect(text(undefined)).toBe('');
    expect(text(null)).toBe('null');
    expect(text('same twice is no circle') + text([circle.big, circle.big])).toContain('"12345678901234567890",');
  });

  it('survives values that throw when they are read', () => {
    const throwing = () => {
      throw new Error('no');
    };
    expect(
      text({
        get secret() {
          return throwing();
        },
        a: 1,
      }),
    ).toBe('{"secret":"[unreadable: no]","a":1}');
    expect(text({ toJSON: throwing })).toBe('"[unreadable: no]"');
    expect(text(new Proxy({}, { ownKeys: throwing }))).toBe('{}');
    expect(text(new Proxy({}, { get: throwing }))).toBe('"[unreadable: no]"');
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    expect(text(revoked.proxy)).toContain('unreadable');
  });

  it('survives any depth', () => {
    let deep: unknown = 'end';
    for (let i = 0; i < 100_000; i++) deep = i % 2 === 0 ? [deep] : { a: deep };
    expect(text(deep)).toContain('[nested too deep]');
  });

  it('stops at values that would never end', () => {
    let doubling: unknown = 'x'.repeat(1_000);
    for (let i = 0; i < 40; i++) doubling = [doubling, doubling];
    const { text, full } = toStorableText(doubling, 500);
    expect(text.length).toBeLessThanOrEqual(500);
    expect(full?.length).toBeLessThanOrEqual(maxFullChars);
  });

  it('cuts 20 MB in the middle and keeps a cut whole aside', () => {
    const { text, full } = toStorableText(`head${'😀'.repeat(10_000_000)}tail`, 1_001);
    expect(text).toMatch(/^head😀+\n\[… \d+ characters left out …\]\n😀+tail$/u);
    expect(full).toMatch(/^head.*characters left out.*tail$/s);
    expect(full?.length).toBeLessThanOrEqual(maxFullChars);
  });

  it('keeps what was cut whole, where that is of a bearable size', () => {
    const whole = 'line\n'.repeat(2_000);
    expect(toStorableText(whole, 4_000).full).toBe(whole);
  });

  function execute() {
    return null;
  }
});

describe('cutMiddle', () => {
  it('says exactly how much it left out', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 200, maxLength: 400 }), (given) => {
        const cut = cutMiddle(given, 150);
        const [, left] = /\[… (\d+) characters/.exec(cut) ?? [];
        const notice = `\n[… ${left} characters left out …]\n`;
        expect(cut.length - notice.length + Number(left)).toBe(given.length);
      }),
    );
  });
});

describe('canonical arguments and the hashes made of them', () => {
  it('are equal for equal values in whatever order', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(canonicalJson(reversed)).toBe(canonicalJson(value));
        expect(canonicalJson(JSON.parse(canonicalJson(value)))).toBe(canonicalJson(value));
      }),
    );
  });

  it('reach every depth', () => {
    const deep = `${'['.repeat(5_000)}1${']'.repeat(5_000)}`;
    expect(canonicalJson(JSON.parse(deep))).toBe(deep);
  });

  it('tell calls apart by run, seq and arguments, and stay what they were', () => {
    const keys = [
      idempotencyKey('run_a', 1, '{}'),
      idempotencyKey('run_a', 11, '{}'),
      idempotencyKey('run_a1', 1, '{}'),
      idempotencyKey('run_a', 1, '{"a":1}'),
      callHash('run_a', '{}'),
      callHash('a', '{}'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(idempotencyKey('run_a', 1, '{}')).toBe(keys[0]);
    // Tools and payment providers have seen keys made this way: a change here repeats what was done.
    expect(keys[0]).toBe('b701219ddac3ae000ed5c705dc671ff300ed786da52f0290beb8be6f19aefc4f');
  });
});
