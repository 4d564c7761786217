/** What was thrown, as text, whatever it was. */
import { describe, expect, it } from 'vitest';
import { describeThrown } from '../../src/core/errors.js';

describe('describeThrown', () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  it.each<[string, unknown, string]>([
    ['an error', new Error('no luck'), 'no luck'],
    ['an error without a message', new TypeError(''), 'TypeError'],
    ['an error whose name is an object', Object.assign(new Error(''), { name: { odd: true } }), '[object Object]'],
    ['an error whose message is a symbol', Object.assign(new Error(''), { message: Symbol('odd') }), 'Symbol(odd)'],
    ['text', 'just text', 'just text'],
    ['nothing', undefined, 'threw undefined'],
    ['an object', { code: 7 }, '{"code":7}'],
    ['a cycle', loop, 'threw an unprintable object'],
    ['a BigInt', 12n, 'threw an unprintable bigint'],
  ])('reads %s as text', (_, thrown, expected) => {
    expect(describeThrown(thrown)).toBe(expected);
  });

  it('survives a proxy that throws at every touch', () => {
    const touch = (): never => {
      throw new Error('touched');
    };
    const trap = new Proxy({}, { get: touch, getPrototypeOf: touch, ownKeys: touch, has: touch });
    expect(describeThrown(trap)).toBe('threw an unprintable object');
  });
});
