/**
 * Writes any value as JSON text that Postgres can store: BigInt, cycles, throwing getters, proxies, any depth, lone
 * surrogates and U+0000 included. With a stack of its own instead of recursion. Never throws. Next: storable.ts.
 */
import { describeThrown } from './errors.js';

export interface WriteOptions {
  sortKeys: boolean;
  maxDepth: number;
  /** Writing stops soon after this many characters; what is there then is no longer valid JSON. */
  maxChars: number;
}

/** Text without lone surrogates and U+0000, which Postgres refuses or changes; each becomes U+FFFD. */
export function cleanText(text: string): string {
  const wellFormed = text.toWellFormed();
  return wellFormed.includes('\0') ? wellFormed.replaceAll('\0', '\ufffd') : wellFormed;
}

/** An object or array being written. */
interface Level {
  container: object;
  /** Keys in order; null for an array. */
  keys: string[] | null;
  length: number;
  next: number;
  written: number;
}

const leftOut = Symbol('left out');
type Plain = string | typeof leftOut;

export function writeJson(value: unknown, options: WriteOptions): string {
  const parts: string[] = [];
  let chars = 0;
  const put = (text: string) => {
    parts.push(text);
    chars += text.length;
  };
  const levels: Level[] = [];
  const open = new Set<object>();
  const enter = (start: unknown, prefix: string, inArray: boolean): boolean => {
    const item = simplify(start);
    if (typeof item !== 'object' || item === null) {
      const plain = writePlain(typeof item === 'string' ? item.slice(0, options.maxChars) : item);
      if (plain === leftOut && !inArray) return false;
      put(prefix + (plain === leftOut ? 'null' : plain));
      return true;
    }
    if (open.has(item)) put(`${prefix}"[circular]"`);
    else if (levels.length >= options.maxDepth) put(`${prefix}"[nested too deep]"`);
    else {
      const level = openLevel(item, options.sortKeys);
      put(prefix + (level.keys === null ? '[' : '{'));
      levels.push(level);
      open.add(item);
    }
    return true;
  };
  enter(value, '', true);
  for (let level = levels.at(-1); level !== undefined && chars <= options.maxChars; level = levels.at(-1)) {
    if (level.next >= level.length) {
      put(level.keys === null ? ']' : '}');
      levels.pop();
      open.delete(level.container);
      continue;
    }
    const index = level.next++;
    const comma = level.written === 0 ? '' : ',';
    const key = level.keys?.[index];
    const item = readField(level.container, key ?? index);
    const prefix = key === undefined ? comma : `${comma}${JSON.stringify(cleanText(key))}:`;
    if (enter(item, prefix, level.keys === null)) level.written++;
  }
  return parts.join('');
}

function openLevel(container: object, sortKeys: boolean): Level {
  try {
    if (Array.isArray(container)) return { container, keys: null, length: container.length, next: 0, written: 0 };
    const keys = Object.keys(container);
    if (sortKeys) keys.sort();
    return { container, keys, length: keys.length, next: 0, written: 0 };
  } catch {
    return { container, keys: [], length: 0, next: 0, written: 0 };
  }
}

function readField(container: object, key: string | number): unknown {
  try {
    return (container as Record<string | number, unknown>)[key];
  } catch (thrown) {
    return `[unreadable: ${describeThrown(thrown)}]`;
  }
}

/** What JSON would make of an object, and something better where JSON makes little of it. */
function simplify(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  try {
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Map) return [...value.entries()];
    if (value instanceof Set) return [...value.values()];
    if (value instanceof Error) return { ...value, name: value.name, message: value.message };
    const toJson: unknown = (value as { toJSON?: unknown }).toJSON;
    return typeof toJson === 'function' ? toJson.call(value, '') : value;
  } catch (thrown) {
    return `[unreadable: ${describeThrown(thrown)}]`;
  }
}

function writePlain(value: unknown): Plain {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(cleanText(value));
    case 'number':
      return Number.isFinite(value) ? String(Object.is(value, -0) ? 0 : value) : 'null';
    case 'bigint':
      return `"${value}"`;
    case 'boolean':
      return String(value);
    case 'object':
      return 'null';
    default:
      return leftOut;
  }
}
