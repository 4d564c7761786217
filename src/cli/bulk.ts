/**
 * One command on many runs: those named, or those that fit a filter. A filter asks before it acts, unless told `--yes`;
 * where nobody can be asked it refuses. Each run is a case by itself: one that is in no state for the command does not stop
 * the others, a database that is gone does. What a filter finds is read and acted on a page at a time, so any number of runs
 * takes the same memory; a command that was cut short is given again, and its filter finds what is left.
 */
import type { Command } from 'commander';
import { describeThrown, errorCodes, PawlError } from '../core/errors.js';
import type { RunStatus } from '../core/run.js';
import type { RunView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import type { Cli } from './cli.js';
import { exitOfError, exits, Interrupted } from './exits.js';
import { countOf } from './format.js';
import { type Format, jsonLine, jsonText, openJsonList, outputOption } from './output.js';
import { addFilters, type FilterOptions, filterOf, printRuns, runPages } from './runs-list.js';
import { countOption } from './values.js';
import { harmless } from './width.js';
import { withRuns } from './world.js';

export interface Bulk {
  name: 'cancel' | 'redrive';
  /** `cancelled`, for what is told of each run. */
  done: string;
  description: string;
  help: string;
  /** The statuses a filter finds when it names none, and the only ones it may name. */
  statuses: readonly RunStatus[];
  act: (runs: Runs, id: string) => Promise<RunView>;
}

interface BulkOptions extends FilterOptions {
  dryRun?: boolean;
  yes?: boolean;
  output: Format;
}

/** Runs commanded at the same time. */
const atOnce = 8;
const everything = 1_000_000;
/** Runs read at once: each may bring a long input. */
const pageOf = 104;

type Pages = AsyncIterable<readonly RunView[]> | Iterable<readonly RunView[]>;

/** The runs to act on, newest first. */
interface Chosen {
  pages: Pages;
  /** Null: not counted. */
  count: number | null;
}

export function addBulk(parent: Command, cli: Cli, bulk: Bulk): void {
  addFilters(parent.command(`${bulk.name} [ids...]`).description(bulk.description))
    .addOption(countOption('--limit', 'at most so many, the newest first'))
    .option('--dry-run', 'show the runs and change nothing')
    .option('-y, --yes', 'do not ask')
    .addOption(outputOption())
    .addHelpText('after', bulk.help)
    .action(async (ids: string[], options: BulkOptions) => {
      checkChoice(bulk, ids, options);
      cli.exit = await withRuns(cli.world, ({ runs }) => runBulk(cli, runs, bulk, ids, options), {
        handlesInterrupt: true,
      });
    });
}

function checkChoice(bulk: Bulk, ids: readonly string[], options: BulkOptions): void {
  const hasFilter = Object.keys(filterOf(options)).length > 0;
  if (ids.length > 0 && (hasFilter || options.limit !== undefined)) {
    throw new PawlError('usage', 'name runs by id or by a filter, not by both');
  }
  if (ids.length === 0 && !hasFilter) {
    throw new PawlError(
      'usage',
      `which runs? pawl runs ${bulk.name} takes ids, or a filter such as --agent NAME or --since 2h`,
    );
  }
  if (options.status !== undefined && !bulk.statuses.includes(options.status)) {
    throw new PawlError(
      'usage',
      `--status ${options.status} leaves nothing to ${bulk.name}: it acts on runs that are ${bulk.statuses.join(', ')}`,
    );
  }
}

async function runBulk(cli: Cli, runs: Runs, bulk: Bulk, ids: string[], options: BulkOptions): Promise<number> {
  const { terminal } = cli.world;
  const single = ids[0];
  if (options.dryRun !== true && ids.length === 1 && single !== undefined) {
    const run = await bulk.act(runs, single);
    if (options.output === 'json') terminal.out(jsonText(run));
    else tell(cli, options.output, bulk, run);
    return exits.ok;
  }
  if (options.dryRun === true) return show(cli, runs, bulk, ids, options);
  const chosen = ids.length > 0 ? await named(runs, ids) : await confirmed(cli, runs, bulk, options);
  return chosen === null ? exits.ok : actOnAll(cli, runs, bulk, chosen, options.output);
}

async function show(cli: Cli, runs: Runs, bulk: Bulk, ids: string[], options: BulkOptions): Promise<number> {
  const { pages } = ids.length > 0 ? await named(runs, ids) : { pages: find(runs, bulk, options) };
  const found: RunView[] = [];
  for await (const page of pages) found.push(...page);
  printRuns(cli, options.output, found, { none: noneFor(bulk) });
  cli.world.terminal.say(`${countOf(found.length, 'run')} would be ${bulk.done}; nothing was changed`);
  return exits.ok;
}

async function named(runs: Runs, ids: readonly string[]): Promise<Chosen> {
  const found = await Promise.all([...new Set(ids)].map((id) => runs.get(id)));
  return { pages: [found], count: found.length };
}

/** What redriven fails again lies behind the cursor by then: no run is met twice. */
async function* find(runs: Runs, bulk: Bulk, options: BulkOptions): AsyncGenerator<readonly RunView[]> {
  const filter = { ...filterOf(options), status: options.status ?? bulk.statuses };
  for await (const page of runPages(runs, filter, { limit: options.limit ?? everything, pageOf })) yield page.data;
}

/** The runs of the filter once a person, or `--yes`, agrees to them; null when not. */
async function confirmed(cli: Cli, runs: Runs, bulk: Bulk, options: BulkOptions): Promise<Chosen | null> {
  if (options.yes === true) return { pages: find(runs, bulk, options), count: null };
  const { interrupt } = cli.world;
  const agents = new Set<string>();
  let count = 0;
  let newest = '';
  for await (const page of find(runs, bulk, options)) {
    if (interrupt.aborted) throw new Interrupted();
    for (const run of page) agents.add(run.agent);
    newest ||= page[0]?.createdAt ?? '';
    count += page.length;
  }
  if (count > 0 && !(await mayGoOn(cli, bulk, count, [...agents]))) return null;
  return { pages: noNewer(find(runs, bulk, options), newest), count };
}

/** Without the runs that came while somebody was asked about the others. */
async function* noNewer(pages: Pages, newest: string) {
  for await (const page of pages) yield page.filter((run) => run.createdAt <= newest);
}

async function mayGoOn(cli: Cli, bulk: Bulk, count: number, agents: readonly string[]): Promise<boolean> {
  const whose = agents.length <= 3 ? ` of ${agents.join(', ')}` : ` of ${agents.length} agents`;
  const answer = await cli.world.confirm(`${bulk.name} ${countOf(count, 'run')}${whose}? [y/N] `);
  if (answer === null) {
    throw new PawlError(
      'usage',
      `${countOf(count, 'run')} would be ${bulk.done}: add --yes to do it, or --dry-run to see them`,
    );
  }
  if (!answer) cli.world.terminal.say('nothing was changed');
  return answer;
}

async function actOnAll(cli: Cli, runs: Runs, bulk: Bulk, chosen: Chosen, output: Format): Promise<number> {
  const { terminal, interrupt } = cli.world;
  const tally = new Tally(bulk, chosen.count);
  const list = output === 'json' ? openJsonList(terminal) : null;
  terminal.status(() => tally.progress());
  try {
    for await (const batch of batchesOf(chosen.pages)) {
      if (interrupt.aborted || terminal.gone.aborted || tally.outage !== null) {
        tally.stopped = true;
        break;
      }
      const results = await Promise.allSettled(batch.map((run) => bulk.act(runs, run.id)));
      for (const result of results) {
        tally.count(result);
        if (result.status === 'rejected') terminal.say(harmless(describeThrown(result.reason)));
        else if (list === null) tell(cli, output, bulk, result.value);
        else list.add(result.value);
      }
    }
  } catch (error) {
    tally.outage = error;
    tally.stopped = true;
    terminal.say(harmless(describeThrown(error)));
  }
  terminal.status(null);
  list?.end();
  terminal.say(tally.tried === 0 && !tally.stopped && list === null ? noneFor(bulk) : tally.summary());
  if (interrupt.aborted) throw new Interrupted();
  const failure = tally.outage ?? tally.firstFailure;
  return failure === null ? exits.ok : exitOfError(failure);
}

async function* batchesOf(pages: Pages): AsyncGenerator<readonly RunView[]> {
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += atOnce) yield page.slice(at, at + atOnce);
  }
}

