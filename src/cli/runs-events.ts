/**
 * `pawl runs events|watch`: what happened to a run, as its log and as it happens. Next: follow.ts, step-line.ts.
 */
import { type Command, Option } from 'commander';
import { isFinal } from '../core/run.js';
import type { EventView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import type { Cli } from './cli.js';
import { exitOfRun, exits, Interrupted } from './exits.js';
import { followRun } from './follow.js';
import { formatTime } from './format.js';
import { type Column, examples, type Format, jsonLine, jsonText, outputOption, printList, table } from './output.js';
import { sayEnd } from './run-command.js';
import { textOf } from './run-page.js';
import { eventText } from './step-line.js';
import { readPosition } from './values.js';
import { clip, oneLine } from './width.js';
import { withRuns } from './world.js';

/** Events are read in pages of this many. */
const eventPage = 1_000;

export function addRunsEvents(runs: Command, cli: Cli): void {
  addEvents(runs, cli);
  addWatch(runs, cli);
}

const afterOption = () => new Option('--after <id>', 'only events after this one').argParser(readPosition);

function addEvents(runs: Command, cli: Cli): void {
  const columns: Column[] = [
    ...[
      { title: '#', align: 'right' as const },
      { title: 'AT' },
      { title: 'EVENT' },
      { title: 'STEP', align: 'right' as const },
    ],
    { title: 'WHAT', stretches: true },
  ];
  runs
    .command('events <id>')
    .description('all that happened to a run, oldest first; with -o jsonl its whole log')
    .addOption(afterOption())
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs events run_0abc', 'pawl runs events run_0abc -o jsonl > run.jsonl'))
    .action(async (id: string, options: { after?: number; output: Format }) => {
      const { terminal } = cli.world;
      const data = await withRuns(cli.world, ({ runs }) => readEvents(cli, runs, id, options));
      if (options.output === 'jsonl') return;
      const row = (event: EventView): string[] => [
        ...[String(event.id), formatTime(event.at), event.type, event.seq === null ? '' : String(event.seq)],
        clip(eventText(event) || oneLine(textOf(event.data.output ?? '')), 120),
      ];
      printList(terminal, options.output, {
        data,
        idOf: (event) => event.id,
        table: (items) => table(terminal, columns, items.map(row)),
        none: 'no event fits',
      });
    });
}

/** All of them, by pages; as lines of JSON they are written page by page, so that a log of any length can be piped. */
async function readEvents(
  cli: Cli,
  runs: Runs,
  id: string,
  options: { after?: number; output: Format },
): Promise<EventView[]> {
  const { terminal } = cli.world;
  const all: EventView[] = [];
  let after = options.after ?? 0;
  for (;;) {
    const page = await runs.events(id, after, eventPage);
    after = page.at(-1)?.id ?? after;
    if (options.output === 'jsonl') {
      for (const event of page) terminal.out(jsonLine(event));
      await terminal.flush();
    } else all.push(...page);
    if (page.length < eventPage || terminal.gone.aborted) return all;
  }
}

const watchHelp = `
Exit status: that of the run, as of pawl run. With -o jsonl it prints each event as it comes.
${examples('pawl runs watch run_0abc')}`;

function addWatch(runs: Command, cli: Cli): void {
  runs
    .command('watch <id>')
    .description('follow a run from its beginning until it ends or waits for somebody')
    .addOption(afterOption())
    .option('--until-final', 'go on while it waits for somebody')
    .addOption(outputOption())
    .addHelpText('after', watchHelp)
    .action(async (id: string, options: { after?: number; untilFinal?: boolean; output: Format }) => {
      cli.exit = await withRuns(cli.world, ({ runs }) => watch(cli, runs, id, options), { handlesInterrupt: true });
    });
}

async function watch(
  cli: Cli,
  runs: Runs,
  id: string,
  { after, untilFinal, output }: { after?: number; untilFinal?: boolean; output: Format },
): Promise<number> {
  const { terminal, interrupt } = cli.world;
  const onEvent = output === 'jsonl' ? (event: EventView) => terminal.out(jsonLine(event)) : undefined;
  const line = output === 'table' ? (text: string) => terminal.out(text) : () => {};
  const run = await followRun(cli.world, runs, { id, line, paint: terminal.paintOut, onEvent, after, untilFinal });
  if (interrupt.aborted && !isFinal(run.status)) {
    terminal.say(`${id} goes on. Stop it with pawl runs cancel ${id}`);
    throw new Interrupted();
  }
  if (terminal.gone.aborted) return exits.ok;
  if (output === 'json') terminal.out(jsonText(run));
  if (output === 'id') terminal.out(run.id);
  sayEnd(cli, run);
  return exitOfRun(run.status);
}
