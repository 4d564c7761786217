/**
 * The commands that go on until they are told to end: `pawl worker`, `pawl dev`. The first Ctrl-C or SIGTERM ends them in
 * good order, with status 0; the second one ends the process where it stands (see main.ts). And `pawl migrate`, `pawl demo`.
 */
import type { Command } from 'commander';
import type { Cli } from './cli.js';
import { countOf } from './format.js';
import { examples, type Format, outputOption, printList } from './output.js';
import { roleOption } from './values.js';
import { type Role, terminalLog, type WorkerHandle, type World } from './world.js';

export function addServing(program: Command, cli: Cli): void {
  addDev(program, cli);
  addWorker(program, cli);
  addMigrate(program, cli);
  addDemo(program, cli);
}

const workerHelp = `
The agents come from pawl.config.ts (or the file PAWL_CONFIG names), the services from DATABASE_URL and REDIS_URL.
${examples('pawl worker', 'pawl worker --role steps')}`;

function addWorker(program: Command, cli: Cli): void {
  program
    .command('worker')
    .description('run steps, and rescue what other workers lost, until Ctrl-C')
    .addOption(roleOption())
    .addHelpText('after', workerHelp)
    .action(async ({ role }: { role: Role }) => {
      const worker = await cli.world.services.startWorker(role);
      await untilToldToEnd(cli.world, worker);
    });
}

/** Waits for the worker's end, whoever asks for it. */
async function untilToldToEnd(world: Pick<World, 'interrupt'>, worker: WorkerHandle): Promise<void> {
  const stop = (): void => void worker.stop().catch(() => {}); // what went wrong is in `stopped`
  if (world.interrupt.aborted) stop();
  else world.interrupt.addEventListener('abort', stop, { once: true });
  await worker.stopped;
}

function addDev(program: Command, cli: Cli): void {
  program
    .command('dev')
    .description('all that is needed on a desk: database, migrations and a worker, until Ctrl-C')
    .addHelpText('after', examples('pawl dev'))
    .action(() => dev(cli));
}

async function dev(cli: Cli): Promise<void> {
  const { services, terminal, interrupt } = cli.world;
  const log = terminalLog(terminal);
  const opened = await services.open(log, { migrate: true });
  try {
    terminal.status(null);
    if (interrupt.aborted) return;
    const { database, queueKind } = opened;
    const where =
      database.kind === 'given' ? 'DATABASE_URL' : `embedded, ${database.started ? 'started' : 'running already'}`;
    const worker = await services.startWorker('all');
    const say = (name: string, text: string) => terminal.say(`${terminal.paintErr('dim', name.padEnd(9))} ${text}`);
    say('database', `Postgres (${where})`);
    say('queue', queueKind === 'redis' ? 'Redis (REDIS_URL)' : 'in the same Postgres');
    say('agents', worker.agents.join(', ') || 'none');
    say('server', 'the HTTP server and the dashboards are not built in this version');
    terminal.say(`\nready. In another terminal: pawl run ${worker.agents[0] ?? 'AGENT'} "…"   (Ctrl-C ends this)`);
    await untilToldToEnd(cli.world, worker);
  } finally {
    await opened.close();
  }
}

function addMigrate(program: Command, cli: Cli): void {
  program
    .command('migrate')
    .description("bring the database up to this version's schema; safe at any time and from many places at once")
    .addOption(outputOption())
    .addHelpText('after', examples('pawl migrate'))
    .action(async ({ output }: { output: Format }) => {
      const { terminal, services } = cli.world;
      const { applied } = await services.migrate(terminalLog(terminal));
      terminal.status(null);
      printList(terminal, output, {
        data: applied.map((name) => ({ name })),
        idOf: ({ name }) => name,
        table: (items) => items.map(({ name }) => `applied ${name}`).join('\n'),
        none: 'nothing to do: the database is up to date',
      });
      if (output === 'table' && applied.length > 0) terminal.say(`${countOf(applied.length, 'migration')} applied`);
    });
}

function addDemo(program: Command, cli: Cli): void {
  program
    .command('demo')
    .description('the whole story in one command: a run, a killed worker, the run resumed')
    .option('--csv <file>', 'analyse this table instead of the one that comes with Pawl')
    .addHelpText('after', examples('pawl demo', 'pawl demo --csv sales.csv'))
    .action(async (options: { csv?: string }) => {
      cli.exit = await cli.world.services.runDemo(options, cli.world.interrupt);
    });
}
