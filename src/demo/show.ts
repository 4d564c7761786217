/**
 * What the demo prints: a line for each step as it happens, and the totals at the end. Plain text; colour only where asked
 * for, on a terminal. Pure: takes what the run's rows say and returns lines.
 */
import type { RunView, StepView } from '../core/view.js';
import type { Failure } from './verify.js';

export interface Look {
  /** True on a terminal only. */
  colour: boolean;
}

const survivedMark = 'recorded before the crash, not repeated';

const paint = (code: number) => (text: string, look: Look) => (look.colour ? `\u001b[${code}m${text}\u001b[0m` : text);
const dim = paint(2);
const bold = paint(1);
const green = paint(32);
const red = paint(31);
const yellow = paint(33);

export function headLine(look: Look): string {
  return dim(columns('#', 'kind', 'name', 'time', 'tokens', 'cost', ''), look);
}

/** One line for a step. `survived`: it was recorded before the worker was killed, so the new worker did not repeat it. */
export function stepLine(step: StepView, survived: boolean, look: Look): string {
  const { usage } = step;
  const tokens = usage === null ? '' : `${usage.estimated ? '~' : ''}${count(usage.inputTokens + usage.outputTokens)}`;
  const line = columns(String(step.seq), step.kind, step.name, duration(step), tokens, cost(usage?.costUsd), '');
  if (survived) return `${dim(line, look)}${green(survivedMark, look)}`;
  return `${line}${remark(step, look)}`.trimEnd();
}

function remark(step: StepView, look: Look): string {
  const again = step.attempt > 1 || step.crashes > 0 ? `attempt ${step.attempt}` : '';
  switch (step.status) {
    case 'completed':
      return yellow(again, look);
    case 'running':
      return dim(again === '' ? 'running' : `running, ${again}`, look);
    case 'pending':
      return dim('waiting', look);
    case 'suspended':
      return yellow(`suspended, waits for ${step.waitingFor}`, look);
    case 'dead':
      return red(`dead: ${step.error?.message ?? 'no reason recorded'}`, look);
    case 'cancelled':
      return yellow('cancelled', look);
  }
}

/** A line that stands out: the kill, the new worker. */
export const bannerLine = (text: string, look: Look) => bold(red(`-- ${text} --`, look), look);

export interface Ending {
  run: RunView;
  steps: readonly StepView[];
  /** Seqs recorded before the kill. */
  survived: ReadonlySet<number>;
  /** Model as the demo names it, and whether it is the scripted one. */
  model: string;
  scripted: boolean;
  reports: readonly string[];
  mails: readonly string[];
}

export function endingLines({ run, steps, survived, model, scripted, reports, mails }: Ending, look: Look): string[] {
  const { usage } = run;
  const llm = steps.filter(({ kind }) => kind === 'llm').length;
  const tokens = `${count(usage.inputTokens)} in, ${count(usage.outputTokens)} out${usage.estimated ? ' (partly estimated)' : ''}`;
  const rows: [string, string][] = [
    ['run', `${run.id}, ${run.status}${run.reason === null ? '' : ` (${run.reason})`}`],
    ['model', scripted ? `${model}: scripted, rules instead of a language model; the tools are real` : model],
    ['steps', `${steps.length}: ${llm} LLM calls, ${steps.length - llm} tool calls; ${survived.size} ${survivedMark}`],
    ['tokens', tokens],
    ['cost', usage.costUsd === null ? 'no price is known for this model' : cost(usage.costUsd)],
    ['time', between(run.createdAt, run.finishedAt)],
    ...reports.map((file): [string, string] => ['report', file]),
    ...mails.map((file): [string, string] => ['mail', file]),
    ['more', `npx pawl runs show ${run.id}`],
  ];
  return rows.map(([name, value]) => `${bold(name.padEnd(7), look)} ${value}`);
}

/** The verdict of the self-check, one line each. */
export function verdictLines(failures: readonly Failure[], look: Look): string[] {
  if (failures.length === 0) {
    return [
      green('checked: every step recorded once, mail delivered once, the numbers are those of the database', look),
    ];
  }
  return failures.map(({ check, problem }) => red(`failed: ${check}: ${problem}`, look));
}

function columns(
  seq: string,
  kind: string,
  name: string,
  time: string,
  tokens: string,
  money: string,
  end: string,
): string {
  return `${seq.padStart(3)}  ${kind.padEnd(4)}  ${name.padEnd(16)}  ${time.padStart(8)}  ${tokens.padStart(7)}  ${money.padStart(9)}  ${end}`;
}

const count = (value: number) => value.toLocaleString('en-US');

/** US dollars, with as many decimals as a cheap call needs; empty when no price is known. */
function cost(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return '';
  return `$${usd.toFixed(usd !== 0 && usd < 0.01 ? 6 : 4)}`;
}

const duration = ({ startedAt, finishedAt }: StepView) => (finishedAt === null ? '' : between(startedAt, finishedAt));

function between(from: string | null, to: string | null): string {
  if (from === null || to === null) return '';
  const ms = Date.parse(to) - Date.parse(from);
  return ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
