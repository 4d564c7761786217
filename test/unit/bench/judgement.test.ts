/** What the bench of judgement stands on: a model that is deterministic and blind, and a checker that fails wrong answers. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadOrders } from '../../../bench/judgement/data.js';
import { finalAnswer } from '../../../bench/judgement/final-answer.js';
import { type AskedModel, answerOf } from '../../../bench/judgement/model.js';
import { type Found, halves, needsOf, readSums } from '../../../bench/judgement/reading.js';
import { type JudgementModel, startJudgementModel } from '../../../bench/judgement/server.js';
import { isRight, type Task, tasksOf } from '../../../bench/judgement/tasks.js';
import { listInput, queryInput, Warehouse } from '../../../bench/judgement/tools.js';
import type { Message } from '../../../src/core/message.js';

const orders = loadOrders();
const tasks = tasksOf(orders);
const tools = ['query_orders', 'list_orders'].map((name) => ({ name, description: '', parameters: {} }));
const seeds = Array.from({ length: 40 }, (_, at) => at);

/** What a model without habits would find out and say: every need asked for and answered. */
async function solve(task: Task): Promise<string> {
  const warehouse = new Warehouse(orders, []);
  const known = new Map<string, Found>();
  for (let before = -1; before < known.size; ) {
    before = known.size;
    for (const need of needsOf(task.text, known) ?? []) {
      const { id, tool, args, wants } = need;
      const signal = AbortSignal.timeout(1_000);
      if (tool === 'query_orders') {
        const sums = new Map<string, number>();
        for (const part of halves(need)) {
          const text = await warehouse.query(queryInput.parse(part.args), signal);
          for (const [key, value] of readSums(text) ?? [])
            sums.set(key, Math.round(((sums.get(key) ?? 0) + value) * 100) / 100);
        }
        known.set(id, { sums });
        continue;
      }
      const sorted = wants === 'largest' ? { sort_by: 'amount' } : {};
      const lines = (await warehouse.list(listInput.parse({ ...args, ...sorted }), signal)).split('\n');
      const line = (wants === 'total' ? lines.at(-1) : lines[1]) ?? '';
      known.set(id, { line, amount: /([\d.]+)$/.exec(line)?.[1] ?? '' });
    }
  }
  return finalAnswer(task.text, known);
}

describe('the tasks', () => {
  it('are twenty mixed ones, eighteen reports and one of five steps on four spans, all different', () => {
    const count = (set: Task['set']) => tasks.filter((task) => task.set === set).length;
    expect([count('mixed'), count('report'), count('large')]).toEqual([20, 18, 4]);
    expect(new Set(tasks.map(({ text }) => text)).size).toBe(tasks.length);
    expect(tasks.filter(({ cold }) => cold !== undefined)).toHaveLength(2);
  });

  it('have one right answer each: what follows from the data is right, and with a figure or a name changed it is wrong', async () => {
    for (const task of tasks) {
      const answer = await solve(task);
      expect(isRight(task, answer), `${task.text} → ${answer}`).toBe(true);
      for (const truth of task.truths) {
        const wrong = /^\d+(\.\d+)?$/.test(truth) ? String(Number(truth) + 0.01) : `not ${truth}y`;
        const changed = answer.replaceAll(truth, wrong).replaceAll(` ${Number(truth)}`, ` ${wrong}`);
        expect(isRight(task, changed), `${truth} → ${wrong}: ${answer}`).toBe(false);
      }
    }
  });

  it.each([
    ['a figure in thousands', ['1234.50'], 'It is 1,234.50.', true],
    ['a figure with fewer digits', ['1234.50'], 'It is 1234.5, the best.', true],
    ['a figure inside another', ['234.50'], 'It is 1234.50.', false],
    ['a number that is a part of a date', ['28'], 'It was on 2026-06-28.', false],
    ['a name inside another', ['East'], 'It is Eastern.', false],
    ['no answer', ['East'], '', false],
  ])('%s', (_, truths, answer, right) => expect(isRight({ truths }, answer)).toBe(right));
});

