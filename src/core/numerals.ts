/**
 * Reads the numbers out of a text, as people and models write them: 1,234.50, 25 %, 1.2 million, 3.4亿. In an answer the
 * digits that claim nothing are passed over: dates, times, list numbers, ordinals, names such as Q3 or SKU-42. Pure; what
 * is done with them: numbers-from-tools.ts.
 */

export interface Numeral {
  /** As it is written, with its unit. */
  text: string;
  /** What it says, its scale applied; of `25 %` 25. */
  value: number;
  /** The same without a scale that may as well be a unit: of `10 m` 10; null: there is none. */
  unscaled: number | null;
  /** How far the exact value may lie from it: half a unit of its last digit. */
  slack: number;
  /** What the value is multiplied by to be a plain ratio, where it is written as one: 0.01 of `25 %`; null: it is not. */
  ratio: number | null;
  /** Seconds or bytes of its unit, by kind. */
  unit: { kind: 'time' | 'data'; size: number } | null;
  at: number;
}

const grouped = String.raw`\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)|\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:'\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?`;
const plain = String.raw`\d+,\d{1,2}(?![\d,])|\d+(?:\.\d+)?|\.\d+`;
const number = String.raw`(?:${grouped}|${plain})(?:[eE][+-]?\d{1,3})?(?![\d])`;

const scales: Record<string, number> = {
  ...{
    k: 1e3,
    thousand: 1e3,
    m: 1e6,
    mn: 1e6,
    million: 1e6,
    millions: 1e6,
    b: 1e9,
    bn: 1e9,
    billion: 1e9,
    billions: 1e9,
  },
  ...{ trillion: 1e12, 千: 1e3, 万: 1e4, 百万: 1e6, 千万: 1e7, 亿: 1e8, 万亿: 1e12 },
};
const ratios: Record<string, number> = {
  ...{
    '%': 0.01,
    percent: 0.01,
    'per cent': 0.01,
    pct: 0.01,
    'percentage points': 0.01,
    'percentage point': 0.01,
    pp: 0.01,
  },
  ...{ 个百分点: 0.01, 百分点: 0.01, '‰': 0.001, bps: 0.0001, 个基点: 0.0001 },
};
const seconds: Record<string, number> = {
  ...{
    ms: 0.001,
    milliseconds: 0.001,
    毫秒: 0.001,
    s: 1,
    sec: 1,
    secs: 1,
    second: 1,
    seconds: 1,
    秒: 1,
    min: 60,
    mins: 60,
  },
  ...{ minute: 60, minutes: 60, 分钟: 60, h: 3_600, hour: 3_600, hours: 3_600, 小时: 3_600, day: 86_400, days: 86_400 },
  ...{ 天: 86_400, week: 604_800, weeks: 604_800, 周: 604_800 },
};
const bytes: Record<string, number> = {
  ...{
    byte: 1,
    bytes: 1,
    字节: 1,
    kb: 1e3,
    kib: 1024,
    mb: 1e6,
    mib: 1024 ** 2,
    gb: 1e9,
    gib: 1024 ** 3,
    tb: 1e12,
    tib: 1024 ** 4,
  },
};

const either = (words: Record<string, unknown>) =>
  Object.keys(words)
    .sort((a, b) => b.length - a.length)
    .join('|');
// A unit of letters ends where the word does; a sign or a Chinese one may be followed by anything.
const latinEnd = '(?![A-Za-z])';
const numeralRule = new RegExp(
  `(?<![\\d.]|\\d,)(百分之)?(${number})(?:\\s?(${either(scales)})${latinEnd})?(?:[ \\t]?(${[ratios, seconds, bytes].map(either).join('|')})${latinEnd})?`,
  'giu',
);
const roughly =
  /(?:\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|over|above|more than|at least|under|less than|some|circa)|[~≈]|约|大约|大概|近|接近|超过|不到|逾|将近)\s*[$€£¥￥]?\s*$/iu;

