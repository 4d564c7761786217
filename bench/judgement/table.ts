/** The summary for people: the columns of both sides by set, the goals, and in plain words where Pawl is behind. */
import type { Columns, Sets, Summary } from './summary.js';

const setTitles: Record<keyof Sets, string> = {
  both: 'both sets',
  mixed: 'mixed, 20 tasks',
  report: 'reports, 18 tasks',
  large: 'five steps, large results',
};

const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
const whole = (value: number) => Math.round(value).toLocaleString('en');

const columns: { name: string; of: keyof Columns; shown: (value: number) => string; better: 'more' | 'less' }[] = [
  { name: 'tool success', of: 'toolSuccess', shown: percent, better: 'more' },
  { name: 'completed', of: 'completed', shown: percent, better: 'more' },
  { name: 'rounds', of: 'rounds', shown: (value) => value.toFixed(2), better: 'less' },
  { name: 'steps', of: 'steps', shown: (value) => value.toFixed(2), better: 'less' },
  { name: 'prompt tokens a task', of: 'promptTokens', shown: whole, better: 'less' },
  { name: 'prompt tokens a step', of: 'stepPrompt', shown: whole, better: 'less' },
  { name: 'cached', of: 'cachedShare', shown: percent, better: 'more' },
  { name: 'dead loops', of: 'deadLoops', shown: whole, better: 'less' },
  { name: 'wall time a task', of: 'wallMs', shown: (value) => `${(value / 1_000).toFixed(2)} s`, better: 'less' },
];

export function sideRows({ sides }: Summary): string[][] {
  const rows = (Object.keys(setTitles) as (keyof Sets)[]).flatMap((set) =>
    Object.values(sides).map(({ title, sets }) => [
      setTitles[set],
      title,
      ...columns.map(({ of, shown }) => shown(sets[set][of])),
    ]),
  );
  return [['set', 'side', ...columns.map(({ name }) => name)], ...rows];
}

/** What was played for the bounds, without the columns that say nothing of them. */
export function courseRows({ courses }: Pick<Summary, 'courses'>): string[][] {
  const told = columns.filter(({ of }) => !['cachedShare', 'deadLoops'].includes(of));
  const rows = Object.values(courses).flatMap(({ title, sets }) =>
    (Object.keys(setTitles) as (keyof Sets)[])
      .filter((set) => set !== 'large')
      .map((set) => [setTitles[set], title, ...told.map(({ of, shown }) => shown(sets[set][of]))]),
  );
  return [['set', 'course', ...told.map(({ name }) => name)], ...rows];
}

export function goalRows({ goals }: Summary): string[][] {
  const shown = (value: number | null) => (value === null ? '' : value.toFixed(2));
  const rows = goals.map(({ ratio, what, value, goal, met, bound, faultless, withinBound }) => [
    ratio,
    what,
    ratio === 'deadLoops' ? String(value) : shown(value),
    shown(bound),
    shown(faultless),
    goal,
    met ? 'met' : `NOT met${withinBound === null ? '' : withinBound ? ', within the bound' : ', beyond the bound'}`,
  ]);
  return [['ratio', 'what', 'measured', 'bound', 'bound without mistakes', 'goal', ''], ...rows];
}

/** Whether the bound held. */
export function undercutLine({ right, undercuts }: Summary): string {
  const times = undercuts.length === 0 ? 'None' : `NOT A BOUND: ${undercuts.length}`;
  return `${times} of ${right} right answers took fewer rounds, steps or prompt tokens, or less time, than the bound of its task and seed.`;
}

/** Where the framework is better, column by column. */
export function behind({ sides }: Summary): string[] {
  const { pawl, langgraph } = sides;
  if (pawl === undefined || langgraph === undefined) return [];
  return (Object.keys(setTitles) as (keyof Sets)[]).flatMap((set) =>
    columns.flatMap(({ name, of, shown, better }) => {
      const [ours, theirs] = [pawl.sets[set][of], langgraph.sets[set][of]];
      const isBehind = better === 'more' ? ours < theirs : ours > theirs;
      return isBehind ? [`${setTitles[set]}: ${name} ${shown(ours)}, ${langgraph.title} ${shown(theirs)}`] : [];
    }),
  );
}

export function endingRows({ sides }: Summary): string[][] {
  const names = [...new Set(Object.values(sides).flatMap(({ endings }) => Object.keys(endings)))].sort();
  const rows = names.map((name) => [name, ...Object.values(sides).map(({ endings }) => String(endings[name] ?? 0))]);
  return [['how tasks ended', ...Object.values(sides).map(({ title }) => title)], ...rows];
}

export function machineLine({ machine, seeds }: Summary): string {
  const { cores, cpu, memoryMb, os, node, postgres, redis, commit, at } = machine;
  return (
    `${cores} cores of ${cpu}, ${memoryMb} MB, ${os}, Node ${node}, Postgres ${postgres}, Redis ${redis}; ` +
    `seeds ${seeds.join(', ')}; commit ${commit}, ${at}`
  );
}

export function asTable(summary: Summary): string {
  const parts = [
    machineLine(summary),
    columned(sideRows(summary)),
    columned(endingRows(summary)),
    columned(courseRows(summary)),
    columned(goalRows(summary)),
    undercutLine(summary),
  ];
  const lines = [
    ...behind(summary).map((line) => `behind: ${line}`),
    ...summary.undercuts.map((line) => `under the bound: ${line}`),
  ];
  return [...parts, lines.join('\n')].filter((part) => part !== '').join('\n\n');
}

export function columned(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  const line = (row: string[]) => row.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join('  ');
  return rows.map((row) => line(row).trimEnd()).join('\n');
}
