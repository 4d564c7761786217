/**
 * Whether a text written by a model says a number or a day, however it formats them: 1,234.50 is 1 234,5 is 1234.50, and
 * 2026-06-24 is June 24. Pure.
 */

const groupSigns = ['', ',', '.', ' ', '\u00a0', '\u202f', '\u2009', "'", '’', '_'];
const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Whether the text holds the number; it may be rounded to two decimals, and no further. `exact`: as Postgres writes it. */
export function saysNumber(text: string, exact: string): boolean {
  const forms = new Set([exact, Number(exact).toFixed(2)].flatMap(writings));
  return [...forms].some((form) => new RegExp(`(?<![\\d]|\\d[.,])${literal(form)}(?!\\d|[.,]\\d)`, 'u').test(text));
}

/** Ways to write a decimal number: with and without zeros at its end, with any signs for thousands and decimals. */
function writings(number: string): string[] {
  const [whole = '', decimals = ''] = number.replace(/^-/, '').split('.');
  const short = decimals.replace(/0+$/, '');
  const endings = new Set([decimals, short, short.padEnd(2, '0')]);
  return groupSigns.flatMap((sign) => {
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, sign);
    return [...endings].flatMap((ending) => {
      if (ending === '') return [grouped];
      return ['.', ','].filter((point) => point !== sign).map((point) => `${grouped}${point}${ending}`);
    });
  });
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Whether the text names the day (`2026-06-24`), in one of the usual ways. */
export function saysDay(text: string, day: string): boolean {
  const [year = '', month = '', date = ''] = day.split('-');
  const m = Number(month);
  const d = Number(date);
  const name = months[m - 1] ?? '';
  const ways = [
    `${year}[-/.]0?${m}[-/.]0?${d}(?!\\d)`,
    `${name}[a-z]*\\.? 0?${d}(?!\\d)`,
    `(?<!\\d)0?${d}(st|nd|rd|th|\\.)?( of)? ${name}`,
    `(?<!\\d)0?${d}[./]0?${m}(?!\\d)`,
    `(?<![\\d-])0?${m}[-/]0?${d}(?!\\d)`,
    `(?<!\\d)0?${m}月0?${d}日`,
  ];
  return new RegExp(ways.join('|'), 'iu').test(text);
}