describe('the scripted model', () => {
  const [task] = tasks as [Task];
  const asked = (...more: Message[]): AskedModel => ({
    messages: [{ role: 'user', content: task.text }, ...more],
    tools,
  });
  const call = (at: number, given: Record<string, unknown>, content: string): Message[] => [
    {
      role: 'assistant',
      content: null,
      toolCalls: [{ id: `c${at}`, name: 'query_orders', arguments: JSON.stringify(given) }],
    },
    { role: 'tool', callId: `c${at}`, name: 'query_orders', content },
  ];
  const wide = { from: '2026-03-30', to: '2026-06-28', group_by: 'channel', measure: 'amount' };
  const wideTask: Message = {
    role: 'user',
    content: tasks.find(({ text }) => text.includes('06-28 by channel'))?.text ?? '',
  };
  /** The share of seeds in which the model repeats the query that failed with this text. */
  const repeats = (text: string, times = 1, nudge: Message[] = []) => {
    const history = Array.from({ length: times }, (_, at) => call(at, wide, text)).flat();
    const answers = seeds.map((seed) => answerOf({ messages: [wideTask, ...history, ...nudge], tools }, seed));
    return (
      answers.filter((answer) =>
        answer.calls?.some(({ arguments: given }) => JSON.stringify(given) === JSON.stringify(wide)),
      ).length / seeds.length
    );
  };

  it('answers the same to the same request and seed, and draws other lots for another seed', () => {
    const said = (seed: number) =>
      JSON.stringify(tasks.map(({ text }) => answerOf({ messages: [{ role: 'user', content: text }], tools }, seed)));
    expect(said(1)).toBe(said(1));
    expect(new Set([1, 2, 3, 4].map(said)).size).toBe(4);
  });

  it('understands every task', () => {
    for (const { text } of tasks) expect(needsOf(text, new Map()), text).not.toBeNull();
  });

  it('repeats a query that failed, less where it is told what to do, and more the oftener it has', () => {
    const vague = repeats('Error: the operation was aborted due to timeout');
    const told = repeats('The query timed out. Ask for fewer days.');
    expect(vague).toBeGreaterThan(0.6);
    expect(told).toBeLessThan(0.35);
    expect(repeats('The query timed out. Ask for fewer days.', 4)).toBeGreaterThan(told);
  });

  it('heeds a word in between three times of four', () => {
    const nudged = repeats('Error: aborted due to timeout', 1, [
      { role: 'user', content: 'This does not get you on.' },
    ]);
    expect(nudged).toBeGreaterThan(0.05);
    expect(nudged).toBeLessThan(0.45);
  });

  it('mends arguments more often the more the error says', () => {
    const area = tasks.find(({ text }) => text.includes(' by area'))?.text ?? '';
    const wrong = { from: '2026-06-02', to: '2026-06-20', measure: 'amount', group_by: 'area' };
    const mends = (text: string) =>
      seeds.filter((seed) =>
        answerOf({ messages: [{ role: 'user', content: area }, ...call(0, wrong, text)], tools }, seed).calls?.some(
          ({ arguments: given }) => JSON.stringify(given).includes('"group_by":"region"'),
        ),
      ).length / seeds.length;
    const [all, some, none] = [
      mends('Invalid: group_by: expected one of "day", "region"'),
      mends('Invalid group_by'),
      mends('Invalid input'),
    ];
    expect(all).toBeGreaterThan(some);
    expect(some).toBeGreaterThan(none);
  });

  it('loses, now and then, what lies under long results, and sometimes gives up when all fails', () => {
    const day = { from: '2026-06-01', to: '2026-06-14', group_by: 'day', measure: 'amount' };
    const known = call(0, day, '{"rows":[{"key":"2026-06-01","value":1}]}');
    const again = (under: string) =>
      seeds.filter((seed) => answerOf(asked(...known, ...call(1, {}, under)), seed).calls !== undefined).length /
      seeds.length;
    expect(again('short')).toBe(0);
    expect(again('long '.repeat(6_000))).toBeGreaterThan(0.1);
    const failing = [0, 1, 2].flatMap((at) => call(at, day, 'Error: the disk is broken'));
    const givenUp = seeds.filter((seed) => answerOf(asked(...failing), seed).text?.includes('could not'));
    expect(givenUp.length).toBeGreaterThan(0);
    expect(givenUp.length).toBeLessThan(seeds.length / 2);
  });

  it('sums up what it knows when it is asked to, in whatever words, and reads it again', () => {
    const day = { from: '2026-06-01', to: '2026-06-14', group_by: 'day', measure: 'amount' };
    const known = call(0, day, '{"rows":[{"key":"2026-06-01","value":7}]}');
    for (const words of ['Summarise the above.', 'Your summary will stand for it: write it now.']) {
      const { text } = answerOf(asked(...known, { role: 'user', content: words }), 1);
      expect(text).toContain(task.text);
      const after = answerOf({ messages: [{ role: 'user', content: `${task.text}\n\n${text}` }], tools }, 1);
      expect(after.text).toBe('The best is 2026-06-01 with 7.');
    }
  });

  it('asks for one thing after the other where the task wants it so', () => {
    const five = tasks.find(({ set }) => set === 'large')?.text ?? '';
    const asks = seeds.map(
      (seed) => answerOf({ messages: [{ role: 'user', content: five }], tools }, seed).calls?.length,
    );
    expect(new Set(asks)).toEqual(new Set([1]));
  });

  it('asks again for what is not in sight, and does not call where it may not', () => {
    expect(answerOf(asked(), 1).calls).toBeDefined();
    expect(answerOf({ ...asked(), toolChoice: 'none' }, 1).calls).toBeUndefined();
    expect(answerOf({ ...asked(), tools: [] }, 1).calls).toBeUndefined();
  });
});

describe('its server', () => {
  let model: JudgementModel;
  beforeAll(async () => {
    model = await startJudgementModel({ pace: 0 });
  });
  afterAll(() => model.close());

  const ask = async (headers: Record<string, string>, path = '') => {
    const body = {
      model: 'm',
      messages: [
        { role: 'system', content: 'Answer.' },
        { role: 'user', content: tasks[0]?.text },
      ],
      tools: tools.map(({ name }) => ({ type: 'function', function: { name, parameters: { type: 'object' } } })),
    };
    const response = await fetch(`${model.url}/chat/completions${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    const { choices, usage } = (await response.json()) as { choices: unknown; usage: unknown };
    return { choices, usage };
  };

  it('does not look at who asks: headers, keys and queries change nothing', async () => {
    const plain = await ask({});
    expect(await ask({ authorization: 'Bearer abc', 'user-agent': 'OpenAI/JS', 'x-side': 'pawl' }, '?side=a')).toEqual(
      plain,
    );
    expect(JSON.stringify(plain)).toContain('query_orders');
  });
});
