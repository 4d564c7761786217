/**
 * `pawl runs list`, and what other commands share with it: the filters, reading by pages, and the table of runs.
 */
import type { Command } from 'commander';
import type { RunFilter, RunPage, RunView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import type { Cli } from './cli.js';
import { formatAge, formatCost } from './format.js';
import { type Column, examples, type Format, outputOption, printList, table } from './output.js';
import { statusColour, textOf } from './run-page.js';
import { countOption, reasonOption, sinceOption, statusOption, tagOption } from './values.js';
import { clip, oneLine } from './width.js';
import { withRuns } from './world.js';

export interface FilterOptions {
  agent?: string;
  status?: RunView['status'];
  reason?: NonNullable<RunView['reason']>;
  tag?: Record<string, string>;
  since?: Date;
  limit?: number;
}

/** The filter that options stand for, without what was left out. */
export function filterOf({ agent, status, reason, tag, since }: FilterOptions): Partial<RunFilter> {
  const filter = { agent, status, reason, tag, since };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** Runs are read in pages of at most this many. */
const pageLimit = 500;

export function addFilters(command: Command): Command {
  return command
    .option('--agent <name>', 'only runs of this agent')
    .addOption(statusOption())
    .addOption(reasonOption())
    .addOption(tagOption('only runs with this tag; may be given several times'))
    .addOption(sinceOption());
}

export function addRunsList(runs: Command, cli: Cli): void {
  const command = addFilters(runs.command('list').description('runs, the newest first'));
  command
    .addOption(countOption('--limit', 'at most so many').default(50))
    .option('--cursor <cursor>', 'go on where an earlier list ended')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs list --status failed --since 1d', 'pawl runs list --agent analyst -o id'))
    .action(async (options: FilterOptions & { limit: number; cursor?: string; output: Format }) => {
      const { terminal } = cli.world;
      const page = await withRuns(cli.world, ({ runs }) =>
        listRuns(runs, filterOf(options), options.limit, options.cursor),
      );
      const none =
        Object.keys(filterOf(options)).length === 0 ? 'there are no runs yet; start one with pawl run' : 'no run fits';
      printRuns(cli, options.output, page.data, { next: page.page.next, none });
      if (page.page.next !== null && options.output === 'table') {
        terminal.say(terminal.paintErr('dim', `there are more: add --cursor ${page.page.next}, or a greater --limit`));
      }
    });
}

/** As many runs as wanted, by as many pages as that takes. */
export async function listRuns(
  runs: Runs,
  filter: Partial<RunFilter>,
  limit: number,
  cursor?: string,
): Promise<RunPage> {
  const data: RunView[] = [];
  let next: string | null = null;
  for await (const page of runPages(runs, filter, { limit, cursor: cursor ?? null })) {
    data.push(...page.data);
    next = page.page.next;
  }
  return { data, page: { next } };
}

/** The same a page at a time, each read when it is asked for, so that no more than one need be held. */
export async function* runPages(
  runs: Runs,
  filter: Partial<RunFilter>,
  { limit, cursor = null, pageOf = pageLimit }: { limit: number; cursor?: string | null; pageOf?: number },
): AsyncGenerator<RunPage> {
  let next = cursor;
  let left = limit;
  do {
    const from: Partial<RunFilter> = next === null ? {} : { cursor: next };
    const page: RunPage = await runs.list({ ...filter, ...from, limit: Math.min(pageOf, left) });
    yield page;
    left -= page.data.length;
    next = page.page.next;
  } while (next !== null && left > 0);
}

export function printRuns(
  cli: Cli,
  format: Format,
  data: readonly RunView[],
  more: { next?: string | null; none: string },
): void {
  const { terminal, now } = cli.world;
  const columns: Column[] = [
    ...[{ title: 'ID' }, { title: 'AGENT' }, { title: 'STATUS' }, { title: 'STEPS', align: 'right' as const }],
    ...[
      { title: 'COST', align: 'right' as const },
      { title: 'AGE', align: 'right' as const },
      { title: 'INPUT', stretches: true },
    ],
  ];
  const row = (run: RunView): string[] => [
    run.id,
    clip(run.agent, 24),
    terminal.paintOut(statusColour(run), statusText(run)),
    String(run.steps),
    formatCost(run.usage),
    formatAge(run.createdAt, now()),
    clip(oneLine(textOf(run.input)), 80),
  ];
  printList(terminal, format, {
    data,
    next: more.next ?? null,
    idOf: (run) => run.id,
    table: (items) => table(terminal, columns, items.map(row)),
    none: more.none,
  });
}

function statusText(run: RunView): string {
  if (run.status === 'suspended' && run.waitingFor !== null) return `suspended (${run.waitingFor.kind})`;
  return run.reason === null || run.status === 'cancelled' ? run.status : `${run.status} (${run.reason})`;
}
