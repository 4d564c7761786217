/**
 * Reads the values of flags. A bad one is refused before anything is opened, in a message that commander begins with the
 * flag and the value and that ends with what to write instead.
 */
import { InvalidArgumentError, Option } from 'commander';
import { didYouMean } from '../core/nearest.js';
import { reasons, runStatuses } from '../core/run.js';

const unitMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
/** The longest any duration may be: a year. */
const maxMs = 366 * 86_400_000;

/** `90s`, `5m`, `6h`, `2d`, `1h30m`, in milliseconds. */
export function readDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) {
    throw new InvalidArgumentError('Write a number with its unit, such as 90s, 5m, 6h or 2d.');
  }
  const ms = Math.round(parts.reduce((sum, [, count, unit]) => sum + Number(count) * (unitMs[unit ?? ''] ?? 0), 0));
  if (ms > maxMs) throw new InvalidArgumentError('The longest that can be asked for is 366d.');
  return ms;
}

export function readPositiveDuration(text: string): number {
  const ms = readDuration(text);
  if (ms < 1) throw new InvalidArgumentError('Write more than 0, such as 90s, 5m, 6h or 2d.');
  return ms;
}

/** A whole number from 1. */
function readCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > 1_000_000) {
    throw new InvalidArgumentError('Write a whole number from 1 to 1000000.');
  }
  return count;
}

function readTokens(text: string): number {
  const count = Number(text);
  if (!/^\d{1,12}$/.test(text) || count < 1) throw new InvalidArgumentError('Write a whole number from 1.');
  return count;
}

function readUsd(text: string): number {
  const usd = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || usd < 0.000001 || usd > 1e9) {
    throw new InvalidArgumentError('Write an amount of US dollars above 0, such as 0.50.');
  }
  return usd;
}

/** A whole number from 0: an event's id. */
export function readPosition(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('Write a whole number from 0.');
  return Number(text);
}

/** A moment: so long ago (`2h`), a date (`2026-03-01`, midnight here) or a time (`2026-03-01T09:00`, here unless it names a zone). */
export function readSince(text: string): Date {
  if (/^\d+(\.\d+)?(ms|[smhdw])/.test(text)) return new Date(Date.now() - readDuration(text));
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text);
  const at = new Date(isDate ? `${text}T00:00` : text);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text) || Number.isNaN(at.getTime())) {
    throw new InvalidArgumentError(
      'Write how long ago (30m, 2h, 7d), or a date or time (2026-03-01, 2026-03-01T09:00).',
    );
  }
  return at;
}

/** Collects `k=v`, given as often as wanted. */
export function readTag(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError('Write name=value, such as team=billing.');
  const name = text.slice(0, at);
  if (before !== undefined && Object.hasOwn(before, name)) {
    throw new InvalidArgumentError(`The tag ${name} is given twice; a run has one value of it.`);
  }
  return { ...before, [name]: text.slice(at + 1) };
}

function readOneOf<const T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Write one of ${values.join(', ')}${didYouMean(text, values)}.`);
  };
}

export const statusOption = () =>
  new Option('--status <status>', `only runs in this status: ${runStatuses.join(', ')}`).argParser(
    readOneOf(runStatuses),
  );

export const reasonOption = () =>
  new Option('--reason <reason>', 'only runs with this reason, such as max_steps').argParser(readOneOf(reasons));

export const tagOption = (what: string) => new Option('--tag <name=value>', what).argParser(readTag);

export const sinceOption = () =>
  new Option('--since <time>', 'only runs made since: 2h, 7d, 2026-03-01').argParser(readSince);

export const countOption = (flag: string, what: string) => new Option(`${flag} <n>`, what).argParser(readCount);

export const tokensOption = (what: string) => new Option('--max-tokens <n>', what).argParser(readTokens);

export const costOption = (what: string) => new Option('--max-cost-usd <amount>', what).argParser(readUsd);

export const roleOption = () =>
  new Option('--role <role>', 'all, steps (runs steps) or maintenance (rescues and sweeps)')
    .argParser(readOneOf(['all', 'steps', 'maintenance'] as const))
    .default('all');

export const resolutionOption = () =>
  new Option(
    '--as <answer>',
    'done (it happened), failed (it did not succeed), rerun (it did not happen: run it again)',
  )
    .argParser(readOneOf(['done', 'failed', 'rerun'] as const))
    .makeOptionMandatory();

export const stepOption = () =>
  new Option('--step <n>', 'the step that waits').argParser(readCount).makeOptionMandatory();
