/** `pawl run`: what goes to stdout, what to stderr, and with which status each end of a run ends the command. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PawlError } from '../../../src/core/errors.js';
import type { RunView } from '../../../src/core/view.js';
import type { Runs } from '../../../src/engine/runs.js';
import type { StartRun } from '../../../src/engine/start-run.js';
import { anEvent, aRun, aStep, pawl, watching } from './fake-world.js';

const folder = mkdtempSync(join(tmpdir(), 'pawl-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

const created = async () => ({ id: 'run_1', created: true });
const events = [
  anEvent(1, 'run.created'),
  anEvent(2, 'step.completed', { seq: 1, data: { kind: 'llm', name: 'gpt-4o-mini', calls: 1 } }),
  anEvent(3, 'step.retry', {
    seq: 2,
    data: {
      kind: 'tool',
      name: 'sql_query',
      attempt: 1,
      inMs: 2_100,
      error: { code: 'threw', message: 'no\x1b[31m line' },
    },
  }),
  anEvent(4, 'step.rescued', {
    seq: 2,
    data: { kind: 'tool', name: 'sql_query', attempt: 2, cause: 'crash', worker: 'worker_1' },
  }),
  anEvent(5, 'step.completed', { seq: 2, data: { kind: 'tool', name: 'sql_query' } }),
  anEvent(6, 'run.completed'),
];
const steps = [aStep(), aStep({ seq: 2, kind: 'tool', name: 'sql_query', attempt: 3, usage: null })];

function followed(run: RunView): Partial<Runs> {
  return { start: created, watch: watching(events), get: async () => run, steps: async () => steps };
}

describe('a run that is followed', () => {
  it('prints its output as the result, and a line for each step as messages', async () => {
    const ran = await pawl(['run', 'analyst', 'Sum the sales'], { runs: followed(aRun()) });
    expect(ran).toMatchObject({ exit: 0, out: 'The sum is 7\n', leftOpen: 0 });
    expect(ran.err.split('\n')).toEqual([
      'run_1  follow it elsewhere with pawl runs watch run_1',
      '✓    1  llm   gpt-4o-mini                 1.2 s      1,204 in, 88 out  $0.0021  asks for a tool',
      '↻    2  tool  sql_query                 attempt 1 failed (threw: no line); again in 2.1 s',
      '↻    2  tool  sql_query                 rescued from attempt 2: its worker died',
      '✓    2  tool  sql_query                   1.2 s  attempt 3',
      'completed · 12.4 s · 2 steps · 1 turn · tokens 1,204 in, 88 out · $0.0021 · run_1',
      '',
    ]);
  });

  it('is given what the flags say', async () => {
    let asked: StartRun | undefined;
    const start = async (run: StartRun) => {
      asked = run;
      return created();
    };
    await pawl(
      [
        'run',
        'analyst',
        'x',
        '--key',
        'k',
        '--tag',
        'a=1',
        '--tag',
        'b=2',
        '--tenant',
        't',
        '--delay',
        '5m',
        '--deadline',
        '6h',
        '--max-steps',
        '9',
        '--max-turns',
        '3',
        '--model',
        'm',
        '--detach',
      ],
      { runs: { start } },
    );
    expect(asked).toEqual({
      ...{
        agent: 'analyst',
        input: 'x',
        key: 'k',
        tags: { a: '1', b: '2' },
        tenant: 't',
        model: 'm',
        delayMs: 300_000,
      },
      limits: { maxSteps: 9, maxTurns: 3, deadlineMs: 21_600_000 },
    });
  });

  it.each<[string, string[], string, unknown]>([
    ['an argument, as it stands', ['{"a":1}'], '', '{"a":1}'],
    ['an argument, as JSON where that is asked for', ['{"a":1}', '--json'], '', { a: 1 }],
    ['stdin, without its last line end', ['-'], 'two\nlines\n', 'two\nlines'],
    ['a JSON file, by its name', ['--input-file', join(folder, 'task.json')], '', { task: ['汇总'] }],
    ['a text file', ['--input-file', join(folder, 'task.txt')], '', '{"task": 1}'],
  ])('takes its input from %s', async (_, args, stdin, input) => {
    writeFileSync(join(folder, 'task.json'), '\ufeff{"task": ["汇总"]}');
    writeFileSync(join(folder, 'task.txt'), '{"task": 1}\n');
    let given: unknown;
    const start = async (run: StartRun) => {
      given = run.input;
      return created();
    };
    expect(await pawl(['run', 'a', ...args, '-d'], { stdin, runs: { start } })).toMatchObject({
      exit: 0,
      out: 'run_1\n',
    });
    expect(given).toEqual(input);
  });

  it.each<[Partial<RunView>, number, string]>([
    [
      { status: 'failed', reason: 'attempts_exhausted', error: { code: 'server_error', message: '500' }, output: null },
      3,
      'pawl runs redrive run_1',
    ],
    [{ status: 'cancelled', reason: 'cancelled', output: null }, 4, 'cancelled'],
    [
      { status: 'suspended', waitingFor: { kind: 'outcome', step: 4, detail: null }, output: null },
      5,
      'pawl runs resolve run_1 --step 4 --as done',
    ],
    [{ status: 'completed', reason: 'max_steps' }, 0, 'completed, max_steps: it reached its limit of steps'],
  ])('that ends as %j ends the command with %d', async (given, exit, message) => {
    const ran = await pawl(['run', 'analyst', 'x', '--quiet'], { runs: followed(aRun(given)) });
    expect(ran.exit).toBe(exit);
    expect(ran.err).toContain(message);
    expect(ran.out).toBe(given.output === null ? '' : 'The sum is 7\n');
  });

  it('stops being followed when it waits for a person, not when it waits for a worker', async () => {
    const suspended = [anEvent(1, 'run.suspended'), anEvent(2, 'run.resumed'), anEvent(3, 'run.completed')];
    const waits = aRun({
      status: 'suspended',
      waitingFor: { kind: 'limit', step: 3, detail: 'max_steps' },
      output: null,
    });
    const onLimit = await pawl(['run', 'a', 'x'], {
      runs: { start: created, watch: watching([suspended[0] ?? anEvent(1, 'x')], true), get: async () => waits },
    });
    expect(onLimit.exit).toBe(5);
    expect(onLimit.err).toContain('pawl runs resume run_1 --max-steps 90');
    let looks = 0;
    const get = async (): Promise<RunView> => {
      looks += 1;
      return looks === 1 ? aRun({ status: 'suspended', waitingFor: { kind: 'worker', step: 1, detail: 'a' } }) : aRun();
    };
    expect((await pawl(['run', 'a', 'x'], { runs: { start: created, watch: watching(suspended), get } })).exit).toBe(0);
  });

  it('prints JSON output as JSON, and the run itself with -o json or jsonl', async () => {
    const run = aRun({ output: { sum: 7, 说明: '总和' } });
    expect((await pawl(['run', 'a', 'x'], { runs: followed(run) })).out).toBe('{\n  "sum": 7,\n  "说明": "总和"\n}\n');
    expect(JSON.parse((await pawl(['run', 'a', 'x', '-o', 'json'], { runs: followed(run) })).out)).toEqual(run);
    const lines = (await pawl(['run', 'a', 'x', '-o', 'jsonl'], { runs: followed(run) })).out.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([run]);
    expect((await pawl(['run', 'a', 'x', '-o', 'id'], { runs: followed(run) })).out).toBe('run_1\n');
  });

  it('keeps its output byte for byte in a pipe, and harmless on a terminal', async () => {
    const run = aRun({ output: 'a\x1b[2Jb\r\nc' });
    expect((await pawl(['run', 'a', 'x'], { runs: followed(run) })).out).toBe('a\x1b[2Jb\r\nc\n');
    expect((await pawl(['run', 'a', 'x'], { runs: followed(run), isTTY: true })).out).toBe('ab\nc\n');
  });
});

describe('a run that is not waited for', () => {
  it('is an id, or the run with -o json', async () => {
    expect(await pawl(['run', 'a', 'x', '--detach'], { runs: { start: created } })).toMatchObject({
      exit: 0,
      out: 'run_1\n',
      err: '',
    });
    const run = aRun({ status: 'pending' });
    const ran = await pawl(['run', 'a', 'x', '-d', '-o', 'json'], { runs: { start: created, get: async () => run } });
    expect(JSON.parse(ran.out)).toEqual(run);
  });

  it('that its key names already is said to be so', async () => {
    const start = async () => ({ id: 'run_0', created: false });
    const ran = await pawl(['run', 'a', 'x', '-d', '--key', 'k'], { runs: { start } });
    expect(ran).toMatchObject({ exit: 0, out: 'run_0\n' });
    expect(ran.err).toContain('no other run was started');
  });

  it('goes on when the command is interrupted, which says how to follow it', async () => {
    const interrupt = new AbortController();
    const watch: Runs['watch'] = async function* (_, { signal } = {}) {
      interrupt.abort();
      expect(signal?.aborted).toBe(true);
      yield* [];
    };
    const runs = { start: created, watch, get: async () => aRun({ status: 'running' }) };
    const ran = await pawl(['run', 'a', 'x'], { runs, interrupt: interrupt.signal });
    expect(ran).toMatchObject({ exit: 130, out: '', leftOpen: 0 });
    expect(ran.err).toContain(
      'run_1 goes on. Follow it with pawl runs watch run_1, or stop it with pawl runs cancel run_1',
    );
  });

  it('is not started after an interrupt', async () => {
    expect(await pawl(['run', 'a', 'x'], { interrupt: AbortSignal.abort() })).toMatchObject({
      exit: 130,
      out: '',
      leftOpen: 0,
    });
  });
});

describe('a run in trouble', () => {
  it('shows its error without what a terminal would obey', async () => {
    const error = { code: 'server_error', message: 'bad\x1b[2J gateway' };
    const ran = await pawl(['run', 'a', 'x'], { runs: followed(aRun({ status: 'failed', error, output: null })) });
    expect(ran.err).toContain('server_error: bad gateway');
  });

  it('says when no worker takes it up, once', async () => {
    let looks = 0;
    const enough = new AbortController();
    const watch: Runs['watch'] = async function* () {
      await new Promise((resolve) => enough.signal.addEventListener('abort', resolve, { once: true }));
      yield* [];
    };
    const get = async (): Promise<RunView> => {
      looks += 1;
      if (looks === 3) enough.abort();
      return looks < 3 ? aRun({ status: 'pending', startedAt: null }) : aRun();
    };
    const runs = { start: created, watch, get, steps: async () => [aStep({ status: 'pending', attempt: 0 })] };
    const ran = await pawl(['run', 'a', 'x'], { runs, patienceMs: 0, isTTY: true });
    expect(
      ran.err.match(/no worker has taken the run up yet; if none is running, start one with pawl dev or pawl worker/g),
    ).toHaveLength(1);
  });

  it('of an unknown agent names the known ones', async () => {
    const start = async (): Promise<never> => {
      throw new PawlError('unknown_agent', 'no worker has registered an agent named "analist"');
    };
    const agents = async () => [{ name: 'analyst' }, { name: 'billing' }] as Awaited<ReturnType<Runs['agents']>>;
    const ran = await pawl(['run', 'analist', 'x'], { runs: { start, agents } });
    expect(ran).toMatchObject({ exit: 6, out: '', leftOpen: 0 });
    expect(ran.err).toContain('In this database the agents are analyst, billing (did you mean analyst?).');
  });

  it('whose key has another input is a conflict', async () => {
    const start = async (): Promise<never> => {
      throw new PawlError('key_conflict', 'the key "k" belongs to run run_0, which has another input');
    };
    expect(await pawl(['run', 'a', 'x', '--key', 'k'], { runs: { start } })).toMatchObject({ exit: 7, out: '' });
  });

  it('is followed on after the database came back, from where it was', async () => {
    const after: number[] = [];
    const watch: Runs['watch'] = async function* (_, options = {}) {
      after.push(options.after ?? 0);
      if (after.length === 1) {
        yield anEvent(1, 'run.paused');
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (after.length < 3) throw new PawlError('database_unreachable', 'Postgres does not answer');
      yield anEvent(2, 'run.completed');
    };
    const ran = await pawl(['run', 'a', 'x'], { runs: { ...followed(aRun()), watch } });
    expect(ran).toMatchObject({ exit: 0, out: 'The sum is 7\n' });
    expect(after).toEqual([0, 1, 1]);
    expect(ran.err.match(/trying again/g)).toHaveLength(1);
  });

  it('whose database stays away ends the command with 8, and is said to go on', async () => {
    const watch: Runs['watch'] = async function* () {
      yield* [];
      throw new PawlError('database_unreachable', 'Postgres does not answer');
    };
    const ran = await pawl(['run', 'a', 'x'], { runs: { start: created, watch } });
    expect(ran).toMatchObject({ exit: 8, out: '', leftOpen: 0 });
    expect(ran.err).toContain('run_1 goes on; follow it again with pawl runs watch run_1');
  });

  it('by a bug says so without a stack', async () => {
    const start = async (): Promise<never> => {
      throw new TypeError('x is undefined');
    };
    const ran = await pawl(['run', 'a', 'x'], { runs: { start } });
    expect(ran.exit).toBe(1);
    expect(ran.err).toContain('error: x is undefined\nThis is a bug in Pawl');
    expect(ran.err).not.toContain('    at ');
    const debugged = await pawl(['run', 'a', 'x'], { runs: { start }, services: { showsStacks: async () => true } });
    expect(debugged.err).toContain('    at ');
  });
});
