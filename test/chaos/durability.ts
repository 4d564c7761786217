/**
 * `npm run chaos:tables`: puts what the nights and the recovery measures left in docs/durability.json and docs/recovery.json
 * into the tables of docs/durability.md. A test holds the page to the files.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { readOptions } from '../support/options.js';
import type { Piece } from './campaign/night-totals.js';
import { goals, totalsOf } from './campaign/night-totals.js';

export interface Measured {
  at: string;
  commit: string;
  [figure: string]: unknown;
}

/** Both tables by the name of their place in the page. */
export function tablesOf(pieces: Piece[], measured: Record<string, Measured>): Record<string, string> {
  return { night: nightTable(pieces), pieces: pieceTable(pieces), recovery: recoveryTable(measured) };
}

/** The page with the text between `<!-- name -->` and `<!-- /name -->` replaced. */
export function withTables(page: string, tables: Record<string, string>): string {
  return Object.entries(tables).reduce((text, [name, table]) => {
    const place = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!place.test(text)) throw new Error(`the page has no place for ${name}`);
    return text.replace(place, (_, open: string, close: string) => `${open}\n${table}\n\n${close}`);
  }, page);
}

/** What zero of n says with 95 % confidence: at most this share (the rule of three). */
export function boundOf(n: number): string {
  return n === 0 ? '–' : `${((3 / n) * 100).toPrecision(1)} %`;
}

function nightTable(pieces: Piece[]): string {
  const { counts, backends, seconds, breaches, commits } = totalsOf({ nextSeed: 0, pieces });
  const number = (value: number) => value.toLocaleString('en-US');
  const rows = Object.entries(counts).map(([name, value]) => {
    const goal = goals[name];
    return `| ${name} | ${number(value)} | ${goal === undefined ? '' : number(goal)} |`;
  });
  return [
    `${pieces.length} pieces (${backends.redis} on Redis, ${backends.postgres} on Postgres), ${Math.round(seconds / 60)} minutes of campaign, commits ${commits.join(', ')}.`,
    `Breaches found by the checker: **${breaches}**${breaches === 0 ? '' : ` (${byInvariant(pieces)})`}. ${costOf(counts)}`,
    ...(breaches === 0
      ? [
          `Zero in ${number(counts.runs ?? 0)} runs means, with 95 % confidence, fewer than ${boundOf(counts.runs ?? 0)}.`,
        ]
      : []),
    '',
    '| what happened | times | meant for a whole night |',
    '|---|---|---|',
    ...rows,
  ].join('\n');
}

/** A kill takes the model calls with it that its process has in flight: their share follows from how many calls a kill comes in. */
export function costOf(counts: Record<string, number>): string {
  const [lost = 0, calls = 0, kills = 0, runs = 0] = [
    'model calls that a crash cost',
    'model calls',
    'kills',
    'runs',
  ].map((name) => counts[name] ?? 0);
  const percent = (of: number, by: number) => `${((of / by) * 100).toFixed(1)} %`;
  if (calls === 0) return 'The model was not asked.';
  const share = `Model calls that crashes cost: ${percent(lost, calls)} of all`;
  if (kills === 0 || lost === 0) return `${share}.`;
  const [lostByKill, callsOfRun] = [lost / kills, calls / runs];
  return (
    `${share}: ${lostByKill.toFixed(1)} for each kill, at ${((kills / calls) * 1_000).toFixed(0)} kills in 1,000 calls. ` +
    `One kill in ten runs, which are ${(10 * callsOfRun).toFixed(0)} calls, makes ${percent(lostByKill, 10 * callsOfRun)}; ` +
    `1 % is one kill in ${Math.ceil(100 * lostByKill)} calls, or in ${Math.ceil((100 * lostByKill) / callsOfRun)} runs.`
  );
}

/** Each breach's text begins with the name of what is broken. */
function byInvariant(pieces: Piece[]): string {
  const names = pieces.flatMap(({ breaches }) => breaches.map((text) => text.split(':')[0] ?? ''));
  return [...new Set(names)].map((name) => `${name} × ${names.filter((other) => other === name).length}`).join(', ');
}

function pieceTable(pieces: Piece[]): string {
  return [
    '| seed | queue | commit | runs | steps | kills | verdict | seconds |',
    '|---|---|---|---|---|---|---|---|',
    ...pieces.map(({ seed, backend, commit, counts, verdict, seconds }) => {
      return `| ${seed} | ${backend} | ${commit} | ${counts.runs} | ${counts.steps} | ${counts.kills} | ${verdict} | ${seconds} |`;
    }),
  ].join('\n');
}

function recoveryTable(measured: Record<string, Measured>): string {
  const rows = Object.entries(measured).map(([name, { at: _, commit, machine: __, ...figures }]) => {
    return `| ${name} | ${lines(figures).join('<br>')} | ${commit} |`;
  });
  return ['| measure | figures | commit |', '|---|---|---|', ...rows].join('\n');
}

function lines(figures: object, prefix = ''): string[] {
  return Object.entries(figures).flatMap(([name, value]) => {
    const path = prefix === '' ? name : `${prefix}, ${name}`;
    if (Array.isArray(value)) return [`${path}: ${value.join(' · ')}`];
    return typeof value === 'object' && value !== null ? lines(value, path) : [`${path}: ${value}`];
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  readOptions({ name: 'npm run chaos:tables --', says: 'Puts the figures into docs/durability.md.', options: {} });
  const read = async <T>(path: string) => JSON.parse(await readFile(path, 'utf8')) as T;
  const { pieces } = await read<{ pieces: Piece[] }>('docs/durability.json');
  const measured = await read<Record<string, Measured>>('docs/recovery.json');
  const page = await readFile('docs/durability.md', 'utf8');
  await writeFile('docs/durability.md', withTables(page, tablesOf(pieces, measured)));
}
