/**
 * `pawl run`: accepts a run and follows it to its end. The run's output is the result, on stdout; everything else is a
 * message. Once accepted, the run no longer depends on this command: interrupted, it says how to follow it again.
 */
import { type Command, Option } from 'commander';
import { PawlError } from '../core/errors.js';
import type { RunView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import { readStart, type StartRun } from '../engine/start-run.js';
import type { Cli } from './cli.js';
import { exitOfRun, exits, Interrupted } from './exits.js';
import { commandsAfter, explainWait, wordsOfReason } from './explain.js';
import { followRun } from './follow.js';
import { formatTime } from './format.js';
import { refusedOption, refuseNotBuilt } from './not-built.js';
import { type Format, jsonLine, jsonText, outputOption } from './output.js';
import { readRunInput } from './run-input.js';
import { isLines } from './run-lines.js';
import { runMany } from './run-many.js';
import { outputText, totals } from './run-page.js';
import { suggestAgent } from './suggest-agent.js';
import { costOption, countOption, readDuration, readPositiveDuration, tagOption, tokensOption } from './values.js';
import { harmless } from './width.js';
import { withRuns } from './world.js';

interface RunOptions {
  key?: string;
  tag?: Record<string, string>;
  tenant?: string;
  thread?: string;
  delay?: number;
  deadline?: number;
  maxSteps?: number;
  maxTurns?: number;
  maxTokens?: number;
  maxCostUsd?: number;
  model?: string;
  inputFile?: string;
  json?: boolean;
  detach?: boolean;
  quiet?: boolean;
  output: Format;
}

const notBuilt = ['lane', 'priority'] as const;

export function addRun(program: Command, cli: Cli): void {
  const command = program
    .command('run <agent> [input]')
    .description('start a run of an agent and follow it to its end')
    .option('--key <key>', 'start at most one run of the agent with this key; the same input finds that run again')
    .addOption(tagOption('label the run; may be given several times'))
    .option('--tenant <name>', 'whose run it is')
    .option('--thread <name>', 'go on with this thread: the run is shown what was said in it, and waits for its turn')
    .addOption(new Option('--delay <time>', 'do not start before: 90s, 5m').argParser(readDuration))
    .addOption(
      new Option('--deadline <time>', 'how long the run may take, waiting included: 6h').argParser(
        readPositiveDuration,
      ),
    )
    .addOption(countOption('--max-steps', 'model and tool calls the run may make'))
    .addOption(countOption('--max-turns', 'model calls that may ask for tools'))
    .addOption(tokensOption('tokens its model calls may take'))
    .addOption(costOption('what its model calls may cost, where the price of the model is known'))
    .option('--model <name>', "use this model instead of the agent's own")
    .option('--input-file <file>', 'read the input from a file; *.json is read as JSON, *.jsonl as a run a line')
    .option('--json', 'the input is JSON, not text')
    .option('-d, --detach', 'print the id and return, do not follow')
    .option('-q, --quiet', 'no line for each step')
    .addOption(outputOption())
    .addHelpText('after', helpText);
  for (const flag of notBuilt) command.addOption(refusedOption(flag));
  command.action(async (agent: string, input: string | undefined, options: RunOptions) => {
    refuseNotBuilt(options, notBuilt);
    if (options.inputFile !== undefined && isLines(options.inputFile)) {
      cli.exit = await runLines(cli, { agent, input, inputFile: options.inputFile }, options);
      return;
    }
    const given = await readRunInput({ input, inputFile: options.inputFile, json: options.json }, () =>
      cli.world.readStdin(),
    );
    const start = startOf(agent, given, options);
    readStart(start); // refused before anything is opened
    cli.exit = await withRuns(cli.world, (opened) => startAndFollow(cli, opened.runs, start, options), {
      handlesInterrupt: true,
    });
  });
}

/** A file with a run a line. */
async function runLines(
  cli: Cli,
  { agent, input, inputFile }: { agent: string; input: string | undefined; inputFile: string },
  options: RunOptions,
): Promise<number> {
  if (input !== undefined) throw new PawlError('usage', `the input is given twice: leave it out, or ${inputFile}`);
  if (options.detach !== true) {
    throw new PawlError('usage', `${inputFile} holds a run a line, and many runs are not followed: add --detach`);
  }
  return runMany(cli, startOf(agent, null, options), { inputFile, output: options.output });
}

const helpText = `
INPUT is the task as text; - reads it from stdin. The output of the run goes to stdout, the rest to stderr.
Exit status: 0 completed, 3 failed, 4 cancelled, 5 waits for somebody, 130 interrupted (the run goes on).

A *.jsonl file holds a run a line, and needs --detach. A line is JSON: an object with the field input describes a run, with
the fields key, tenant, threadId, tags, model, delayMs and limits beside it; anything else is the input itself. All lines are checked
before anything is stored. A line without a key gets <file name>:<line>, or with --key K the key K:<line>, so the same command
goes on where it was interrupted, and starts nothing twice. Exit status 7: the key of a line belongs to another input.

Examples:
  $ pawl run analyst "Sum the sales of the last 7 days and mail the report"
  $ pawl run analyst --input-file task.json --deadline 2h -o json
  $ pawl run tagger --input-file documents.jsonl --detach
  $ pawl run analyst "…" --detach --key "$(date +%F)"     # daily (in a crontab: \\%F): one run a day, however often it is called`;

function startOf(agent: string, input: unknown, options: RunOptions): StartRun {
  const { key, tenant, thread: threadId, tag: tags, model, delay: delayMs } = options;
  const { maxSteps, maxTurns, maxTokens, maxCostUsd, deadline: deadlineMs } = options;
  const limits = Object.fromEntries(
    Object.entries({ maxSteps, maxTurns, maxTokens, maxCostUsd, deadlineMs }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  return { agent, input, key, tenant, threadId, tags, model, delayMs, limits };
}

async function startAndFollow(cli: Cli, runs: Runs, start: StartRun, options: RunOptions): Promise<number> {
  const { world } = cli;
  const { terminal } = world;
  const { id, created } = await suggestAgent(runs, start.agent, () => runs.start(start));
  const { output } = options;
  if (!created) terminal.say(`${id} has this key and input already; no other run was started`);
  if (options.detach === true) {
    if (output === 'json' || output === 'jsonl') printRun(cli, output, await runs.get(id));
    else terminal.out(id);
    return exits.ok;
  }
  if (output === 'id') terminal.out(id);
  else if (created) terminal.say(terminal.paintErr('dim', `${id}  follow it elsewhere with pawl runs watch ${id}`));
  const dueAt = created ? new Date(world.now().getTime() + (start.delayMs ?? 0)) : undefined;
  if (created && dueAt !== undefined && (start.delayMs ?? 0) > 0)
    terminal.say(`it starts at ${formatTime(dueAt.toISOString())}`);
  const line = options.quiet === true ? () => {} : (text: string) => terminal.say(text);
  let run: RunView;
  try {
    run = await followRun(world, runs, { id, line, paint: terminal.paintErr, dueAt });
  } catch (error) {
    terminal.say(`${id} goes on; follow it again with pawl runs watch ${id}`);
    throw error;
  }
  if (world.interrupt.aborted) {
    terminal.say(`${id} goes on. Follow it with pawl runs watch ${id}, or stop it with pawl runs cancel ${id}`);
    throw new Interrupted();
  }
  if (terminal.gone.aborted) return exits.ok;
  if (output === 'json' || output === 'jsonl') printRun(cli, output, run);
  else if (output === 'table' && run.output !== null) terminal.outForeign(outputText(run.output));
  sayEnd(cli, run);
  return exitOfRun(run.status);
}

function printRun(cli: Cli, format: 'json' | 'jsonl', run: RunView): void {
  cli.world.terminal.out(format === 'json' ? jsonText(run) : jsonLine(run));
}

/** The totals, and for a run that did not complete why, and what to do about it. */
export function sayEnd(cli: Cli, run: RunView): void {
  const { terminal, now } = cli.world;
  const { paintErr: paint } = terminal;
  const colour = run.status === 'completed' ? 'green' : run.status === 'failed' ? 'red' : 'yellow';
  const why = run.reason === null || run.status === 'cancelled' ? '' : `, ${run.reason}: ${wordsOfReason(run.reason)}`;
  terminal.say(`${paint(colour, run.status)}${why} · ${totals(run, now())} · ${run.id}`);
  if (run.error !== null) terminal.say(harmless(`${run.error.code}: ${run.error.message}`));
  const wait = run.status === 'suspended' && run.waitingFor !== null ? explainWait(run, run.waitingFor) : null;
  if (wait !== null) terminal.say(harmless(wait.what));
  for (const command of wait?.commands ?? commandsAfter(run)) terminal.say(`  ${command}`);
}
