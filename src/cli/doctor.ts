/** `pawl doctor`: each thing that Pawl stands on, a line: ok, or what to do about it. Exit status 1 where one is bad. */
import type { Command } from 'commander';
import type { Check } from '../core/checkup.js';
import type { Cli } from './cli.js';
import { exits } from './exits.js';
import { countOf } from './format.js';
import { examples, type Format, outputOption, printList } from './output.js';
import type { Terminal } from './terminal.js';
import { harmless } from './width.js';
import { terminalLog } from './world.js';

const helpText = `
Looks at Node, disk, config, database, queue, workers and what is due, and changes nothing. Each line is ok (✓), to be looked
at (!) or bad (✗) with what to do about it. --llm makes two tiny calls to each model of the config.
Exit status: 0 nothing is bad, 1 something is.
${examples('pawl doctor', 'pawl doctor --llm', 'pawl doctor -o json')}`;

export function addDoctor(program: Command, cli: Cli): void {
  program
    .command('doctor')
    .description('look at everything Pawl stands on, and say what to do about what is wrong')
    .option('--llm', 'call the models, too: address, key, model, tools, JSON output, usage')
    .addOption(outputOption())
    .addHelpText('after', helpText)
    .action(async ({ llm = false, output }: { llm?: boolean; output: Format }) => {
      const { terminal, services } = cli.world;
      const checks = await services.examine({ llm }, terminalLog(terminal));
      terminal.status(null);
      printList(terminal, output, {
        data: checks,
        idOf: ({ name }) => name,
        table: (lines) => lines.map((check) => lineOf(check, terminal)).join('\n'),
        none: 'nothing was looked at',
      });
      const wrong = checks.filter(({ state }) => state === 'bad').length;
      if (output === 'table') terminal.say(wrong === 0 ? 'nothing is wrong' : `${countOf(wrong, 'thing')} to mend`);
      cli.exit = wrong === 0 ? exits.ok : exits.error;
    });
}

const marks = { ok: ['green', '✓'], note: ['yellow', '!'], bad: ['red', '✗'] } as const;

function lineOf({ name, state, says, fix }: Check, { paintOut }: Terminal): string {
  const [colour, mark] = marks[state];
  const todo = fix === null ? '' : `\n${' '.repeat(16)}→ ${fix}`;
  return `${paintOut(colour, mark)} ${harmless(`${name.padEnd(13)} ${says}${todo}`)}`;
}
