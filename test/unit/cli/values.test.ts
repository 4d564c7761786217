import { InvalidArgumentError } from 'commander';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readDuration, readPosition, readPositiveDuration, readSince, readTag } from '../../../src/cli/values.js';

describe('a duration', () => {
  it.each([
    ['90s', 90_000],
    ['5m', 300_000],
    ['6h', 21_600_000],
    ['2d', 172_800_000],
    ['1w', 604_800_000],
    ['250ms', 250],
    ['1h30m', 5_400_000],
    ['1.5h', 5_400_000],
    ['0s', 0],
  ])('%s is %d ms', (text, ms) => expect(readDuration(text)).toBe(ms));

  it.each(['5', 'm', '5 m', '-5m', '5m x', '5y', '', '1e3s', '５m', 'Infinitys', '400d'])('%j is refused', (text) => {
    expect(() => readDuration(text)).toThrow(InvalidArgumentError);
  });

  it('names the fix', () => {
    expect(() => readDuration('5')).toThrow('Write a number with its unit, such as 90s, 5m, 6h or 2d.');
    expect(() => readPositiveDuration('0s')).toThrow('Write more than 0');
  });
});

describe('a moment', () => {
  beforeEach(() => vi.useFakeTimers({ now: new Date('2026-03-01T12:00:00Z') }));
  afterEach(() => vi.useRealTimers());

  it('is so long ago, or a date or time here, or one with its own zone', () => {
    expect(readSince('2h')).toEqual(new Date('2026-03-01T10:00:00Z'));
    expect(readSince('2026-02-28')).toEqual(new Date(2026, 1, 28));
    expect(readSince('2026-02-28T09:30')).toEqual(new Date(2026, 1, 28, 9, 30));
    expect(readSince('2026-02-28T09:30:00Z')).toEqual(new Date('2026-02-28T09:30:00Z'));
  });

  it.each(['yesterday', '2026-13-01', '28.2.2026', '2', '', '99999999999d'])('%j is refused', (text) => {
    expect(() => readSince(text)).toThrow(InvalidArgumentError);
  });
});

describe('a tag', () => {
  it('is name=value, collected; a value may hold = itself', () => {
    expect(readTag('b=1=2', readTag('a=x', undefined))).toEqual({ a: 'x', b: '1=2' });
  });

  it.each(['a', '=x', 'a=', ''])('%j is refused', (text) =>
    expect(() => readTag(text, undefined)).toThrow('name=value'),
  );

  it('is given once', () => {
    expect(() => readTag('a=2', { a: '1' })).toThrow('The tag a is given twice');
  });
});

it('an event id is a whole number from 0', () => {
  expect(readPosition('0')).toBe(0);
  for (const text of ['-1', '1.5', 'x', '']) expect(() => readPosition(text)).toThrow(InvalidArgumentError);
});
