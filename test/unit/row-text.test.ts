/** Rows as JSON text: what JSON.stringify makes of the same columns. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rowWriter } from '../../src/postgres/row-text.js';

it('writes the named columns that hold something, whatever they hold', () => {
  const value = fc.oneof(
    ...[fc.string(), fc.integer(), fc.double(), fc.boolean(), fc.constantFrom(null, undefined)],
    ...[fc.date(), fc.constant(new Date(0)), fc.string({ unit: 'binary' })],
  );
  const row = fc.record({ a: value, b: value, c: value, other: value });
  fc.assert(
    fc.property(row, fc.option(fc.record({ id: fc.string() }), { nil: undefined }), (from, fixed) => {
      const text = rowWriter(['a', 'b', 'c', 'not_there'])(from, fixed);
      const whole = JSON.parse(JSON.stringify({ ...fixed, a: from.a, b: from.b, c: from.c })) as Record<
        string,
        unknown
      >;
      const filled = Object.entries(JSON.parse(text) as object).filter(([, held]) => held !== null);
      expect(filled).toEqual(Object.entries(whole).filter(([, held]) => held !== null));
    }),
  );
});
