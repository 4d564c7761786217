/**
 * The options of the commands that are run by hand: each is printed by `--help` with what it means, and what is not among
 * them, or not of its kind, is refused by name before anything begins.
 */
import { parseArgs } from 'node:util';

export interface Option<T> {
  says: string;
  /** How its value is written; null: it has none. */
  shape: string | null;
  otherwise: T;
  /** What it is otherwise, in words; empty where nothing is to be said. */
  otherwiseSays: string;
  /** Null: not of its kind. */
  read(value: string): T | null;
}

export interface Command<O> {
  /** As it is typed, up to its options. */
  name: string;
  says: string;
  /** A word that must follow its name. */
  operand?: string;
  options: O;
}

export type Values<O> = { [K in keyof O]: O[K] extends Option<infer T> ? T : never };

export const flag = (says: string): Option<boolean> => {
  return { says, shape: null, otherwise: false, otherwiseSays: '', read: () => true };
};

/** `like`: the whole of it, and how that is said. */
export function text<T extends string | null>(
  says: string,
  otherwise: T,
  { like = /^.+$/s, shape = 'TEXT' }: { like?: RegExp; shape?: string } = {},
): Option<string | T> {
  const read = (value: string) => (like.test(value) ? value : null);
  return { says, shape, otherwise, otherwiseSays: otherwise ?? '', read };
}

/** `least` is not among the numbers where `above` says so. */
export function number<T extends number | null>(
  says: string,
  otherwise: T,
  { least = 0, above = false }: { least?: number; above?: boolean } = {},
): Option<number | T> {
  const shape = above ? `NUMBER above ${least}` : `NUMBER from ${least} on`;
  return {
    says,
    shape,
    otherwise,
    otherwiseSays: otherwise === null ? '' : String(otherwise),
    read(value) {
      const read = value.trim() === '' ? Number.NaN : Number(value);
      return Number.isFinite(read) && (above ? read > least : read >= least) ? read : null;
    },
  };
}

export function oneOf<const N extends string>(says: string, names: readonly N[], otherwise: N): Option<N> {
  const read = (value: string) => names.find((name) => name === value) ?? null;
  return { says, shape: names.join('|'), otherwise, otherwiseSays: otherwise, read };
}

/** Several names with commas between them. */
export function someOf<const N extends string>(says: string, names: readonly N[]): Option<N[] | null> {
  return {
    says,
    shape: `some of ${names.join(',')}`,
    otherwise: null,
    otherwiseSays: 'all',
    read(value) {
      const found = value.split(',').map((word) => names.find((name) => name === word.trim()));
      return found.includes(undefined) ? null : (found as N[]);
    },
  };
}

type Options = Record<string, Option<unknown>>;
/** `refused`: a sentence for who typed it. */
export type Read<O> = { values: Values<O>; operand: string } | { help: string } | { refused: string };

export function parseOptions<O extends Options>(command: Command<O>, args: readonly string[]): Read<O> {
  const { options, operand } = command;
  if (args.includes('--help') || args.includes('-h')) return { help: helpOf(command) };
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { shape }]) => [name, { type: shape === null ? 'boolean' : 'string' }]),
    ),
    strict: false,
    tokens: true,
  });
  const values = Object.fromEntries(Object.entries(options).map(([name, { otherwise }]) => [name, otherwise]));
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      words.push(token.value);
      continue;
    }
    const option = options[token.name];
    if (option === undefined) return { refused: `there is no option ${token.rawName}` };
    if (option.shape === null && token.value !== undefined) return { refused: `--${token.name} takes no value` };
    const value = option.read(token.value ?? '');
    if (value === null) return { refused: `--${token.name} is ${option.shape}, and not "${token.value ?? ''}"` };
    values[token.name] = value;
  }
  if (operand !== undefined && words.length === 0) return { refused: `${operand} is missing` };
  const more = words[operand === undefined ? 0 : 1];
  if (more !== undefined) return { refused: `"${more}" is no option` };
  return { values: values as Values<O>, operand: words[0] ?? '' };
}

/** Ends the process with 0 for `--help`, and with 64 where something is refused. */
export function readOptions<O extends Options>(command: Command<O>): { values: Values<O>; operand: string } {
  const read = parseOptions(command, process.argv.slice(2));
  if ('values' in read) return read;
  if ('help' in read) {
    console.log(read.help);
    process.exit(0);
  }
  console.error(`${read.refused}; \`${command.name} --help\` prints what there is`);
  process.exit(64);
}

function helpOf<O extends Options>({ name, says, operand, options }: Command<O>): string {
  const usage = `${name}${operand === undefined ? '' : ` ${operand}`}${Object.keys(options).length > 0 ? ' [options]' : ''}`;
  const lines = Object.entries(options).flatMap(([option, { shape, says, otherwiseSays }]) => [
    `  --${option}${shape === null ? '' : ` ${shape}`}`,
    `      ${says}${otherwiseSays === '' ? '' : ` (${otherwiseSays})`}`,
  ]);
  return [`usage: ${usage}`, '', says, '', ...lines, '  --help', '      prints this'].join('\n');
}
