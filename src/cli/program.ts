/**
 * The command line as a whole: which commands there are, what is said about a wrong one, and how an error becomes one
 * message and an exit status. Nothing heavy is imported here, so that `--help` answers at once. Next: run-command.ts.
 */
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { describeThrown, PawlError } from '../core/errors.js';
import type { Cli } from './cli.js';
import { addDoctor } from './doctor.js';
import { exitOfError, exits, Interrupted } from './exits.js';
import { addAgents, addTools } from './listings.js';
import { addNotBuilt } from './not-built.js';
import { addRun } from './run-command.js';
import { addRunsChange } from './runs-change.js';
import { addRunsEvents } from './runs-events.js';
import { addRunsList } from './runs-list.js';
import { addRunsLook } from './runs-look.js';
import { addServing } from './serve.js';
import type { Terminal } from './terminal.js';
import { harmless } from './width.js';
import type { World } from './world.js';

/** Carries out one command line, without the program's own name. Answers the exit status; never throws. */
export async function runCli(argv: readonly string[], world: World): Promise<number> {
  const cli: Cli = { world, exit: exits.ok };
  try {
    await buildProgram(cli).parseAsync([...argv], { from: 'user' });
    return cli.exit;
  } catch (error) {
    world.terminal.status(null);
    if (error instanceof CommanderError) return exitOfCommander(error);
    if (world.terminal.gone.aborted) return exits.ok;
    await sayError(world, error);
    return exitOfError(error);
  }
}

function buildProgram(cli: Cli): Command {
  const { terminal } = cli.world;
  const program = new Command('pawl')
    .description('Runs LLM agents durably: each model call and each tool call is recorded before the next begins.')
    .version(version(), '-V, --version')
    .helpOption('-h, --help', 'how to use it')
    .helpCommand('help [command]', 'how to use a command')
    .configureHelp({ helpWidth: terminal.isTerminal ? Math.min(terminal.columns, 120) : 120 })
    .configureOutput({
      writeOut: (text) => terminal.out(text.replace(/\n$/, '')),
      writeErr: (text) => terminal.say(text.replace(/\n$/, '')),
      outputError: (text, write) => write(usageMessage(terminal, text)),
    })
    .showHelpAfterError('(add --help to see how it is used)')
    .addHelpText('after', helpText)
    .exitOverride();
  addServing(program, cli);
  addRun(program, cli);
  const runs = program.command('runs').description('look at runs, and command them');
  addRunsList(runs, cli);
  addRunsLook(runs, cli);
  addRunsEvents(runs, cli);
  addRunsChange(runs, cli);
  addAgents(program, cli);
  addTools(program, cli);
  addDoctor(program, cli);
  addNotBuilt(program, { runs });
  return program;
}

const helpText = `
Exit status: 0 ok, 1 error, 2 usage, 3 run failed, 4 run cancelled, 5 run suspended, 6 not found, 7 conflict,
8 a service is unreachable, 130 interrupted (the run goes on).

Examples:
  $ pawl dev                                  # database and worker, from the agents in pawl.config.ts
  $ pawl run analyst "Sum last week's sales"  # start a run and follow it
  $ pawl runs list --status failed -o json`;

function version(): string {
  const packageFile = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(packageFile) as { version: string }).version;
}

/** Commander's own words, with a hint where they leave people alone. */
function usageMessage(terminal: Terminal, text: string): string {
  const message = harmless(text).replace(/^error: /, '');
  const hint = /^too many arguments for 'run'/.test(message) ? 'put the input in quotes: it is one argument\n' : '';
  return `${terminal.paintErr('red', 'error:')} ${message}${hint}`;
}

/** Help that was asked for is a success; help that stands in for a missing command is a usage error like the others. */
function exitOfCommander(error: CommanderError): number {
  return error.exitCode === 0 ? exits.ok : exits.usage;
}

async function sayError(world: World, error: unknown): Promise<void> {
  const { terminal } = world;
  if (!(error instanceof Interrupted)) {
    terminal.say(`${terminal.paintErr('red', 'error:')} ${harmless(describeThrown(error))}${hintFor(error)}`);
  }
  if (error instanceof Error && (await world.services.showsStacks())) terminal.say(stackOf(error));
}

function hintFor(error: unknown): string {
  if (error instanceof PawlError && error.code !== 'internal') return '';
  return '\nThis is a bug in Pawl, or in something it stands on; PAWL_LOG_LEVEL=debug shows where it happened.';
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}
