/**
 * A run as one page for people: what it is, where it stands, what it waits for and what to do about it, what it spent, its
 * steps in short, and its output.
 */
import { updatePlanName } from '../core/plan.js';
import { planName } from '../core/step.js';
import type { EventView, RunView, StepView } from '../core/view.js';
import { commandsAfter, explainWait, wordsOfReason } from './explain.js';
import {
  countOf,
  formatAge,
  formatCached,
  formatCost,
  formatMs,
  formatSpan,
  formatTime,
  formatTokens,
} from './format.js';
import { jsonText } from './output.js';
import { rulingLines, stepLine } from './step-line.js';
import type { Colour, Terminal } from './terminal.js';
import { harmless, oneLine, padEnd } from './width.js';

/** Steps shown in full; of longer runs the first and the last. */
const shownSteps = 20;
const shownInputChars = 600;

export function runPage(
  terminal: Terminal,
  run: RunView,
  { steps, events }: { steps: readonly StepView[]; events: readonly EventView[] },
  now: Date,
): string {
  const { paintOut: paint } = terminal;
  const wait =
    run.status === 'suspended' && run.waitingFor !== null
      ? explainWait(run, run.waitingFor, stepOf(steps, run.waitingFor.step))
      : null;
  const facts: [string, string][] = [
    ['run', paint('bold', run.id)],
    ['agent', run.agentVersion === null ? run.agent : `${run.agent} ${paint('dim', `version ${run.agentVersion}`)}`],
    [
      'status',
      paint(statusColour(run), run.status) +
        (run.reason === null ? '' : ` (${run.reason}): ${wordsOfReason(run.reason)}`),
    ],
  ];
  if (wait !== null) facts.push(['waits', oneLine(wait.what)]);
  if (run.error !== null) facts.push(['error', paint('red', `${run.error.code}: ${oneLine(run.error.message)}`)]);
  facts.push(['made', `${formatTime(run.createdAt)} (${formatAge(run.createdAt, now)} ago)`]);
  if (run.startedAt !== null)
    facts.push(['took', formatSpan(run.startedAt, run.finishedAt, now) + (run.finishedAt === null ? ' so far' : '')]);
  facts.push(['used', usageText(run)], ['limits', limitsText(run)]);
  for (const [name, value] of [
    ['key', run.key],
    ['tenant', run.tenant],
    ['thread', run.threadId],
    ['tags', tagsText(run.tags)],
  ] as const) {
    if (value !== null && value !== '') facts.push([name, oneLine(value)]);
  }
  const sections = [facts.map(([name, value]) => `${paint('dim', padEnd(name, 7))} ${value}`).join('\n')];
  const commands = wait?.commands ?? commandsAfter(run);
  if (commands.length > 0) sections.push(titled(terminal, 'what you can do', commands.join('\n')));
  sections.push(titled(terminal, 'input', cutText(textOf(run.input))));
  const plan = planIn(steps);
  if (plan !== null) sections.push(titled(terminal, 'plan', harmless(plan)));
  if (steps.length > 0) sections.push(titled(terminal, 'steps', stepsText(terminal, run, steps, now)));
  const rulings = rulingLines(events).slice(-shownSteps);
  if (rulings.length > 0) sections.push(titled(terminal, 'what happened on the way', rulings.join('\n')));
  if (run.output !== null) sections.push(titled(terminal, 'output', harmless(outputText(run.output))));
  return sections.join('\n\n');
}

function titled(terminal: Terminal, title: string, text: string): string {
  return `${terminal.paintOut('bold', title)}\n${text.replace(/^(?=.)/gm, '  ')}`;
}

/** The plan that the run goes by: the one its first step made, or the newest that took its place. */
function planIn(steps: readonly StepView[]): string | null {
  const { output, input } =
    steps.findLast(({ status, error, kind, name }) => {
      return status === 'completed' && error === null && name === (kind === 'llm' ? planName : updatePlanName);
    }) ?? {};
  const said = output === undefined ? null : ((input as { plan?: unknown } | null)?.plan ?? output);
  return typeof said === 'string' ? said : null;
}

function stepOf(steps: readonly StepView[], seq: number): StepView | undefined {
  return steps.find((step) => step.seq === seq);
}

function stepsText(terminal: Terminal, run: RunView, steps: readonly StepView[], now: Date): string {
  const line = (step: StepView) =>
    stepLine(step, terminal.paintOut, { now }) + (step.status === 'completed' ? '' : `  ${stateOf(step)}`);
  if (steps.length <= shownSteps) return steps.map(line).join('\n');
  const head = steps.slice(0, 5).map(line);
  const tail = steps.slice(5 - shownSteps).map(line);
  return [...head, `  … ${countOf(steps.length - shownSteps, 'more step')}: pawl runs steps ${run.id}`, ...tail].join(
    '\n',
  );
}

function stateOf(step: StepView): string {
  return step.waitingFor === null ? step.status : `waits: ${step.waitingFor}`;
}

export function statusColour(run: Pick<RunView, 'status'>): Colour {
  switch (run.status) {
    case 'completed':
      return 'green';
    case 'failed':
      return 'red';
    case 'suspended':
      return 'yellow';
    case 'cancelled':
      return 'dim';
    case 'pending':
    case 'running':
      return 'cyan';
  }
}

/** What a run spent, on one line. */
export function totals(run: RunView, now: Date): string {
  const took = run.startedAt === null ? '' : formatSpan(run.startedAt, run.finishedAt, now);
  return [took, usageText(run)].filter((part) => part !== '').join(' · ');
}

function usageText(run: RunView): string {
  const { usage } = run;
  const cached = formatCached(usage);
  const tokens = formatTokens(usage);
  const parts = [
    countOf(run.steps, 'step'),
    countOf(run.turns, 'turn'),
    tokens === '' ? '' : `tokens ${tokens}${cached === '' ? '' : ` (${cached})`}`,
    formatCost(usage),
  ];
  return parts.filter((part) => part !== '').join(' · ') + (usage.estimated ? ' (partly an estimate)' : '');
}

function limitsText({ limits, usage }: RunView): string {
  // A cost that is unknown once something was used has no price.
  const unkept =
    usage.costUsd === null && usage.inputTokens > 0 ? ' (not kept: the price of the model is not known)' : '';
  const budgets = [
    limits.maxTokens === null ? '' : `${countOf(limits.maxTokens, 'token')} · `,
    limits.maxCostUsd === null ? '' : `$${limits.maxCostUsd}${unkept} · `,
  ];
  const deadline = limits.deadlineMs === null ? 'no deadline' : `deadline ${formatMs(limits.deadlineMs)}`;
  return `${countOf(limits.maxSteps, 'step')} · ${countOf(limits.maxTurns, 'turn')} · ${budgets.join('')}${deadline} · then ${limits.onLimit}`;
}

function tagsText(tags: Record<string, string>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** A value as people read it: text as it is, anything else as JSON. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function outputText(value: unknown): string {
  return typeof value === 'string' ? value : jsonText(value);
}

function cutText(text: string): string {
  const shown = harmless(text.slice(0, shownInputChars)).trimEnd();
  return text.length > shownInputChars ? `${shown} … (${countOf(text.length, 'character')})` : shown;
}
