/** The scripted model's last words: what it found out, as figures in sentences, and what it did not. */
import { bestOf, type Found, type Known } from './reading.js';

export function finalAnswer(task: string, known: Known): string {
  const said = task.startsWith('Report') ? reportOf(known) : task.startsWith('Compare') ? comparisonOf(known) : null;
  return said ?? [...known].map(([, found]) => lineOf(found)).join(' ') + (known.size === 0 ? unknown : '');
}

const unknown = 'The figures that were asked for are not known.';

function lineOf(found: Found): string {
  if ('line' in found)
    return found.line.startsWith('total: ')
      ? `The total is ${found.amount}.`
      : `It is order ${found.line.split(',')[0]} of ${found.amount}.`;
  const best = bestOf(found);
  return best === null ? unknown : `The best is ${best} with ${shown(found.sums.get(best) ?? 0)}.`;
}

function reportOf(known: Known): string {
  const [week, before, best] = ['week', 'before', 'best'].map((id) => known.get(id));
  const parts = [week, before].map((found) => (found === undefined ? null : sumOf(found)));
  const [now, then] = parts;
  return [
    now == null ? unknown : `The sum of the 7 days is ${shown(now)}.`,
    then == null ? unknown : `The 7 days before made ${shown(then)}.`,
    week === undefined ? '' : lineOf(week),
    best === undefined ? unknown : `On that day ${bestOf(best)} sold most: offer more of it on that day of the week.`,
  ].join(' ');
}

function comparisonOf(known: Known): string {
  const sums = [...known].map(([name, found]) => [name, sumOf(found)] as const).sort((a, b) => b[1] - a[1]);
  const [first] = sums;
  if (first === undefined) return unknown;
  return `${sums.map(([name, sum]) => `${name} made ${shown(sum)}`).join(', ')}: ${first[0]} is ahead.`;
}

function sumOf(found: Found): number {
  return 'sums' in found ? [...found.sums.values()].reduce((sum, value) => sum + value, 0) : 0;
}

function shown(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}
