import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AnswerLook } from '../../src/core/agent.js';
import { numbersFromTools } from '../../src/core/numbers-from-tools.js';

function look(...results: unknown[]): AnswerLook {
  const toolResults = results.map((value) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return { name: 'query', arguments: {}, text, value, error: null };
  });
  return { task: 'Report on the last 7 days.', toolResults };
}

const orders = [
  { day: '2024-06-01', region: 'north', orders: 12, revenue: '1,204.50' },
  { day: '2024-06-01', region: 'south', orders: 8, revenue: '800.25' },
  { day: '2024-06-02', region: 'north', orders: 15, revenue: '1310' },
  { day: '2024-06-02', region: 'south', orders: 5, revenue: '499.75' },
];

describe('a number of the answer is founded where it', () => {
  it.each<[string, AnswerLook, unknown]>([
    ['stands in a result', look({ total: 1234.5 }), 'The total is 1234.50.'],
    [
      'has signs of thousands',
      look({ total: 1234567 }),
      'It is 1,234,567, or 1 234 567.'.replaceAll(' 234 ', '\u00a0234\u00a0'),
    ],
    ['has a comma for a point', look({ total: 1234.56 }), 'Das sind 1.234,56.'],
    ['is rounded', look({ mean: 12.3456 }), 'On average 12.35, that is 12.3 or 12.'],
    ['is a rough one', look({ users: 1234 }), 'About 1,200 users, more than 1,000.'],
    ['is a percentage of a ratio', look({ rate: 0.25 }), 'The rate is 25 %, or 25 percent.'],
    ['is a percentage in Chinese', look({ rate: 0.25 }), '比例为百分之25,即25%。'],
    ['is the ratio of a percentage', look('The rate is 25%'), 'The rate is 0.25.'],
    ['is a percentage by its name', look({ growth_percent: 0.5 }), 'It grew by 0.5 %.'],
    ['is in ten thousands', look({ total: 123_456 }), '总计约12万,准确为12.3万。'],
    ['is in hundred millions', look({ total: 340_000_000 }), '营收3.4亿元。'],
    ['is in millions', look({ total: 1_234_567 }), 'Revenue was $1.2M, or 1.23 million.'],
    ['is a sum', look({ a: 10, b: 15 }), 'Together they are 25.'],
    ['is a difference', look({ a: 40, b: 15 }), 'A is 25 ahead.'],
    ['is a change in percent', look({ last: 120, now: 150 }), 'It rose by 25 %.'],
    ['compares two results', look({ total: 120 }, { total: 150 }), 'It rose by 30, which is 25 %.'],
    ['is a share', look([{ n: 30 }, { n: 50 }, { n: 120 }]), 'The first has a share of 15 %.'],
    ['is the mean of a column', look([{ n: 30 }, { n: 50 }, { n: 121 }]), 'The mean is 67.'],
    ['sums by a field', look(orders), 'North had 27 orders, south 13, 40 in total.'],
    ['sums a share by a field', look(orders), 'North had 67.5 % of them.'],
    ['counts rows', look([{ n: 31 }, { n: 57 }, { n: 121 }]), 'There are 3.'],
    [
      'counts rows by a field',
      look(['late', 'late', 'on time', 'late'].map((status) => ({ status }))),
      '3 of 4 were late.',
    ],
    ['stands in a table of text', look('day;orders\n2024-06-01;20\n2024-06-02;20\n2024-06-03;19'), 'In all 59 orders.'],
    ['stands in the task', look({ total: 5 }), 'In the last 7 days: 5.'],
    ['is computed from numbers of the answer', look({ a: 12 }, 'and 3.5'), '12 pieces of 3.5 make 42.'],
    ['sums up those before it', look([11, 22, 47, 501]), '- 11\n- 22\n- 47\n\nTotal: 80'],
    ['is money, given in cents', look({ cents: 1250 }), 'It costs $12.50.'],
    ['is time in another unit', look({ took_ms: 45_000 }), 'It took 45 s.'],
    ['is a part of a range', look({ low: 0.1, high: 0.2 }), 'Between 10–20 %.'],
    ['is a field of a structured answer', look({ rate: 0.25 }), { rate: 0.25, sharePercent: 25 }],
  ])('%s', (_, given, answer) => {
    expect(numbersFromTools(answer, given)).toBeUndefined();
  });
});

