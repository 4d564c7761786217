/** The orders in the repository, and anyone's own CSV: how columns are read, and what the errors name. */
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { pickColumns } from '../../src/demo/columns.js';
import { readCsvText, toIdentifier } from '../../src/demo/csv-table.js';
import { readValues } from '../../src/demo/csv-values.js';
import { generateOrders } from '../../src/demo/generate-orders.js';
import { ordersCsv } from '../../src/demo/load-orders.js';

const read = (text: string) => readCsvText(text, 'my.csv');
const shape = (text: string) => read(text).columns.map(({ name, type }) => `${name} ${type}`);

describe('the orders in the repository', () => {
  it('are what the generator makes, byte for byte', async () => {
    expect(await readFile(ordersCsv, 'utf8')).toBe(generateOrders());
    expect(generateOrders(1)).not.toBe(generateOrders());
  });

  it('hold thirteen weeks of orders with one best day in the last seven, that is not one order', () => {
    const { columns, rows } = read(generateOrders());
    expect(rows).toBeGreaterThan(4_000);
    const [date, amount] = ['ordered_at', 'amount'].map((name) => columns.find((c) => c.name === name)?.values ?? []);
    const days = new Map<string, number>();
    date?.forEach((day, i) => {
      days.set(String(day), (days.get(String(day)) ?? 0) + Number(amount?.[i]));
    });
    expect(days.size).toBe(91);
    const week = [...days].slice(-7).sort((a, b) => b[1] - a[1]);
    expect((week[0]?.[1] ?? 0) / (week[1]?.[1] ?? 1)).toBeGreaterThan(1.1);
    expect(week[0]?.[0]).not.toBe([...days.keys()].at(-1));
  });
});

describe('a CSV of one’s own', () => {
  it.each([
    ['Order Date,Total\n2026-01-31,5', ['order_date date', 'total integer']],
    ['\uFEFFdate;price\r\n2026-1-3;1,50\r\n2026/01/04;1.234,5\r\n', ['date date', 'price numeric']],
    ['d\tn\n2026-01-01 10:00\t12345678901\n', ['d timestamp', 'n bigint']],
    ['d|n\n2026-01-01T10:00:00Z|$1,234.50\n\n2026-01-01T10:00:00+02:00|$2.00', ['d timestamptz', 'n numeric']],
    ['"a ""b""",zip\n"x\ny",01234', ['a_b text', 'zip text']],
    ['下单日期,金额\n2026-06-28,¥12.5', ['下单日期 date', '金额 numeric']],
    ['d,n\n31/01/2026,(5)\n01/02/2026,', ['d date', 'n integer']],
    ['d,n\n28.6.2026,1', ['d date', 'n integer']],
  ])('%j', (text, expected) => {
    expect(shape(text)).toEqual(expected);
  });

  it('reads values into what Postgres takes', () => {
    expect(readValues(['1,234.50', '', '-3', '(7)']).values).toEqual(['1234.50', null, '-3', '-7']);
    expect(readValues(['1.234,50', '0,5', '12']).values).toEqual(['1234.50', '0.5', '12']);
    expect(readValues(['1,234', '2,500']).values).toEqual(['1234', '2500']);
    expect(readValues(['31/12/2026 08:30', '01/02/2026']).values).toEqual(['2026-12-31 08:30', '2026-02-01']);
    expect(readValues(['12/31/2026']).values).toEqual(['2026-12-31']);
    expect(readValues(['', '']).type).toBe('text');
    expect(readValues(['2026-02-30']).type).toBe('text');
    expect(readValues(['-', '.']).type).toBe('text');
  });

  const twenty = (bad: string) => `day,amount\n${Array(20).fill('2026-06-01,5').join('\n')}\n${bad}\n`;
  it.each([
    [twenty('2026-06-31,5'), /my\.csv line 22, column "day": "2026-06-31" is not a date/],
    [twenty('2026-06-01,five'), /my\.csv line 22, column "amount": "five" is not a number/],
    ['', /is empty/],
    ['a,b\n', /no rows/],
    ['a,,c\n1,2,3', /line 1: column 2 has no name/],
    ['Order Date,order_date\n1,2', /line 1: columns "Order Date" and "order_date" have the same name/],
    ['a,b\n1,2\n1,2,3', /my\.csv cannot be read as CSV: .*line 3/],
    ['a,b\n"1,2', /my\.csv cannot be read as CSV: .*[Qq]uote/],
    ['day,n\n03/04/2026,1', /column "day": 03\/04\/2026 can be read two ways/],
  ])('names the line and the column of what it cannot read: %j', (text, message) => {
    expect(() => read(text)).toThrow(message);
  });

  it('makes names that SQL takes', () => {
    expect(['Order Date', 'orderDate', '2nd price (€)', '金额', '__x__', '…'].map(toIdentifier)).toEqual([
      'order_date',
      'order_date',
      'c_2nd_price',
      '金额',
      'x',
      'c_',
    ]);
    expect(Buffer.byteLength(toIdentifier('金'.repeat(60)))).toBeLessThanOrEqual(63);
  });
});

describe('the columns of dates and sales', () => {
  const pick = (...columns: string[]) =>
    pickColumns(columns.map((column) => ({ name: column.split(' ')[0] ?? '', type: column.split(' ')[1] ?? '' })));
  it.each([
    [
      ['order_id integer', 'ordered_at date', 'quantity integer', 'unit_price numeric', 'amount numeric'],
      'ordered_at',
      '"amount"',
    ],
    [['shipped_date date', 'order_date date', 'total numeric', 'tax_total numeric'], 'order_date', '"total"'],
    [['date timestamp', 'qty integer', 'price numeric', 'discount_amount numeric'], 'date', '"qty" * "price"'],
    [['下单日期 date', '单价 numeric', '金额 numeric'], '下单日期', '"金额"'],
    [['d date', 'customer_id integer', 'x numeric'], 'd', '"x"'],
    [['d date', 'subtotal numeric', 'total numeric'], 'd', '"total"'],
  ])('%j', (columns, date, sales) => {
    expect(pick(...columns)).toEqual({ date, sales });
  });

  it('says what is missing', () => {
    expect(pick('a text', 'amount numeric')).toEqual({ missing: 'a column of dates' });
    expect(pick('d date', 'order_id integer', 'a text')).toEqual({ missing: 'a column of amounts' });
  });
});
