/**
 * Which column of a table holds its dates and which its sales, by type and by name, in English or Chinese. Pure; the
 * loader writes the answer into the table's description, where a model reads it.
 */

export interface NamedColumn {
  name: string;
  type: string;
}

export interface SalesColumns {
  date: string;
  /** SQL expression of a row's sales: a column, or quantity times price. */
  sales: string;
}

const isNumber = (type: string) => /^(integer|bigint|numeric|double precision|real)/.test(type);
const isDate = (type: string) => /^(date|timestamp)/.test(type);

const key = /(^|_)(id|no|nr|num|number|code|key|zip|postcode|year|month|week|day|hour|phone|lat|lon|lng|rank|编号|号)$/;
const money =
  /amount|total|revenue|sales|turnover|subtotal|net|gross|value|umsatz|betrag|金额|销售|收入|总额|总价|营业额/;
const price = /price|preis|rate|单价|价格/;
const count = /quantity|qty|units|pieces|count|menge|数量|件数/;
const part = /tax|vat|discount|shipping|freight|fee|cost|refund|unit|tip|税|折扣|运费|成本/;

/** Quotes a name for SQL. */
export const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** The columns to sum sales by day with, or what is missing. */
export function pickColumns(columns: readonly NamedColumn[]): SalesColumns | { missing: string } {
  const date = best(
    columns.filter(({ type }) => isDate(type)),
    dateScore,
  );
  if (date === undefined) return { missing: 'a column of dates' };
  const numbers = columns.filter(({ name, type }) => isNumber(type) && !key.test(name));
  const amount = best(
    numbers.filter(({ name }) => money.test(name) && !part.test(name)),
    moneyScore,
  );
  if (amount !== undefined) return { date: date.name, sales: quoteName(amount.name) };
  const prices = numbers.find(({ name }) => price.test(name));
  const counts = numbers.find(({ name }) => count.test(name));
  if (prices && counts) return { date: date.name, sales: `${quoteName(counts.name)} * ${quoteName(prices.name)}` };
  const any =
    prices ??
    best(
      numbers.filter(({ name }) => !part.test(name)),
      ({ type }) => (type === 'numeric' ? 1 : 0),
    ) ??
    counts;
  if (any === undefined) return { missing: 'a column of amounts' };
  return { date: date.name, sales: quoteName(any.name) };
}

function dateScore({ name }: NamedColumn): number {
  if (/ship|deliver|due|birth|updat|modif|expir|return|paid|发货|送达|更新|到期/.test(name)) return -1;
  if (/order|sale|sold|purchas|bestell|下单|订单|销售/.test(name)) return 2;
  return /date|day|time|datum|日期|时间/.test(name) ? 1 : 0;
}

function moneyScore({ name }: NamedColumn): number {
  return (/total|revenue|sales|总|销售|收入/.test(name) ? 2 : 1) - (/sub|小计/.test(name) ? 2 : 0);
}

/** The first of the columns with the highest score. */
function best(columns: readonly NamedColumn[], score: (column: NamedColumn) => number): NamedColumn | undefined {
  return columns.reduce<NamedColumn | undefined>(
    (found, column) => (found === undefined || score(column) > score(found) ? column : found),
    undefined,
  );
}