/** Every number in a text, as far as digits go; a text that was made ready by `readable`. */
export function readNumerals(text: string): Numeral[] {
  const found: Numeral[] = [];
  for (const match of text.matchAll(numeralRule)) {
    const [whole, hundredth, written = '', scaleName, unitName] = match;
    const digits = readDigits(written);
    if (!Number.isFinite(digits)) continue;
    const scale = scales[scaleName?.toLowerCase() ?? ''] ?? 1;
    const unit = unitName?.toLowerCase() ?? '';
    const isRough = roughly.test(text.slice(Math.max(0, match.index - 20), match.index));
    const size = seconds[unit] ?? bytes[unit];
    found.push({
      text: whole.trim(),
      value: digits * scale,
      unscaled: scaleName === 'm' || scaleName === 'b' ? digits : null,
      slack: (isRough ? lastPlace(written) : 0.5 * 10 ** -decimalsOf(written)) * scale,
      ratio: hundredth === undefined ? (ratios[unit] ?? null) : 0.01,
      unit: size === undefined ? null : { kind: unit in seconds ? 'time' : 'data', size },
      at: match.index,
    });
  }
  return shareRatios(found, text);
}

/** In `10–20 %` the sign belongs to both. */
function shareRatios(numerals: Numeral[], text: string): Numeral[] {
  for (let index = numerals.length - 2; index >= 0; index--) {
    const [numeral, next] = [numerals[index], numerals[index + 1]];
    if (numeral === undefined || next === undefined || numeral.ratio !== null || next.ratio === null) continue;
    const between = text.slice(numeral.at + numeral.text.length, next.at);
    if (/^\s?(?:[-–—~]|to|and|or|至|到)\s?$/u.test(between)) numeral.ratio = next.ratio;
  }
  return numerals;
}

