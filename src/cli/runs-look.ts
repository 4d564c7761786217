/**
 * `pawl runs show|steps|messages`: everything that looks at one run. Next: run-page.ts, runs-events.ts.
 */
import type { Command } from 'commander';
import type { StepView } from '../core/view.js';
import type { Cli } from './cli.js';
import { formatCached, formatCost, formatSpan, formatTokens } from './format.js';
import { messagesText } from './messages-text.js';
import { type Column, examples, type Format, outputOption, printList, printOne, table } from './output.js';
import { runPage, textOf } from './run-page.js';
import { clip, oneLine } from './width.js';
import { withRuns } from './world.js';

export function addRunsLook(runs: Command, cli: Cli): void {
  addShow(runs, cli);
  addSteps(runs, cli);
  addMessages(runs, cli);
}

function addShow(runs: Command, cli: Cli): void {
  runs
    .command('show <id>')
    .description('one run: where it stands, why, and what to do about it')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs show run_0abc', 'pawl runs show run_0abc -o json'))
    .action(async (id: string, { output }: { output: Format }) => {
      const { terminal, now } = cli.world;
      const [run, more] = await withRuns(cli.world, async ({ runs }) => {
        const run = await runs.get(id);
        if (output !== 'table') return [run, { steps: [], events: [] }] as const;
        const [steps, events] = await Promise.all([runs.steps(id), runs.events(id)]);
        return [run, { steps, events }] as const;
      });
      printOne(terminal, output, run, run.id, () => runPage(terminal, run, more, now()));
    });
}

function addSteps(runs: Command, cli: Cli): void {
  const columns: Column[] = [
    ...[
      { title: '#', align: 'right' as const },
      { title: 'KIND' },
      { title: 'NAME' },
      { title: 'STATUS' },
      { title: 'TRIES', align: 'right' as const },
    ],
    ...[
      { title: 'TOOK', align: 'right' as const },
      { title: 'TOKENS', align: 'right' as const },
      { title: 'CACHED', align: 'right' as const },
      { title: 'COST', align: 'right' as const },
    ],
    { title: 'OUTPUT', stretches: true },
  ];
  runs
    .command('steps <id>')
    .description('the steps of a run')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs steps run_0abc'))
    .action(async (id: string, { output }: { output: Format }) => {
      const { terminal, now } = cli.world;
      const data = await withRuns(cli.world, ({ runs }) => runs.steps(id));
      const row = (step: StepView): string[] => [
        ...[String(step.seq), step.kind, clip(oneLine(step.name), 32), stepStatus(step), String(step.attempt)],
        ...[formatSpan(step.startedAt, step.finishedAt, now()), formatTokens(step.usage)],
        ...[formatCached(step.usage).replace(' cached', ''), formatCost(step.usage)],
        clip(
          oneLine(step.error === null ? textOf(step.output ?? '') : `${step.error.code}: ${step.error.message}`),
          100,
        ),
      ];
      printList(terminal, output, {
        data,
        idOf: (step) => step.seq,
        table: (items) => table(terminal, columns, items.map(row)),
        none: 'the run has no steps',
      });
    });
}

function stepStatus(step: StepView): string {
  return step.waitingFor === null ? step.status : `${step.status} (${step.waitingFor})`;
}

function addMessages(runs: Command, cli: Cli): void {
  runs
    .command('messages <id>')
    .description('what the model and the agent said to one another')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs messages run_0abc'))
    .action(async (id: string, { output }: { output: Format }) => {
      const { terminal } = cli.world;
      const data = await withRuns(cli.world, ({ runs }) => runs.messages(id));
      printList(terminal, output, {
        data,
        idOf: (message) => `${message.seq}.${message.pos}`,
        table: (items) => messagesText(terminal, items),
        none: 'the run has no messages',
      });
    });
}
