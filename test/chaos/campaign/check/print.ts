/** The report on one screen: the verdict first, what broke by invariant, what was missing, and what happened in numbers. */
import type { Meta, Report } from '../evidence.js';

const shownOfEach = 3;
const width = 180;

export function printReport({ verdict, breaches, counts, missing }: Report, meta: Meta): string {
  const { settings, backend, seed, commit } = meta;
  const lines = [
    `${verdict.toUpperCase()}: seed ${seed} on ${backend}, ${counts.runs} of ${settings.runs} runs, ${settings.layout}, commit ${commit}`,
  ];
  const names = [...new Set(breaches.map((breach) => breach.invariant))].sort();
  for (const name of names) {
    const of = breaches.filter((breach) => breach.invariant === name);
    lines.push('', `${name}: ${of.length} breach${of.length === 1 ? '' : 'es'}`);
    for (const { text } of of.slice(0, shownOfEach)) lines.push(`  ${cut(text)}`);
    if (of.length > shownOfEach) lines.push(`  … and ${of.length - shownOfEach} more`);
  }
  if (missing.length > 0) lines.push('', `Never happened, so that this says little: ${missing.join(', ')}`);
  const missed = Object.entries(meta.unavailable);
  if (missed.length > 0)
    lines.push('', `Could not be broken here: ${missed.map(([kind, why]) => `${kind} (${why})`).join(', ')}`);
  return [
    ...lines,
    '',
    ...inColumns(Object.entries(counts)),
    'Not judged: I9 (no schedules yet), I13 (see bench).',
  ].join('\n');
}

function cut(text: string): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

function inColumns(entries: [string, number][]): string[] {
  const cells = entries.map(([name, count]) => `${String(count).padStart(7)} ${name}`.padEnd(44));
  const rows = Math.ceil(cells.length / 3);
  return Array.from({ length: rows }, (_, row) =>
    [cells[row], cells[row + rows], cells[row + 2 * rows]].join('').trimEnd(),
  );
}
