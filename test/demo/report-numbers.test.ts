/** Numbers and days are found however a model formats them, and not where they are not. */
import { describe, expect, it } from 'vitest';
import { saysDay, saysNumber } from '../../src/demo/report-numbers.js';

describe('saysNumber', () => {
  it.each([
    '1,234.50',
    '1234.5',
    '1 234.50',
    '1.234,50',
    "1'234.50",
    '**$1,234.50**',
    '1 234,50 €',
    '1_234.5',
    '|1234.50|',
    'is 1,234.50.',
  ])('finds 1234.50 in %j', (text) => expect(saysNumber(text, '1234.50')).toBe(true));
  it.each(['1,234.51', '11,234.50', '1234', '1,234.505', '1235', '12.34.50', '1,234,500', '234.50', ''])(
    'does not find 1234.50 in %j',
    (text) => expect(saysNumber(text, '1234.50')).toBe(false),
  );
  it('rounds to two decimals and no further, and takes whole and large numbers', () => {
    expect(saysNumber('10.13', '10.1267')).toBe(true);
    expect(saysNumber('10.1267', '10.1267')).toBe(true);
    expect(saysNumber('10.1', '10.1267')).toBe(false);
    expect(saysNumber('1,200', '1200')).toBe(true);
    expect(saysNumber('1,200.00', '1200')).toBe(true);
    expect(saysNumber('12,345,678.90', '12345678.9')).toBe(true);
  });
});

describe('saysDay', () => {
  it.each(['2026-06-04', '2026/6/4', 'June 4', 'Jun. 04, 2026', '4 June', '4th of June', '04.06.', '6/4', '6月4日'])(
    'finds 2026-06-04 in %j',
    (text) => expect(saysDay(text, '2026-06-04')).toBe(true),
  );
  it.each(['2026-06-14', 'June 14', 'June 40', '14 June', '2026-06-05', '2025-06-14', ''])(
    'does not find 2026-06-04 in %j',
    (text) => expect(saysDay(text, '2026-06-04')).toBe(false),
  );
});
