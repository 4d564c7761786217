/**
 * What the demo prints beside the steps' own lines: what survived the crash, the totals at the end, the verdict. Pure:
 * takes what the run's rows say and returns lines. The steps' lines are those of `pawl run` (cli/step-line.ts).
 */
import { countOf, formatCost, formatSpan, formatTokens } from '../cli/format.js';
import { stepLine } from '../cli/step-line.js';
import type { Paint } from '../cli/terminal.js';
import { padEnd, padStart } from '../cli/width.js';
import type { RunView, StepView } from '../core/view.js';
import type { LoadedTable } from './load-orders.js';
import type { DemoModel } from './stage.js';
import type { Failure } from './verify.js';

/** Columns of a model call's line, notes left out. */
const stepColumns = 76;
const survivedMark = 'recorded before the crash, not repeated';

/** The line of a step that was recorded before the worker was killed. */
export function survivorLine(step: StepView, paint: Paint): string {
  const now = new Date(step.finishedAt ?? step.queuedAt);
  return `${padEnd(stepLine(step, paint, { now }), stepColumns)}  ${paint('green', survivedMark)}`;
}

/** A line that stands out: the kill, the new worker. */
export const bannerLine = (text: string, paint: Paint) => paint('bold', `-- ${text} --`);

/** Names the columns of the steps' lines. */
export function headLine(paint: Paint): string {
  const columns = [
    ' ',
    padStart('#', 3),
    'kind',
    padEnd('name', 24),
    padStart('time', 7),
    padStart('tokens', 20),
    'cost',
  ];
  return paint('dim', columns.join('  '));
}

/** A line of facts: its name, and what it says. */
export const factLine = (name: string, text: string, paint: Paint) =>
  `${paint('dim', padEnd(name, 9))} ${text.replaceAll('\n', `\n${' '.repeat(10)}`)}`;

export interface Opening {
  database: string;
  table: LoadedTable;
  csv: string;
  queueKind: 'redis' | 'postgres';
  model: DemoModel;
  mail: string;
  worker: number;
}

/** What the demo runs on, before anything happens. */
export function openingLines(
  { database, table, csv, queueKind, model, mail, worker }: Opening,
  paint: Paint,
): string[] {
  const rows = `${countOf(table.rows, 'row')} of ${csv}, ${table.firstDay} to ${table.lastDay}`;
  const facts: [string, string][] = [
    ['database', `embedded Postgres, ${database}`],
    ['queue', queueKind === 'redis' ? 'Redis (REDIS_URL)' : 'in the same Postgres'],
    [
      'data',
      `${rows}, as table ${table.schema}.${table.table};\nthe database role of the agent's queries may read that schema and nothing else`,
    ],
    ['mail', mail],
    ['model', modelText(model)],
    ['worker 1', `a process of its own, pid ${worker}`],
  ];
  return facts.map(([name, text]) => factLine(name, text, paint));
}

function modelText({ name, scripted, llm }: DemoModel): string {
  if (!scripted) return `${name} at ${llm.baseUrl}`;
  return (
    'scripted: rules instead of a language model, since neither OPENAI_API_KEY nor OPENAI_BASE_URL is set.\n' +
    'The openai client talks to it over HTTP as to a real one, and what it asks of the tools is really done.'
  );
}

export interface Ending {
  run: RunView;
  steps: readonly StepView[];
  /** How many steps were recorded before the kill; null: there was none. */
  survived: number | null;
  /** Model as the demo names it, and whether it is the scripted one. */
  model: string;
  scripted: boolean;
  reports: readonly string[];
  mails: readonly string[];
  /** Folder of the workers' logs. */
  logs: string;
  /** How `pawl` is called from here. */
  command: string;
  now: Date;
}

export function endingLines(ending: Ending, paint: Paint): string[] {
  const { run, steps, survived, model, scripted, reports, mails, logs, command, now } = ending;
  const { usage } = run;
  const llm = steps.filter(({ kind }) => kind === 'llm').length;
  const kinds = `${countOf(llm, 'LLM call')}, ${countOf(steps.length - llm, 'tool call')}`;
  const tokens = formatTokens(usage);
  const facts: [string, string][] = [
    ['run', `${run.id}, ${run.status}${run.reason === null ? '' : ` (${run.reason})`}`],
    ['model', scripted ? 'scripted: rules instead of a language model; the tools are real' : model],
    [
      'steps',
      `${steps.length}: ${kinds}; ${survived === null ? 'no worker was killed' : `${survived} ${survivedMark}`}`,
    ],
    ['tokens', `${tokens || 'none'}${usage.estimated ? ' (partly estimated: a call was lost)' : ''}`],
    ['cost', formatCost(usage) || (tokens === '' ? 'nothing' : 'no price is known for this model')],
    ['time', `${formatSpan(run.createdAt, run.finishedAt, now)}${run.finishedAt === null ? ' so far' : ''}`],
    ...reports.map((file): [string, string] => ['report', file]),
    ...mails.map((file): [string, string] => ['mail', file]),
    ['logs', logs],
    ['more', ['show', 'steps', 'events'].map((name) => `${command} runs ${name} ${run.id}`).join('\n')],
  ];
  return facts.map(([name, text]) => factLine(name, text, paint));
}

/** The verdict of the self-check, one line each. */
export function verdictLines(failures: readonly Failure[], paint: Paint): string[] {
  if (failures.length > 0) {
    return failures.map(({ check, problem }) => paint('red', `failed: ${check}: ${problem}`));
  }
  const passed =
    'checked: every step recorded once and none repeated, mail delivered once, the numbers are those of the database';
  return [paint('green', passed)];
}
