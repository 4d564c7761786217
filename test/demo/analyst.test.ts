/**
 * The analyst with its real tools on a real database, answered by the scripted model: it does the task on our orders and on
 * other tables, adapts to errors, and the self-check names what is wrong when something is. The engine is not needed here.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Agent } from '../../src/core/agent.js';
import type { Message } from '../../src/core/message.js';
import type { EventView, RunView, StepView } from '../../src/core/view.js';
import { analyst, analystTask } from '../../src/demo/analyst.js';
import { type LoadedTable, loadOrders, ordersCsv } from '../../src/demo/load-orders.js';
import { answerRequest } from '../../src/demo/scripted-analyst.js';
import { verifyDemo } from '../../src/demo/verify.js';
import { prepareDataRole } from '../../src/tools/data-role.js';
import { createTestDatabase } from '../support/services.js';

const role = `analyst_${randomBytes(5).toString('hex')}`;
let adminUrl = '';
let base = '';

beforeAll(async () => {
  adminUrl = (await createTestDatabase()).url;
});
afterAll(async () => {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  await client.query(`drop owned by ${role}; drop role ${role}`);
  await client.end();
});
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'pawl-analyst-'));
});
afterEach(() => rm(base, { recursive: true }));

interface Done {
  table: LoadedTable;
  databaseUrl: string;
  steps: StepView[];
  answer: string;
}

/** Answers instead of a tool, where it returns something. */
type Instead = (name: string, nth: number) => string | undefined;

async function analyse(csv: string, instead: Instead = () => undefined): Promise<Done> {
  const table = await loadOrders(adminUrl, csv);
  const databaseUrl = await prepareDataRole(adminUrl, { schema: table.schema, role, password: 'x' });
  const options = { model: 'scripted', databaseUrl, schema: table.schema, workDir: work(), maildir: mail() };
  const agent = analyst(options);
  const messages: Message[] = [{ role: 'user', content: analystTask }];
  const steps: StepView[] = [];
  const counts = new Map<string, number>();
  for (let turn = 0; turn < 20; turn++) {
    const tools = agent.tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
    const reply = answerRequest({ system: agent.instructions, messages, tools });
    steps.push(step(steps.length + 1, 'llm', 'scripted', reply.text ?? ''));
    const toolCalls = (reply.calls ?? []).map((call, i) => ({
      id: `c${turn}${i}`,
      name: call.name,
      arguments: JSON.stringify(call.arguments),
    }));
    messages.push({ role: 'assistant', content: reply.text ?? null, toolCalls });
    if (toolCalls.length === 0) return { table, databaseUrl, steps, answer: reply.text ?? '' };
    for (const call of toolCalls) {
      const nth = (counts.get(call.name) ?? 0) + 1;
      counts.set(call.name, nth);
      const content = instead(call.name, nth) ?? (await perform(agent, call.name, call.arguments));
      steps.push(step(steps.length + 1, 'tool', call.name, content));
      messages.push({ role: 'tool', callId: call.id, name: call.name, content });
    }
  }
  throw new Error('the scripted analyst never ended');
}

async function perform(agent: Agent, name: string, text: string): Promise<string> {
  const tool = agent.tool(name);
  const parsed = tool?.parse(text);
  if (!tool || !parsed?.ok) return `${name} was not called: ${parsed?.ok === false ? parsed.fault : 'no such tool'}`;
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const context = {
    runId: 'run_1',
    stepSeq: 1,
    attempt: 1,
    idempotencyKey: 'k',
    tenant: null,
    threadId: null,
    log,
    recall: async () => [],
  };
  return JSON.stringify(await tool.execute(parsed.args, { ...context, signal: new AbortController().signal }));
}

const step = (seq: number, kind: 'llm' | 'tool', name: string, output: string): StepView => ({
  ...{ seq, kind, name, output, status: 'completed', attempt: 1, crashes: 0, effect: null, waitingFor: null },
  ...{ input: null, error: null, note: null, usage: null, queuedAt: '', startedAt: '', finishedAt: '', worker: 'w' },
});

