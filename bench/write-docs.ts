/** Writes the generated part of docs/performance.md, between its two marks, and the plot beside it. */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { plotGrowth } from './plot.js';
import type { Summary } from './results.js';
import { goalRows, growthRows, machineLine, partsRows, peerRows, slower } from './table.js';

const docs = fileURLToPath(new URL('../docs', import.meta.url));
const from = '<!-- bench: from here on written by npm run bench -- --write -->';
const to = '<!-- bench: up to here -->';

export async function writeDocs(summary: Summary): Promise<void> {
  const path = `${docs}/performance.md`;
  const text = await readFile(path, 'utf8');
  const [start, end] = [text.indexOf(from), text.indexOf(to)];
  if (start < 0 || end < start) throw new Error(`docs/performance.md has lost its marks: ${from} … ${to}`);
  await writeFile(path, `${text.slice(0, start + from.length)}\n\n${generated(summary)}\n\n${text.slice(end)}`);
  if (Object.keys(summary.results.growth).length > 0) await writeFile(`${docs}/performance.svg`, plotGrowth(summary));
}

function generated(summary: Summary): string {
  const { results, settings } = summary;
  const given = (object: unknown) =>
    Object.entries(object as Record<string, string>)
      .map(([name, value]) => `${name} ${value === '' ? '(none)' : value}`)
      .join(', ');
  const versions = Object.values(results.peers).map(({ title, versions, how }) => [title, versions, how]);
  const parts = [
    `${machineLine(summary)}.`,
    `Postgres: ${given(settings.postgres)}. Redis: ${given(settings.redis)}.`,
    markdown(peerRows(results.peers)),
    slower(results.peers)
      .map((line) => `- ${line}`)
      .join('\n'),
    Object.keys(results.growth).length > 0
      ? `${markdown(growthRows(summary))}\n\n![Cost of a step against the length of its run](performance.svg)`
      : '',
    results.parts === null ? '' : markdown(partsRows(results.parts)),
    markdown(goalRows(summary)),
    Object.entries(results.notMeasured)
      .map(([name, reason]) => `- not measured: ${name}: ${reason}`)
      .join('\n'),
    markdown([['system', 'versions', 'how it is used'], ...versions]),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function markdown(rows: string[][]): string {
  const [head = [], ...rest] = rows;
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rest.map(line)].join('\n');
}
