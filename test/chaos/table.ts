/** The matrix as a Markdown table, one row for each step, gap and blow, the backends side by side. */
import type { Case } from './cases.js';
import type { Played } from './play.js';

export interface Result {
  case: Case;
  /** Null: the case did not come to its end. */
  played: Played | null;
}

export function writeTable(results: readonly Result[]): string {
  const backends = [...new Set(results.map((result) => result.case.backend))];
  const groups = new Map<string, Result[]>();
  for (const result of results) {
    const name = [result.case.kind, result.case.place, result.case.blow].join(' | ');
    groups.set(name, [...(groups.get(name) ?? []), result]);
  }
  const head = ['step', 'gap', 'blow', 'outcome', 'attempts', 'model asked', 'effects raw', 'applied', 'invariants'];
  const rows = [...groups].map(([name, group]) => {
    const cell = (read: (played: Played) => unknown) =>
      [...new Set(group.map(({ played }) => (played === null ? '?' : String(read(played) ?? '–'))))].join(' / ');
    const timeOn = (backend: string) => {
      const played = group.find((result) => result.case.backend === backend)?.played;
      return played == null ? '?' : `${(played.recoveredMs / 1_000).toFixed(1)} s`;
    };
    return [
      ...name.split(' | '),
      cell(({ outcome }) => outcome),
      cell(({ attempts }) => attempts),
      cell(({ asked }) => asked),
      cell(({ raw }) => raw),
      cell(({ applied }) => applied),
      cell(({ breaches }) => (breaches.length === 0 ? 'hold' : breaches.join('; '))),
      ...backends.map(timeOn),
    ];
  });
  const lines = [
    [...head, ...backends.map((backend) => `end after, ${backend}`)],
    [...head, ...backends].map(() => '-'),
  ];
  return [...lines, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
