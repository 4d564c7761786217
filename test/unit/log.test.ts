import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { createLog, type LogSettings } from '../../src/log.js';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'pawl-log-'));
  folders.push(folder);
  return folder;
}

function logged(change: Partial<LogSettings> = {}) {
  const lines: string[] = [];
  const log = createLog({
    level: 'debug',
    dir: null,
    readable: false,
    secrets: [],
    write: (line) => lines.push(line),
    now: () => new Date('2024-06-01T23:59:59.500Z'),
    ...change,
  });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? 'null') as Record<string, unknown> };
}

it('writes one JSON line an entry, with what its parents bound', () => {
  const { log, lines, last } = logged();
  log.child({ runId: 'run_1' }).child({ seq: 3 }).info({ attempt: 1 }, 'claimed');
  expect(lines).toHaveLength(1);
  expect(lines[0]?.endsWith('\n')).toBe(true);
  expect(last()).toMatchObject({
    level: 'info',
    time: '2024-06-01T23:59:59.500Z',
    runId: 'run_1',
    seq: 3,
    attempt: 1,
    msg: 'claimed',
  });
});

it('keeps to its level', () => {
  const { log, lines } = logged({ level: 'warn' });
  log.info({}, 'no');
  log.error({}, 'yes');
  expect(lines).toHaveLength(1);
});

it('masks secrets by name, by value and by look, wherever they stand', () => {
  const { log, lines } = logged({ secrets: ['hunter"22'] });
  log.child({ apiKey: 'abc' }).warn(
    {
      headers: { Authorization: 'Bearer abcdef123456', 'x-auth-token': 'tttt' },
      deep: [{ password: { value: 'pppp' } }],
      url: 'postgres://app:swordfish@db/x',
      error: new Error('bad key sk-proj-abcdefgh12345678'),
      note: 'the password is hunter"22',
      tokens: 17,
    },
    'refused hunter"22 of redis://:letmein@h',
  );
  const [line = ''] = lines;
  for (const secret of ['abc"', 'abcdef123456', 'tttt', 'pppp', 'swordfish', 'sk-proj', 'hunter', 'letmein']) {
    expect(line, secret).not.toContain(secret);
  }
  expect(JSON.parse(line)).toMatchObject({ tokens: 17, url: 'postgres://app:[redacted]@db/x' });
});

it('logs errors with their code and cause', () => {
  const { log, last } = logged();
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  log.error({ error: new Error('no database', { cause }) }, 'failed');
  expect(last()).toMatchObject({
    error: {
      name: 'Error',
      message: 'no database',
      stack: expect.stringContaining('log.test.ts'),
      cause: { code: 'ECONNREFUSED' },
    },
  });
});

it('survives whatever it is given', () => {
  const { log, last } = logged();
  const circle: Record<string, unknown> = { big: 1n, at: new Date(Number.NaN) };
  circle.self = circle;
  Object.defineProperty(circle, 'bad', {
    enumerable: true,
    get() {
      throw new Error('no');
    },
  });
  log.info({ circle, long: 'x'.repeat(1_000_000), list: Array(1_000).fill(0), none: undefined }, 'odd');
  expect(last()).toMatchObject({ msg: 'odd', circle: { big: '1', at: null, bad: '[unreadable: no]' } });
  expect(JSON.stringify(last()).length).toBeLessThan(10_000);
  const failing = logged({
    write: () => {
      throw new Error('stderr is gone');
    },
  });
  expect(() => failing.log.info({}, 'x')).not.toThrow();
});

it('is readable on a terminal, and gives it nothing to obey', () => {
  const { log, lines } = logged({ readable: true, colour: false });
  log.info({ runId: 'run_1', note: '\u001b[2Jgone\u009b' }, 'claimed \u001b]0;title\u0007');
  expect(lines[0]).toMatch(/^\[\d\d:\d\d:59\.500\] INFO: claimed .*\{"runId":"run_1","note":".*gone.*"\}\n$/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  expect(lines[0]).not.toMatch(/[\u001b\u009b\u0007]/);
});

it('also writes one JSONL file a day, by UTC', () => {
  const dir = join(temporaryFolder(), 'logs', 'pawl');
  let time = new Date('2024-06-01T23:59:59Z');
  const { log, lines } = logged({ dir, now: () => time, readable: true });
  log.info({}, 'late');
  time = new Date('2024-06-02T00:00:00Z');
  log.info({}, 'early');
  log.info({}, 'later');
  expect(readdirSync(dir).sort()).toEqual(['pawl-2024-06-01.jsonl', 'pawl-2024-06-02.jsonl']);
  const [first, second] = ['01', '02'].map((day) =>
    readFileSync(join(dir, `pawl-2024-06-${day}.jsonl`), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  );
  expect(first).toMatchObject([{ msg: 'late', time: '2024-06-01T23:59:59.000Z' }]);
  expect(second).toMatchObject([{ msg: 'early' }, { msg: 'later' }]);
  expect(lines).toHaveLength(3);
});

it('says at the start when the folder cannot be written', () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  expect(() => logged({ dir: join(file, 'logs') })).toThrow(/PAWL_LOG_DIR: .*logs cannot be written: ENOTDIR/);
});

it('goes on when its folder is taken away', () => {
  const dir = join(temporaryFolder(), 'logs');
  let time = new Date('2024-06-01T00:00:00Z');
  const { log, lines } = logged({ dir, now: () => time });
  rmSync(dir, { recursive: true });
  time = new Date('2024-06-02T00:00:00Z');
  log.info({}, 'still here');
  expect(lines).toHaveLength(1);
});
