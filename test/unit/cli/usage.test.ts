/** What the command line says to those who get it wrong: the thing, the fix and exit status 2; nothing is opened. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { pawl } from './fake-world.js';

const json = '{"a":1}';

describe('a wrong command line', () => {
  it.each<[string[], string]>([
    [['rnu'], "unknown command 'rnu'\n(Did you mean run?)"],
    [['runs', 'redirve'], "unknown command 'redirve'\n(Did you mean redrive?)"],
    [['run', 'a', 'x', '--max-stpes', '5'], "unknown option '--max-stpes'\n(Did you mean --max-steps?)"],
    [['run'], "missing required argument 'agent'"],
    [['run', 'a'], 'the input is missing: give the task as text after the agent, or - to read it from stdin'],
    [['run', 'a', 'sum', 'it'], 'put the input in quotes'],
    [['run', 'a', ' '], 'input must be the task, as text or JSON that is not empty'],
    [['run', '', 'x'], 'agent must be the name of an agent'],
    [
      ['run', 'a', 'x', '--delay', '5'],
      "option '--delay <time>' argument '5' is invalid. Write a number with its unit",
    ],
    [['run', 'a', 'x', '--max-steps', '0'], "argument '0' is invalid. Write a whole number from 1"],
    [['run', 'a', 'x', '--max-steps', '1e3'], 'Write a whole number from 1'],
    [['run', 'a', 'x', '--tag', 'urgent'], 'Write name=value'],
    [['run', 'a', 'x', '--key', ''], 'key must be 1 to 255 characters'],
    [['run', 'a', 'x', '--input-file', 'f'], 'the input is given twice'],
    [['run', 'a', '--input-file', '/no/such/file'], '--input-file /no/such/file cannot be read'],
    [['run', 'a', '{"a":', '--json'], 'the input is not JSON'],
    [['runs', 'list', '-o', 'yaml'], 'Allowed choices are table, json, jsonl, id'],
    [['runs', 'list', '--status', 'complete'], '(did you mean completed?)'],
    [['runs', 'list', '--reason', 'max_step'], '(did you mean max_steps?)'],
    [['runs', 'list', '--since', 'yesterday'], 'Write how long ago (30m, 2h, 7d)'],
    [['runs', 'show'], "missing required argument 'id'"],
    [['runs', 'cancel'], 'which runs? pawl runs cancel takes ids, or a filter'],
    [['runs', 'cancel', 'run_1', '--agent', 'a'], 'name runs by id or by a filter, not by both'],
    [['runs', 'redrive', '--status', 'completed'], '--status completed leaves nothing to redrive'],
    [['runs', 'resolve', 'run_1', '--as', 'done'], "required option '--step <n>' not specified"],
    [['runs', 'resolve', 'run_1', '--step', '2', '--as', 'dnoe'], '(did you mean done?)'],
    [
      ['runs', 'resolve', 'run_1', '--step', '2', '--as', 'rerun', '--result', '1'],
      '--result does not go with --as rerun',
    ],
    [['runs', 'resolve', 'run_1', '--step', '2', '--as', 'done', '--result', "it's"], `write --result '"it'\\''s"'`],
    [['worker', '--role', 'step'], '(did you mean steps?)'],
    [['worker', '-o', 'json'], "unknown option '-o'"],
  ])('pawl %j', async (args, message) => {
    const ran = await pawl(args);
    expect(ran.err).toContain(message);
    expect(ran).toMatchObject({ exit: 2, out: '', opened: 0 });
    expect(ran.err).not.toContain('    at ');
  });

  it('without a command, or with half of one, is answered by help on stderr', async () => {
    expect(await pawl([])).toMatchObject({ exit: 2, out: '' });
    const half = await pawl(['runs']);
    expect(half).toMatchObject({ exit: 2, out: '' });
    expect(half.err).toContain('redrive');
  });
});

describe('what the documented surface names and this version lacks', () => {
  it.each<[string[], string]>([
    [['schedules', 'list', '-o', 'json'], 'pawl schedules'],
    [['keys', 'create', '--help'], 'pawl keys'],
    ...['rerun', 'fork', 'diff', 'approve', 'deny', 'signal', 'export', 'delete', 'migrate'].map(
      (name): [string[], string] => [['runs', name, 'run_1'], `pawl runs ${name}`],
    ),
    [['run', 'a', 'x', '--lane', 'l'], '--lane'],
    [['run', 'a', 'x', '--priority', '3'], '--priority'],
  ])('pawl %j is refused by name', async (args, name) => {
    const ran = await pawl(args);
    expect(ran.err).toMatch(new RegExp(`^error: ${name} is not built in this version`));
    expect(ran).toMatchObject({ exit: 2, out: '', opened: 0 });
  });

  it('is neither shown nor proposed', async () => {
    const { out } = await pawl(['runs', '--help']);
    expect(out).not.toContain('fork');
    expect((await pawl(['runs', 'frok'])).err).not.toContain('fork');
  });
});

describe('help', () => {
  it('is a result, of the whole and of each command', async () => {
    for (const args of [
      ['--help'],
      ['help'],
      ['help', 'run'],
      ['run', '--help'],
      ['runs', 'list', '-h'],
      ['runs', 'help', 'redrive'],
    ]) {
      const ran = await pawl(args);
      expect(ran).toMatchObject({ exit: 0, err: '', opened: 0 });
      expect(ran.out).toContain('Usage: pawl');
    }
  });

  it('ends with an example of the command itself, whichever it is', async () => {
    const names = async (args: string[]): Promise<string[]> => {
      const commands = (await pawl([...args, '--help'])).out.split('Commands:\n')[1]?.split('\n\n')[0] ?? '';
      return [...commands.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name ?? '').filter((name) => name !== 'help');
    };
    const groups = ['runs', 'agents', 'tools'];
    const ofGroups = await Promise.all(
      groups.map(async (group) => (await names([group])).map((name) => [group, name])),
    );
    const all = [
      ...(await names([])).filter((name) => !groups.includes(name)).map((name) => [name]),
      ...ofGroups.flat(),
    ];
    expect(all).toHaveLength(22);
    for (const args of all)
      expect((await pawl([...args, '--help'])).out).toMatch(new RegExp(`\\$ pawl ${args.join(' ')}( |$)`, 'm'));
  });

  it('knows the version of the package', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(await pawl(['--version'])).toMatchObject({ exit: 0, out: `${version}\n`, err: '' });
  });
});

it('an escape sequence in an argument does not reach the terminal', async () => {
  const ran = await pawl(['\x1b[2Jrun'], { isTTY: true });
  expect(ran.err).not.toContain('\x1b[2J');
});

it('input that is no UTF-8, or nothing at all, is refused before anything is opened', async () => {
  expect(await pawl(['run', 'a', '-'], { stdin: '  \n' })).toMatchObject({
    exit: 2,
    err: 'error: stdin is empty: the input of a run is its task\n',
    opened: 0,
  });
  expect(await pawl(['run', 'a', '-', '--json'], { stdin: `${json}}` })).toMatchObject({ exit: 2, opened: 0 });
});
