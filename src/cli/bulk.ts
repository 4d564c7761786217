/**
 * One command on many runs: those named, or those that fit a filter. A filter asks before it acts, unless told `--yes`;
 * where nobody can be asked it refuses. Each run is a case by itself: one that is in no state for the command does not stop
 * the others, a database that is gone does.
 */
import type { Command } from 'commander';
import { describeThrown, errorCodes, PawlError } from '../core/errors.js';
import type { RunStatus } from '../core/run.js';
import type { RunView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import type { Cli } from './cli.js';
import { exitOfError, exits, Interrupted } from './exits.js';
import { countOf } from './format.js';
import { type Format, jsonLine, jsonText, outputOption } from './output.js';
import { addFilters, type FilterOptions, filterOf, listRuns, printRuns } from './runs-list.js';
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
  const chosen =
    ids.length > 0
      ? await Promise.all([...new Set(ids)].map((id) => runs.get(id)))
      : await findRuns(runs, bulk, options);
  if (options.dryRun === true || chosen.length === 0) {
    printRuns(cli, options.output, chosen, { none: `there is no run to ${bulk.name}` });
    if (options.dryRun === true)
      terminal.say(`${countOf(chosen.length, 'run')} would be ${bulk.done}; nothing was changed`);
    return exits.ok;
  }
  if (ids.length === 0 && options.yes !== true && !(await mayGoOn(cli, bulk, chosen))) return exits.ok;
  return actOnAll(cli, runs, bulk, chosen, options.output);
}

async function findRuns(runs: Runs, bulk: Bulk, options: BulkOptions): Promise<RunView[]> {
  const statuses = options.status === undefined ? bulk.statuses : [options.status];
  const limit = options.limit ?? everything;
  const found: RunView[] = [];
  for (const status of statuses) found.push(...(await listRuns(runs, { ...filterOf(options), status }, limit)).data);
  return found.sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, limit);
}

async function mayGoOn(cli: Cli, bulk: Bulk, chosen: readonly RunView[]): Promise<boolean> {
  const agents = [...new Set(chosen.map((run) => run.agent))];
  const whose = agents.length <= 3 ? ` of ${agents.join(', ')}` : ` of ${agents.length} agents`;
  const answer = await cli.world.confirm(`${bulk.name} ${countOf(chosen.length, 'run')}${whose}? [y/N] `);
  if (answer === null) {
    throw new PawlError(
      'usage',
      `${countOf(chosen.length, 'run')} would be ${bulk.done}: add --yes to do it, or --dry-run to see them`,
    );
  }
  if (!answer) cli.world.terminal.say('nothing was changed');
  return answer;
}

async function actOnAll(cli: Cli, runs: Runs, bulk: Bulk, chosen: readonly RunView[], output: Format): Promise<number> {
  const { terminal, interrupt } = cli.world;
  const done: RunView[] = [];
  const failures: unknown[] = [];
  const tally = () =>
    `${countOf(done.length, 'run')} ${bulk.done}${failures.length === 0 ? '' : `, ${failures.length} not`}`;
  terminal.status(() => `${tally()} of ${chosen.length}`);
  for (let at = 0; at < chosen.length; at += atOnce) {
    if (interrupt.aborted || terminal.gone.aborted) break;
    const results = await Promise.allSettled(chosen.slice(at, at + atOnce).map((run) => bulk.act(runs, run.id)));
    for (const result of results) {
      if (result.status === 'fulfilled') {
        done.push(result.value);
        if (output !== 'json') tell(cli, output, bulk, result.value);
      } else {
        failures.push(result.reason);
        terminal.say(harmless(describeThrown(result.reason)));
      }
    }
    if (failures.some(isOutage)) break;
  }
  terminal.status(null);
  if (output === 'json') terminal.out(jsonText({ data: done, page: { next: null } }));
  const untried = chosen.length - done.length - failures.length;
  terminal.say(`${tally()}${untried === 0 ? '' : `, ${untried} not tried`}`);
  if (interrupt.aborted) throw new Interrupted();
  return failures.length === 0 ? exits.ok : exitOfError(failures.find(isOutage) ?? failures[0]);
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