/** The mantissa of a written number, without signs of thousands and with a point. */
function mantissa(written: string): string {
  const [digits = ''] = written.split(/e/i);
  const isComma = /^\d+,\d{1,2}$/.test(digits) || /^\d{1,3}(?:\.\d{3})+,\d+$/.test(digits);
  if (isComma) return digits.replaceAll('.', '').replace(',', '.');
  if (/^\d{1,3}(?:\.\d{3}){2,}$/.test(digits)) return digits.replaceAll('.', '');
  return digits.replaceAll(/[,']/g, '');
}

function exponent(written: string): number {
  return Number(/e([+-]?\d+)$/i.exec(written)?.[1] ?? 0);
}

function readDigits(written: string): number {
  return Number(`${mantissa(written)}e${exponent(written)}`);
}

function decimalsOf(written: string): number {
  return (mantissa(written).split('.')[1] ?? '').length - exponent(written);
}

/** One unit of the last digit that is not 0: 1,200 that is said to be rough stands for 1,100 to 1,300. */
function lastPlace(written: string): number {
  const digits = mantissa(written);
  const zeros = digits.includes('.') ? 0 : (/0*$/.exec(digits)?.[0].length ?? 0);
  return 10 ** (zeros === digits.length ? 0 : zeros - decimalsOf(written));
}

/** One form for all digits and spaces that numbers are written with, at the same length. */
export function readable(text: string): string {
  return text
    .replaceAll(/[\u2460-\u24ff\u2776-\u2793\u00b2\u00b3\u00b9\u2070-\u2089]/g, ' ')
    .replaceAll(/[\uff01-\uff5e]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replaceAll(/(?<=\d)[\u00a0\u2009\u202f_](?=\d{3}(?!\d))/g, "'")
    .replaceAll('’', "'");
}

const month = '(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]{0,6}\\.?';
const day = '\\d{1,2}(?:st|nd|rd|th)?';
const year = '(?:19|20)\\d{2}(?![\\d%]|[.,]\\d|\\s?%)';
const silent = [
  'https?://\\S+',
  '\\S+@\\S+\\.\\w+',
  // dates and times
  '\\d{4}-\\d{1,2}-\\d{1,2}(?:[T ]\\d{1,2}:\\d{2}[\\d:.]*(?:Z|[+-]\\d{2}:?\\d{2})?)?',
  '(?:19|20)\\d{2}-(?:0[1-9]|1[0-2])(?!\\d)',
  '\\d{4}[/.]\\d{1,2}[/.]\\d{1,2}',
  '\\d{1,2}([/.])\\d{1,2}\\1(?:19|20)\\d{2}',
  '\\d{1,2}:\\d{2}(?::\\d{2})?(?:\\s?[ap]\\.?m\\b\\.?)?',
  '\\d{1,2}\\s?[ap]m\\b',
  '\\d{2,4}\\s?年(?:\\s?\\d{1,2}\\s?月)?(?:\\s?\\d{1,2}\\s?[日号])?',
  '\\d{1,2}\\s?月(?:\\s?\\d{1,2}\\s?[日号]?(?!\\d))?(?:[-–—~至到]\\d{1,2}\\s?[日号])?',
  '(?<!\\d)\\d{1,2}\\s?[日号](?!元)',
  `\\b${month}\\s${day}(?:\\s?[-–—]\\s?${day})?(?:,?\\s${year})?(?![\\d%,.]*\\d)`,
  `\\b${day}(?:\\s?[-–—]\\s?${day})?(?:\\sof)?\\s${month}(?:,?\\s${year})?(?!\\w)`,
  `\\b(?:${month}|q[1-4]|h[12])\\s${year}`,
  `\\b(?:in|since|until|till|during|through|year|fiscal|calendar|early|late|mid|before|after|(?:end|half|quarter|start|beginning|middle|rest) of)[ -]${year}`,
  `(?<![\\d.,])${year}\\s?[-–—/]\\s?(?:(?:19|20)?\\d{2})(?![\\d%])`,
  // ordinals and labels
  '\\d+(?:st|nd|rd|th)\\b',
  '第\\s?\\d+',
  '\\b(?:steps?|sections?|parts?|tables?|figures?|fig\\.|options?|phases?|chapters?|weeks?|no\\.|version|page)\\s#?\\d+(?:\\.\\d+)*',
  '#\\d+',
  '(?<=\\S)\\[\\d{1,3}\\]',
];
const names = [
  '(?<![A-Za-z_\\d])(?!(?:USD|EUR|GBP|CNY|RMB|JPY|US|HK)\\d)[A-Za-z_][A-Za-z_]*-?\\d[\\w-]*(?:\\.\\d+)*',
  '(?<![\\w.,])\\d+(?!(?:KB|MB|GB|TB|USD|EUR|RMB|CNY|GBP|JPY|BN|MN)\\b)[A-Z]{2,}\\w*',
  '(?<![\\w.,])\\d+[a-z]+\\d\\w*',
];
const silentRule = new RegExp(silent.join('|'), 'giu');
/** SKU-42, Q3, 7f3a: names with digits in them. */
const nameRule = new RegExp(names.join('|'), 'gu');
const marker = /^([ \t]*(?:[-*>#]+[ \t]*)*[(（]?)(\d{1,3})([.)）、:][ \t]|[）、])(?=\S)/gmu;

/** The text with its digits that claim nothing blanked out, at the same length. */
export function claimsOf(text: string): string {
  const blank = (part: string) => ' '.repeat(part.length);
  let before = 0;
  const unnumbered = readable(text).replaceAll(marker, (whole, _indent: string, digits: string) => {
    // A line that begins with a number is an item of a list only where it goes on counting.
    const isNext = Number(digits) === before + 1 || Number(digits) === 1;
    if (!isNext) return whole;
    before = Number(digits);
    return blank(whole);
  });
  return unnumbered.replaceAll(silentRule, blank).replaceAll(nameRule, blank);
}
