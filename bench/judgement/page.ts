/** The generated part of docs/judgement.md, made from docs/judgement.json alone, so that a test can hold the page to it. */
import type { Summary } from './summary.js';
import { behind, courseRows, endingRows, goalRows, machineLine, sideRows, undercutLine } from './table.js';

const from = '<!-- judgement: from here on written by npm run bench:judgement -- --write -->';
const to = '<!-- judgement: up to here -->';

/** The page with what the summary says between its marks. */
export function withResults(page: string, summary: Summary): string {
  const [start, end] = [page.indexOf(from), page.indexOf(to)];
  if (start < 0 || end < start) throw new Error(`docs/judgement.md has lost its marks: ${from} … ${to}`);
  return `${page.slice(0, start + from.length)}\n\n${resultsOf(summary)}\n\n${page.slice(end)}`;
}

function resultsOf(summary: Summary): string {
  const worse = behind(summary).map((line) => `- ${line}`);
  const sides = Object.values(summary.sides).map(({ title, versions, how }) => [title, versions, how]);
  const courses = Object.values(summary.courses).map(({ title, how }) => `- **${title}**: ${how}`);
  return [
    `${machineLine(summary)}.`,
    markdown(goalRows(summary)),
    `The bounds are those of these courses, prompts and times at the least they can be. ${undercutLine(summary)}`,
    markdown(courseRows(summary)),
    courses.join('\n'),
    markdown(sideRows(summary)),
    `Where the framework is better:\n\n${worse.length === 0 ? '- nowhere in this run' : worse.join('\n')}`,
    markdown(endingRows(summary)),
    markdown([['side', 'versions', 'how it is used'], ...sides]),
  ].join('\n\n');
}

function markdown(rows: string[][]): string {
  const [head = [], ...rest] = rows;
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rest.map(line)].join('\n');
}
