/**
 * `pawl runs cancel|pause|resume|resolve|redrive`: what an operator asks of runs. Each answers with the run as it is then.
 */
import { type Command, Option } from 'commander';
import { PawlError } from '../core/errors.js';
import type { RunView } from '../core/view.js';
import type { RaisedLimits, Resolve, Runs } from '../engine/runs.js';
import { addBulk } from './bulk.js';
import type { Cli } from './cli.js';
import { examples, type Format, outputOption, printOne } from './output.js';
import { costOption, countOption, readPositiveDuration, resolutionOption, stepOption, tokensOption } from './values.js';
import { withRuns } from './world.js';

export function addRunsChange(runs: Command, cli: Cli): void {
  addBulk(runs, cli, {
    name: 'cancel',
    done: 'cancelled',
    description: 'end runs; a call in flight is aborted',
    help: examples('pawl runs cancel run_0abc', 'pawl runs cancel --agent analyst --since 1h --dry-run'),
    statuses: ['pending', 'running', 'suspended'],
    act: (use, id) => use.cancel(id),
  });
  addPause(runs, cli);
  addResume(runs, cli);
  addResolve(runs, cli);
  addBulk(runs, cli, {
    name: 'redrive',
    done: 'redriven',
    description: 'bring failed runs back at the step that died',
    help: examples('pawl runs redrive run_0abc', 'pawl runs redrive --reason attempts_exhausted --since 12h --yes'),
    statuses: ['failed'],
    act: (use, id) => use.redrive(id),
  });
}

function addPause(runs: Command, cli: Cli): void {
  runs
    .command('pause <id>')
    .description('let the calls in flight end, and begin no other')
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs pause run_0abc'))
    .action((id: string, { output }: { output: Format }) => change(cli, output, 'paused', (use) => use.pause(id)));
}

function addResume(runs: Command, cli: Cli): void {
  runs
    .command('resume <id>')
    .description('let a paused run go on, or one that waits at a limit, with a higher one')
    .addOption(countOption('--max-steps', 'the new limit of steps, those made included'))
    .addOption(countOption('--max-turns', 'the new limit of turns, those made included'))
    .addOption(tokensOption('the new limit of tokens, those used included'))
    .addOption(costOption('the new limit of cost, what was spent included'))
    .addOption(new Option('--deadline <time>', 'the new deadline, from now: 2h').argParser(readPositiveDuration))
    .addOption(outputOption())
    .addHelpText('after', examples('pawl runs resume run_0abc', 'pawl runs resume run_0abc --max-steps 100'))
    .action((id: string, options: RaisedLimits & { deadline?: number; output: Format }) => {
      const { maxSteps, maxTurns, maxTokens, maxCostUsd, deadline: deadlineMs } = options;
      const given = Object.entries({ maxSteps, maxTurns, maxTokens, maxCostUsd, deadlineMs });
      const raised: RaisedLimits = Object.fromEntries(given.filter(([, value]) => value !== undefined));
      return change(cli, options.output, 'resumed', (use) => use.resume(id, raised));
    });
}

function addResolve(runs: Command, cli: Cli): void {
  runs
    .command('resolve <id>')
    .description('answer for a step whose fate only a person can find out')
    .addOption(stepOption())
    .addOption(resolutionOption())
    .option('--result <json>', 'with done or failed: what the model is told')
    .addOption(outputOption())
    .addHelpText('after', examples(`pawl runs resolve run_0abc --step 4 --as done --result '{"charged":true}'`))
    .action((id: string, options: { step: number; as: Resolve['as']; result?: string; output: Format }) => {
      const answer = readAnswer(options);
      return change(cli, options.output, `step ${options.step} answered as ${options.as}`, (use) =>
        use.resolve(id, answer),
      );
    });
}

function readAnswer({ step, as, result }: { step: number; as: Resolve['as']; result?: string }): Resolve {
  if (as === 'rerun') {
    if (result !== undefined)
      throw new PawlError('usage', '--result does not go with --as rerun: the step runs again and has its own result');
    return { step, as };
  }
  if (result === undefined) return { step, as };
  try {
    return { step, as, result: JSON.parse(result) as unknown };
  } catch (error) {
    const fix = `for a text write --result ${quoted(JSON.stringify(result))}`;
    throw new PawlError('usage', `--result ${result.slice(0, 80)} is not JSON; ${fix}`, { cause: error });
  }
}

/** As a POSIX shell reads it back. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

async function change(cli: Cli, output: Format, done: string, act: (runs: Runs) => Promise<RunView>): Promise<void> {
  const { terminal } = cli.world;
  const run = await withRuns(cli.world, ({ runs }) => act(runs));
  printOne(terminal, output, run, run.id, () => `${run.id}  ${done}, now ${run.status}`);
  if (output === 'table' && terminal.hearsMessages && run.status !== 'suspended') {
    terminal.say(terminal.paintErr('dim', `follow it with pawl runs watch ${run.id}`));
  }
}
