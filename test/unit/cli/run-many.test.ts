/** `pawl run AGENT --input-file FILE.jsonl --detach`: what a line may be, what is refused, and what is said of each. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PawlError } from '../../../src/core/errors.js';
import type { StartedOfMany } from '../../../src/engine/start-many.js';
import type { StartRun } from '../../../src/engine/start-run.js';
import { pawl, type RanOptions } from './fake-world.js';

const folder = mkdtempSync(join(tmpdir(), 'pawl-lines-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function file(content: string | Buffer, name?: string): string {
  files += 1;
  const path = join(folder, name ?? `tasks-${files}.jsonl`);
  writeFileSync(path, content);
  return path;
}

/** Starts the runs of a file; `asked` holds what was asked for, call by call. */
async function startLines(path: string, args: string[] = [], options: RanOptions = {}) {
  const asked: (readonly StartRun[])[] = [];
  const startMany = async (runs: readonly StartRun[]): Promise<StartedOfMany[]> => {
    asked.push(runs);
    return runs.map(({ key }, n) => {
      if (key === 'there') return { id: 'run_0', created: false, error: null };
      if (key === 'taken') {
        return { id: null, created: false, error: new PawlError('key_conflict', 'the key belongs to run_0') };
      }
      return { id: `run_${n + 1}`, created: true, error: null };
    });
  };
  const ran = await pawl(['run', 'tagger', '--input-file', path, '--detach', ...args], {
    runs: { startMany },
    ...options,
  });
  expect(ran.leftOpen).toBe(0);
  return { ...ran, asked };
}

describe('a file with a run a line', () => {
  it('holds inputs, or runs: objects with the field input', async () => {
    const lines = ['"a text"', '{"doc": 7}', '', '[1, 2]', '{"input": {"doc": 8}, "key": "k8", "tags": {"a": "1"}}'];
    const path = file(lines.join('\r\n'), 'docs.jsonl');
    const { exit, asked, err, opened } = await startLines(path, ['--tag', 'b=2', '--tenant', 'acme']);
    const given = { agent: 'tagger', tenant: 'acme' };
    expect(asked.flat()).toMatchObject([
      { ...given, input: 'a text', key: 'docs.jsonl:1', tags: { b: '2' } },
      { ...given, input: { doc: 7 }, key: 'docs.jsonl:2' },
      { ...given, input: [1, 2], key: 'docs.jsonl:4' },
      { ...given, input: { doc: 8 }, key: 'k8', tags: { a: '1', b: '2' } },
    ]);
    expect(exit).toBe(0);
    expect(err).toContain('4 runs started');
    expect(opened).toBe(1);
  });

  it('takes its keys from --key, so that another night is another set of runs', async () => {
    const { asked } = await startLines(file('"a"\n"b"\n'), ['--key', 'night-7']);
    expect(asked.flat().map(({ key }) => key)).toEqual(['night-7:1', 'night-7:2']);
  });

  it('may hold U+2028 within a line, and lines longer than what is read at once', async () => {
    const long = `${'x'.repeat(200_000)}\u2028${'y'.repeat(200_000)}`;
    const { asked } = await startLines(file(`"${long}"\n"b"`));
    expect(asked.flat().map(({ input }) => input)).toEqual([long, 'b']);
  });

  it('is started in pieces, and says how far it is on a terminal', async () => {
    const path = file(Array.from({ length: 4_500 }, (_, n) => `{"n":${n}}\n`).join(''));
    const { asked, err } = await startLines(path, [], { isTTY: true, colours: true });
    expect(asked.map(({ length }) => length)).toEqual([2_000, 2_000, 500]);
    expect(err).toContain('of 4,500 runs');
    expect(err).toContain('4,500 runs started');
  });

  it('goes on elsewhere after Ctrl-C: what was started is said, and the command ends with 130', async () => {
    const path = file(Array.from({ length: 4_500 }, (_, n) => `{"n":${n}}\n`).join(''));
    const interrupt = new AbortController();
    const startMany = async (runs: readonly StartRun[]): Promise<StartedOfMany[]> => {
      interrupt.abort();
      return runs.map((_, n) => ({ id: `run_${n}`, created: true, error: null }));
    };
    const { exit, err } = await startLines(path, [], { interrupt: interrupt.signal, runs: { startMany } });
    expect(exit).toBe(130);
    expect(err).toContain('stopped after 2,000 of 4,500 runs');
    expect(err).toContain('the same command goes on there and starts none twice');
  });

  it('says which runs were there, and names the lines whose key is taken, with exit 7', async () => {
    const path = file('{"input":"a","key":"there"}\n{"input":"b","key":"taken"}\n"c"\n');
    const { exit, err, out } = await startLines(path, ['-o', 'jsonl']);
    expect(exit).toBe(7);
    expect(err).toContain('line 2: the key belongs to run_0');
    expect(err).toContain('1 run started, 1 there already, 1 refused');
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toMatchObject([
      { line: 1, id: 'run_0', created: false, key: 'there', error: null },
      { line: 2, id: null, created: false, key: 'taken', error: { code: 'key_conflict' } },
      { line: 3, id: 'run_3', created: true, error: null },
    ]);
  });

  it('prints ids, or one JSON document, where that is asked for', async () => {
    expect((await startLines(file('"a"\n"b"\n'), ['-o', 'id'])).out).toBe('run_1\nrun_2\n');
    const { out } = await startLines(file('"a"\n'), ['-o', 'json']);
    expect(JSON.parse(out)).toMatchObject({ data: [{ line: 1, id: 'run_1', created: true }], page: { next: null } });
  });
});

describe('a file with a run a line is refused before anything is opened', () => {
  async function refused(path: string, args: string[] = []) {
    const ran = await startLines(path, args);
    expect(ran).toMatchObject({ exit: 2, opened: 0, out: '' });
    return ran.err;
  }

  it('when lines are bad: each is named by its number', async () => {
    const lines = ['"fine"', 'plain words', '{"input": "x", "kye": "k"}', '{"input": ""}', '{"input":"x","limits":7}'];
    const err = await refused(file(lines.join('\n')));
    expect(err).toContain('nothing was started: 4 bad lines');
    expect(err).toContain('- line 2: not JSON (a text is written in quotes)');
    expect(err).toContain('- line 3: there is no field "kye" (did you mean key?)');
    expect(err).toContain('- line 4: input must be');
    expect(err).toContain('- line 5: limits must be');
  });

  it('when a line is not UTF-8', async () => {
    expect(await refused(file(Buffer.from([0x22, 0xff, 0x22])))).toContain('line 1: not UTF-8');
  });

  it('when it is empty, or is not there', async () => {
    expect(await refused(file('\n\n'))).toContain('no line with a run');
    expect(await refused(join(folder, 'missing.jsonl'))).toContain('cannot be read');
  });

  it('when an input is given as well, or the runs were to be followed', async () => {
    const path = file('"a"\n');
    expect(await refused(path, ['input'])).toContain('given twice');
    const { exit, err } = await pawl(['run', 'tagger', '--input-file', path]);
    expect(exit).toBe(2);
    expect(err).toContain('add --detach');
  });
});