const work = () => join(base, 'work');
const mail = () => join(base, 'mail');

function check({ table, databaseUrl, steps }: Done, more: { events?: EventView[]; status?: RunView['status'] } = {}) {
  const events = steps.map(({ seq }): EventView => ({ id: seq, type: 'step.completed', at: '', seq, data: {} }));
  const run = { status: more.status ?? 'completed', reason: null, waitingFor: null } as RunView;
  const reads = {
    run: async () => run,
    steps: async () => steps,
    events: async (_: string, after: number) => (more.events ?? events).filter(({ id }) => id > after),
  };
  return verifyDemo({ reads, runId: 'run_1', table, databaseUrl, workDir: work(), maildir: mail() });
}

const tools = (done: Done) => done.steps.filter(({ kind }) => kind === 'tool').map(({ name }) => name);

describe('on the orders in the repository', () => {
  it('asks, sums in one turn of two queries, writes, mails, answers, and passes the check', async () => {
    const done = await analyse(ordersCsv);
    expect(done.table).toMatchObject({
      table: 'orders',
      date: 'ordered_at',
      sales: '"amount"',
      sinceDay: '2026-06-22',
      lastDay: '2026-06-28',
    });
    expect(done.steps.map(({ kind, name }) => (kind === 'llm' ? 'llm' : name))).toEqual([
      ...['llm', 'sql_query', 'llm', 'sql_query', 'sql_query', 'llm', 'write_file', 'llm', 'send_email', 'llm'],
    ]);
    expect(done.answer).toContain('The best day was Wednesday, 2026-06-24, with 18,534.14');
    const report = await readFile(join(work(), 'sales-2026-06-28.md'), 'utf8');
    expect(report).toContain('| 2026-06-22 | Monday | 8,719.67 | 69 |');
    expect(report).toMatch(/## What to do next\n\n(- .+\n){3,}/);
    expect(await check(done)).toEqual([]);
  });
});

describe('on another table', () => {
  const other = async (text: string | Buffer, name = 'Umsatz 2025.csv') => {
    await writeFile(join(base, name), text);
    return analyse(join(base, name));
  };
  it.each([
    [
      'Bestelldatum;Menge;Preis\r\n2025-12-31;2;1.234,50\r\n2025-12-25;1;0,50\r\n2025-12-24;9;9,00\r\n',
      ['2469.00', '0.50'],
    ],
    ['\uFEFF下单日期,品类,金额\n2025-03-01,书,10\n2025-02-28,书,20\n2025-02-28,笔,5.55\n', ['10', '25.55']],
    ['order,"day",TOTAL\na,2024-02-29T23:59:59Z,3\nb,2024-02-28T00:00:00Z,4\nc,,100\n', ['3', '4']],
    ['when,x\n2025-01-01,1', ['1']],
  ])('finds dates and sales: %j', async (text, sums) => {
    const done = await other(text);
    expect(await check(done)).toEqual([]);
    const [file] = await readdir(work());
    const report = await readFile(join(work(), String(file)), 'utf8');
    for (const sum of sums) expect(report.replaceAll(',', '')).toContain(sum);
  });

  it('refuses one without dates or amounts, by name', async () => {
    await expect(other('a,b\nx,y\nz,w\n', 'plain.csv')).rejects.toThrow(
      /plain\.csv needs a column of dates; its columns are a \(text\), b/,
    );
    await expect(analyse(join(base, 'none.csv'))).rejects.toThrow(/none\.csv cannot be read/);
  });
});

describe('when a tool fails', () => {
  it('tries again, a bounded number of times', async () => {
    const done = await analyse(ordersCsv, (name, nth) =>
      name === 'sql_query' && nth <= 2 ? '{"error":"too many connections"}' : undefined,
    );
    expect(tools(done).filter((name) => name === 'sql_query')).toHaveLength(5);
    expect(await check(done)).toEqual([]);
    const hopeless = await analyse(ordersCsv, (name) => (name === 'sql_query' ? 'sql_query failed: no' : undefined));
    expect(tools(hopeless)).toEqual(['sql_query', 'sql_query', 'sql_query']);
    expect(hopeless.answer).toBe('I found no table with dates and sales. The last answer was: sql_query failed: no');
  });

  it('does without advice on groups, and without an attachment', async () => {
    const done = await analyse(ordersCsv, (name, nth) => {
      if (name === 'sql_query' && (nth === 3 || nth === 4))
        return 'sql_query did not answer within 25 s and was stopped.';
      return name === 'send_email' && nth === 1 ? 'send_email could not start, and did nothing: Not sent.' : undefined;
    });
    expect(tools(done).slice(-2)).toEqual(['send_email', 'send_email']);
    expect(await check(done)).toEqual([]);
  });

  it('never mails again when the fate of the mail is not known', async () => {
    const done = await analyse(ordersCsv, (name) =>
      name === 'send_email' ? 'It is not known whether send_email took effect' : undefined,
    );
    expect(tools(done).filter((name) => name === 'send_email')).toHaveLength(1);
    expect(done.answer).toContain('was not mailed, as far as I know');
    expect(await check(done)).toEqual([{ check: 'mail', problem: 'send_email recorded 0 mails as sent, not 1' }]);
  });
});

describe('the check', () => {
  it('names a report that is missing, wrong or incomplete', async () => {
    const done = await analyse(ordersCsv);
    const path = join(work(), 'sales-2026-06-28.md');
    const report = await readFile(path, 'utf8');
    const judged = async (text: string) => {
      await writeFile(path, text);
      return (await check(done)).map(({ problem }) => problem);
    };
    expect(await judged(report.replace('8,719.67', '8,719.68'))).toEqual([
      'sales-2026-06-28.md does not say that 2026-06-22 sold 8719.67',
    ]);
    expect(await judged(report.replaceAll(/74,8\d\d\.\d\d/g, 'much'))).toEqual([
      expect.stringContaining('does not say the total, 74'),
    ]);
    expect(await judged(report.replace(/\*\*Best day.*/, ''))).toEqual([
      expect.stringContaining('does not name the best day, 2026-06-24'),
    ]);
    expect(await judged(report.replace(/## What[\s\S]*/, ''))).toEqual([
      expect.stringContaining('does not say what to do next'),
    ]);
    expect(await judged(report.replaceAll(',', ' '))).toEqual([]);
    await rm(work(), { recursive: true });
    expect((await check(done)).map(({ check: name }) => name)).toEqual(['report']);
  });

  it('names a step that is missing, not done or recorded twice, and a run that did not complete', async () => {
    const done = await analyse(ordersCsv);
    const once = done.steps.map(({ seq }): EventView => ({ id: seq, type: 'step.completed', at: '', seq, data: {} }));
    const twice = [...once, { id: 99, type: 'step.completed', at: '', seq: 3, data: {} }];
    expect(await check(done, { events: twice })).toEqual([
      { check: 'steps', problem: 'step 3 (llm scripted) was recorded 2 times' },
    ]);
    expect(await check(done, { status: 'suspended' })).toEqual([
      { check: 'run', problem: 'the run is suspended, not simply completed' },
    ]);
    const steps = done.steps
      .map((s) => (s.seq === 2 ? { ...s, status: 'dead' as const } : s))
      .filter(({ seq }) => seq !== 4);
    expect((await check({ ...done, steps })).map(({ problem }) => problem)).toEqual([
      'the steps are numbered 1, 2, 3, 5, 6, 7, 8, 9, 10, not 1 to 9',
      'step 2 (tool sql_query) is dead',
    ]);
  });

  it('names a mail delivered twice or not at all', async () => {
    const done = await analyse(ordersCsv);
    const [name] = await readdir(join(mail(), 'new'));
    const message = await readFile(join(mail(), 'new', String(name)));
    await writeFile(join(mail(), 'new', 'again'), message);
    expect(await check(done)).toEqual([{ check: 'mail', problem: expect.stringContaining('2 mails were delivered') }]);
    await rm(join(mail(), 'new'), { recursive: true });
    expect(await check(done)).toEqual([{ check: 'mail', problem: expect.stringContaining('0 mails were delivered') }]);
  });
});
