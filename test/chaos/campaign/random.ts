/** Random choices that are a function of a seed and a name, whatever was drawn elsewhere before. */
import { createHash } from 'node:crypto';

export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** By weight; weights of 0 are never drawn. */
  weighted<T>(items: readonly { item: T; weight: number }[]): T;
}

export function randomOf(...names: readonly (string | number)[]): Random {
  let state = digest(...names).readUInt32LE();
  function next(): number {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const int = (min: number, max: number) => min + Math.floor(next() * (max - min + 1));
  function pick<T>(items: readonly T[]): T {
    const picked = items[int(0, items.length - 1)];
    if (picked === undefined) throw new Error('nothing to pick from');
    return picked;
  }
  return {
    next,
    int,
    pick,
    chance: (probability) => next() < probability,
    weighted(items) {
      let at = next() * items.reduce((sum, { weight }) => sum + weight, 0);
      for (const { item, weight } of items) {
        at -= weight;
        if (at < 0) return item;
      }
      return pick(items).item;
    },
  };
}

/** Ten hexadecimal digits that stand for these names and nothing else. */
export function tokenOf(...names: readonly (string | number)[]): string {
  return digest(...names).toString('hex', 4, 9);
}

function digest(...names: readonly (string | number)[]): Buffer {
  return createHash('sha256').update(JSON.stringify(names)).digest();
}
