/**
 * The log: JSON lines on stderr, a readable form on a terminal, and one JSONL file a day where PAWL_LOG_DIR asks for it. It
 * never throws, never shows a secret, and lets no control character reach a terminal. The only importer of pino.
 */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import pretty from 'pino-pretty';
import { describeThrown, PawlError } from './core/errors.js';
import { isSecretName, mask, maskSecrets } from './core/secrets.js';
import type { Log } from './ports.js';

export interface LogSettings {
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Folder of the daily files; null: none. */
  dir: string | null;
  /** Whether a person reads stderr. */
  readable: boolean;
  colour?: boolean;
  /** Values that no line may hold. */
  secrets: readonly string[];
  /** In place of stderr. */
  write?: (line: string) => void;
  now?: () => Date;
}

interface LineSink {
  write(line: string): void;
}

export function createLog(settings: LogSettings): Log {
  const { level, dir, secrets, now = () => new Date() } = settings;
  const sinks = [mainSink(settings), ...(dir === null ? [] : [dailySink(dir, now)])];
  const streams = sinks.map((sink) => ({ level: 'debug' as const, stream: guarded(sink, secrets) }));
  const options = { level, timestamp: () => `,"time":"${now().toISOString()}"`, formatters: { level: levelLabel } };
  return portOf(pino(options, pino.multistream(streams)));
}

function levelLabel(label: string) {
  return { level: label };
}

function portOf(logger: pino.Logger): Log {
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (fields: Record<string, unknown>, message: string) => {
    if (!logger.isLevelEnabled(level)) return;
    try {
      logger[level](cleanFields(fields), cleanLine(String(message)));
    } catch {
      // A log line is never worth a step.
    }
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => portOf(logger.child(cleanFields(fields))),
  };
}

function mainSink({ readable, colour, write }: LogSettings): LineSink {
  const out = write === undefined ? pino.destination({ fd: 2, sync: true }) : { write };
  // Stderr that went away takes its lines with it, and nothing else.
  if ('on' in out) out.on('error', () => {});
  if (!readable) return out;
  const format = pretty.prettyFactory({
    colorize: colour ?? true,
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname',
  });
  return { write: (line) => out.write(format(line) ?? '') };
}

/** `pawl-2024-06-01.jsonl`, by UTC as the lines' own times; several processes may append to one. */
function dailySink(dir: string, now: () => Date): LineSink {
  let day = '';
  let file: number | null = null;
  const open = () => {
    const today = now().toISOString().slice(0, 10);
    if (today === day && file !== null) return file;
    if (file !== null) closeSync(file);
    file = null;
    file = openSync(join(dir, `pawl-${today}.jsonl`), 'a', 0o640);
    day = today;
    return file;
  };
  try {
    mkdirSync(dir, { recursive: true });
    open();
  } catch (thrown) {
    const message = `PAWL_LOG_DIR: ${dir} cannot be written: ${describeThrown(thrown)}`;
    throw new PawlError('config_invalid', message, { cause: thrown });
  }
  return { write: (line) => writeSync(open(), line) };
}

/** Masks each line as a whole, whatever its parts were; a sink that fails loses the line and nothing else. */
function guarded(sink: LineSink, secrets: readonly string[]): LineSink {
  const forms = [...new Set(secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]))];
  return {
    write(line) {
      try {
        sink.write(maskSecrets(line, forms));
      } catch {
        // A full disk, a folder taken away: the other sink still has the line.
      }
    },
  };
}

const maxDepth = 6;
const maxItems = 50;
const maxChars = 4_000;

function cleanFields(fields: Record<string, unknown>): Record<string, unknown> {
  return cleanObject(fields, 0);
}

function cleanObject(object: object, depth: number): Record<string, unknown> {
  const clean: Record<string, unknown> = {};
  for (const key of Object.keys(object).slice(0, maxItems)) {
    try {
      const value = (object as Record<string, unknown>)[key];
      clean[cleanLine(key)] = isSecretName(key) && isSecretValue(value) ? mask : cleanValue(value, depth + 1);
    } catch (thrown) {
      clean[cleanLine(key)] = `[unreadable: ${describeThrown(thrown)}]`;
    }
  }
  return clean;
}

function cleanValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return cleanLine(value);
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Error) return cleanError(value, depth);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth >= maxDepth) return '[…]';
  if (Array.isArray(value)) return value.slice(0, maxItems).map((item) => cleanValue(item, depth + 1));
  return cleanObject(value, depth);
}

function cleanError(error: Error, depth: number): Record<string, unknown> {
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const cause = error.cause === undefined || depth >= maxDepth ? {} : { cause: cleanValue(error.cause, depth + 1) };
  const stack = cleanLine(String(error.stack ?? ''));
  return { name: cleanLine(String(error.name)), message: cleanLine(describeThrown(error)), ...code, stack, ...cause };
}

/** Counts and flags under such a name are no secrets. */
function isSecretValue(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null);
}

/** Without what a terminal would obey; of a bearable length. */
function cleanLine(text: string): string {
  const cut = text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  return cut.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\ufffd').toWellFormed();
}
