/**
 * The input of a new run, from wherever it is given: an argument, stdin or a file. Text is a task as it stands; JSON is
 * read only where it is asked for, by `--json` or by a file's name, so that no task is ever mistaken for it.
 */
import { readFile } from 'node:fs/promises';
import { describeThrown, PawlError } from '../core/errors.js';

export interface InputSource {
  /** The argument; `-` is stdin. */
  input: string | undefined;
  inputFile?: string | undefined;
  json?: boolean | undefined;
}

export async function readRunInput(source: InputSource, readStdin: () => Promise<Uint8Array>): Promise<unknown> {
  const { input, inputFile } = source;
  if (input !== undefined && inputFile !== undefined) {
    throw new PawlError(
      'usage',
      `the input is given twice, as ${JSON.stringify(input.slice(0, 40))} and by --input-file ${inputFile}: leave one out`,
    );
  }
  if (inputFile !== undefined)
    return readText(inputFile, await readFileOf(inputFile), source.json === true || /\.json$/i.test(inputFile));
  if (input === '-') return readText('stdin', await readStdin(), source.json === true);
  if (input === undefined) {
    throw new PawlError(
      'usage',
      'the input is missing: give the task as text after the agent, or - to read it from stdin, or --input-file FILE',
    );
  }
  return source.json === true ? parseJson('the input', input) : input;
}

async function readFileOf(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new PawlError('usage', `--input-file ${path} cannot be read: ${describeThrown(error)}`, { cause: error });
  }
}

function readText(from: string, bytes: Uint8Array, isJson: boolean): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new PawlError('invalid_input', `${from} is not UTF-8 text: convert it first`, { cause: error });
  }
  if (text.trim() === '') throw new PawlError('invalid_input', `${from} is empty: the input of a run is its task`);
  return isJson ? parseJson(from, text) : text.replace(/\r?\n$/, '');
}

function parseJson(from: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new PawlError('invalid_input', `${from} is not JSON: ${describeThrown(error)}`, { cause: error });
  }
}