describe('a number of the answer is objected to where it', () => {
  it.each<[string, AnswerLook, unknown, string]>([
    ['is a hundred times too much', look({ rate: 0.25 }), 'The rate is 25.', '25'],
    ['is a hundred times too little', look({ rate: 0.25 }), 'The rate is 0.25 %.', '0.25 %'],
    ['is a thousand times too much', look({ total: 1.234 }), 'The total is 1,234.', '1,234'],
    ['is a thousand times too little', look({ total: 1234 }), 'The total is 1.234.', '1.234'],
    ['has another digit', look({ total: 1234 }), 'The total is 1,243.', '1,243'],
    ['is rounded wrongly', look({ mean: 12.34 }), 'On average 12.4.', '12.4'],
    ['is in the wrong scale', look({ total: 123_456 }), '总计约12亿。', '12亿'],
    ['is a wrong change', look({ last: 120, now: 150 }), 'It rose by 20.5 %.', '20.5 %'],
    ['is a wrong sum', look(orders), 'North had 29 orders.', '29'],
    ['begins a line', look({ rate: 0.25 }), '25. That is the rate.', '25'],
    ['is a field of a structured answer', look({ rate: 0.25 }), { rate: 25 }, '25'],
    ['has no result at all', look(), 'There are 25.', '25'],
  ])('%s', (_, given, answer, shown) => {
    expect(numbersFromTools(answer, given)).toContain(`from one: ${shown}.`);
  });

  it('in the language of the agent', () => {
    expect(numbersFromTools('共 25 个', { ...look(), language: 'zh' })).toMatch(/无法由其推出:25。/);
  });
});

it.each([
  'On 2024-06-01, 1 June 2024, June 3–9, 06/24/2024 and 2024/6/1 at 10:30, 5 pm, since 2023.',
  '2024年6月1日至8日,上午10:30,第3名,自2024年以来。',
  '1. The first\n2. The second\n   3) The third\n(4) The fourth',
  '一、概述\n1、第一\n2、第二',
  'In Q3 2024 SKU-42 of GPT-4o, v2.1 and A12 came 3rd, see step 2, table 11 and #8 at https://x.example/99.',
  'FY2024, H1 2025, the end of 2024, June 2023; ① and ②, x².',
])('takes no number of this for a claim: %s', (answer) => {
  expect(numbersFromTools(answer, { ...look(), task: '' })).toBeUndefined();
});

describe('for any numbers', () => {
  const amount = fc.integer({ min: 2, max: 9_999_999 }).map((cents) => cents / 100);
  const grouped = (value: number, decimals: number) =>
    value.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

  it('what is said in the usual ways of a result, of two, or of a column, is founded', () => {
    fc.assert(
      fc.property(fc.array(amount, { minLength: 2, maxLength: 60 }), fc.nat({ max: 2 }), (values, decimals) => {
        const [a = 0, b = 0] = values;
        const sum = values.reduce((x, y) => x + y, 0);
        const given = look(values.map((value, index) => ({ day: index, value })));
        const answers = [
          `${grouped(a, decimals)} and ${grouped(b, 2)}`,
          `${grouped(a + b, decimals)} for both, a difference of ${Math.abs(a - b).toFixed(2)}`,
          `${(((b - a) / a) * 100).toFixed(1).replace('-', '')} % between them`,
          `${grouped(sum, decimals)} in all, ${((a / sum) * 100).toFixed(1)} % of it the first; the mean is ${(sum / values.length).toFixed(2)}`,
          `${(sum / 1e4).toFixed(2)}万`,
        ];
        for (const answer of answers) expect(numbersFromTools(answer, given), answer).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });

  it('the only number of the results, ten, a hundred or a thousand times as much or as little, is objected to', () => {
    fc.assert(
      fc.property(amount, fc.constantFrom(10, 100, 1000, 0.01, 0.001), (value, factor) => {
        const wrong = (value * factor).toFixed(6);
        fc.pre(Math.abs(value * factor - value) > 1 && Number(wrong) !== 7);
        expect(numbersFromTools(`The total is ${wrong}.`, look({ total: value }))).toContain(wrong);
      }),
      { numRuns: 300 },
    );
  });

  it('any text is judged, and without a digit it has nothing to object to', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), fc.jsonValue(), (answer, result) => {
        const objection = numbersFromTools(answer, look(result));
        if (!/\p{N}/u.test(answer)) expect(objection).toBeUndefined();
        expect(numbersFromTools(result, look(result)) === undefined || objection !== null).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});

it('finds among thousands of rows the sum, and no other number', () => {
  const rows = Array.from({ length: 2_000 }, (_, id) => ({ id, day: '2024-06-01', name: `n${id}`, total: id * 1.5 }));
  const given = look(rows, rows);
  expect(numbersFromTools('The total is 2,998,500.', given)).toBeUndefined();
  expect(numbersFromTools('The total is 2,998,501.', given)).toContain('2,998,501');
});