/** What became of the runs so far. */
class Tally {
  tried = 0;
  private done = 0;
  firstFailure: unknown = null;
  /** What ended the command: the others would fail, too. */
  outage: unknown = null;
  /** Whether runs were left untried. */
  stopped = false;

  constructor(
    private readonly bulk: Bulk,
    private readonly of: number | null,
  ) {}

  count(result: PromiseSettledResult<RunView>): void {
    this.tried += 1;
    if (result.status === 'fulfilled') {
      this.done += 1;
      return;
    }
    this.firstFailure ??= result.reason;
    if (isOutage(result.reason)) this.outage ??= result.reason;
  }

  progress(): string {
    return this.of === null ? this.line() : `${this.line()} of ${this.of}`;
  }

  summary(): string {
    if (!this.stopped) return this.line();
    const rest = this.of === null ? 'the rest' : String(this.of - this.tried);
    return `${this.line()}, ${rest} not tried; the same command goes on with what is left`;
  }

  private line(): string {
    const failed = this.tried - this.done;
    return `${countOf(this.done, 'run')} ${this.bulk.done}${failed === 0 ? '' : `, ${failed} not`}`;
  }
}

function noneFor(bulk: Bulk): string {
  return `there is no run to ${bulk.name}`;
}

function isOutage(error: unknown): boolean {
  return !(error instanceof PawlError) || errorCodes[error.code].exit === 8;
}

function tell(cli: Cli, output: Format, bulk: Bulk, run: RunView): void {
  const { terminal } = cli.world;
  if (output === 'jsonl') terminal.out(jsonLine(run));
  else if (output === 'id') terminal.out(run.id);
  else terminal.out(`${run.id}  ${bulk.done}${run.status === bulk.done ? '' : `, now ${run.status}`}`);
}
