/** The result of trying sabotages: as a table for the terminal, and as a page of the docs. */
import type { Meta } from '../evidence.js';
import type { Sabotage } from './sabotages.js';

export interface Trial {
  sabotage: Sabotage;
  /** From the start of the campaign's services to the checker's word. */
  seconds: number;
  /** `sound`: code that was not broken, and not failed. `late`: caught, and not in time. */
  verdict: 'caught' | 'late' | 'missed' | 'sound';
  /** Under which names breaches were found. */
  by: { name: string; breaches: number }[];
  /** One of the breaches that it was to be caught by. */
  note: string;
}

const widths = [24, 9, 36, 8] as const;

export function tableOf(trials: readonly Trial[]): string[] {
  const row = (cells: string[]) =>
    cells
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join(' ')
      .trimEnd();
  return [
    row(['sabotage', '', 'found', 'seconds']),
    ...trials.map(({ sabotage, verdict, by, seconds }) => row([sabotage.name, verdict, foundIn(by), String(seconds)])),
  ];
}

function foundIn(by: Trial['by']): string {
  return by.map(({ name, breaches }) => `${name} × ${breaches}`).join(', ') || 'nothing';
}

export function pageOf(trials: readonly Trial[], { commit, machine }: Meta, seed: number): string {
  const cell = (text: string) => text.replaceAll('|', '\\|');
  const rows = trials.map(({ sabotage, verdict, by, seconds }) => {
    const { only, seed: ofItsOwn } = sabotage.campaign ?? {};
    const faults = `${only?.join(', ') ?? 'all kinds'}${ofItsOwn === undefined ? '' : `; seed ${ofItsOwn}`}`;
    const cells = [
      sabotage.name,
      sabotage.breaks,
      faults,
      sabotage.caughtBy.join(', ') || '–',
      verdict,
      foundIn(by),
      seconds,
    ];
    return `| ${cells.map((text) => cell(String(text))).join(' | ')} |`;
  });
  return `# Sabotages

A checker that cannot fail proves nothing. So the code is broken on purpose, one promise at a time, and the campaign must
notice: \`npm run chaos:sabotage\` copies the sources, takes a few words out of the copy
([sabotages.ts](../test/chaos/campaign/sabotage/sabotages.ts) lists them; there is no switch for any of them in \`src\`), runs a
fast campaign of real processes on it and asks the checker. *Caught* means: failed, under a name it was to be caught by,
within 180 seconds from the start of the services. The first row is the code as it is, which must not fail.

Seed ${seed}, commit ${commit}; ${machine.cpus} × ${machine.cpu}, ${Math.round(machine.memoryMb / 1024)} GB, ${machine.os}, Node ${machine.node},
Postgres ${machine.postgres}, Redis ${machine.redis ?? '–'}. The machine did other work meanwhile.

| sabotage | what it breaks | faults | to be caught by | result | found | seconds |
|---|---|---|---|---|---|---|
${rows.join('\n')}
`;
}
