/**
 * A file with a run a line (JSONL). A line is JSON: an object with the field `input` describes a run, anything else is the
 * input itself. The file is read piece by piece, however long it is; a fault is named by its line.
 */
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { describeThrown, PawlError } from '../core/errors.js';
import { didYouMean } from '../core/nearest.js';
import { readStart, type StartRun } from '../engine/start-run.js';

/** A line with its run, or with what is wrong with it. Numbers begin at 1 and count blank lines, too. */
export type RunLine = { number: number; run: StartRun } | { number: number; fault: string };

const fieldsOfLine = ['input', 'key', 'tenant', 'threadId', 'tags', 'model', 'delayMs', 'limits'] as const;
/** A line that never ends is no JSONL. Above the longest input there can be. */
const longestLine = 8_000_000;

/** Files whose lines are runs. */
export function isLines(file: string): boolean {
  return /\.(jsonl|ndjson)$/i.test(file);
}

/**
 * The runs of the file. What a line does not say comes from `given`; a line without a key gets `<name>:<line>`, so that the
 * same file finds its runs again.
 */
export async function* readRunLines(file: string, given: StartRun): AsyncIterable<RunLine> {
  const name = given.key ?? basename(file);
  for await (const { number, bytes } of linesOf(file)) {
    try {
      const run = readLine(textOf(bytes), given, `${name}:${number}`);
      if (run === null) continue;
      readStart(run);
      yield { number, run };
    } catch (error) {
      yield { number, fault: describeThrown(error) };
    }
  }
}

function readLine(text: string, given: StartRun, key: string): StartRun | null {
  if (text.trim() === '') return null;
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'input')) {
    return { ...given, key, input: value };
  }
  const { tags, limits, ...rest } = value as Partial<StartRun>;
  for (const field of Object.keys(value)) {
    if (fieldsOfLine.some((known) => known === field)) continue;
    const wanted = `a line with the field input describes a run, whose fields are ${fieldsOfLine.join(', ')}`;
    const wrap = 'an input that itself has a field input is written {"input": {…}}';
    const hint = didYouMean(field, fieldsOfLine);
    throw new PawlError('invalid_input', `there is no field ${JSON.stringify(field)}${hint}: ${wanted}; ${wrap}`);
  }
  return {
    ...given,
    key,
    ...rest,
    tags: tags === undefined ? given.tags : isObject(tags) ? { ...given.tags, ...tags } : tags,
    limits: limits === undefined ? given.limits : isObject(limits) ? { ...given.limits, ...limits } : limits,
  };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new PawlError('invalid_input', `not JSON (a text is written in quotes): ${describeThrown(error)}`, {
      cause: error,
    });
  }
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new PawlError('invalid_input', 'not UTF-8 text: convert the file first', { cause: error });
  }
}

const newline = 0x0a;

/** By line feeds alone: U+2028 may stand in a JSON text. */
async function* linesOf(file: string): AsyncIterable<{ number: number; bytes: Uint8Array }> {
  let number = 1;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const chunk of readFile(file)) {
    let from = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
      yield { number, bytes: Buffer.concat([...pending, chunk.subarray(from, end)]) };
      pending = [];
      pendingBytes = 0;
      number += 1;
      from = end + 1;
    }
    pending.push(chunk.subarray(from));
    pendingBytes += chunk.length - from;
    if (pendingBytes > longestLine) {
      throw new PawlError('invalid_input', `line ${number} of ${file} is longer than ${longestLine} bytes`);
    }
  }
  yield { number, bytes: Buffer.concat(pending) };
}

async function* readFile(file: string): AsyncIterable<Buffer> {
  try {
    const handle = await open(file);
    for await (const chunk of handle.createReadStream()) yield chunk as Buffer;
  } catch (error) {
    throw new PawlError('usage', `--input-file ${file} cannot be read: ${describeThrown(error)}`, { cause: error });
  }
}
