/**
 * The commands that go on until they are told to end: `pawl worker`, `pawl dev`. The first Ctrl-C or SIGTERM ends them in
 * good order, with status 0; the second one ends the process where it stands (see main.ts). And `pawl migrate`, `pawl demo`.
 */
import type { Command } from 'commander';
import { PawlError } from '../core/errors.js';
import type { Cli } from './cli.js';
import { countOf } from './format.js';
import { examples, type Format, outputOption, printList } from './output.js';
import { roleOption } from './values.js';
import { type Role, type ServerHandle, terminalLog, type WorkerHandle, type World } from './world.js';

export function addServing(program: Command, cli: Cli): void {
  addDev(program, cli);
  addWorker(program, cli);
  addServer(program, cli);
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

const serverHelp = `
Serves the queue dashboard at /queues, runs as JSON at /v1/runs, /healthz and /readyz, at PAWL_HOST and PAWL_PORT
(127.0.0.1:3900). With PAWL_API_KEY set, everything but /healthz asks for it: as a bearer token, or as the password of basic
auth. Without it nothing but this machine is let in, and another PAWL_HOST is refused.
${examples('pawl server', 'PAWL_HOST=0.0.0.0 PAWL_API_KEY=$KEY pawl server')}`;

function addServer(program: Command, cli: Cli): void {
  program
    .command('server')
    .description('serve the queue dashboard, and runs as JSON, until Ctrl-C')
    .addHelpText('after', serverHelp)
    .action(async () => {
      const { services, terminal } = cli.world;
      const server = await services.startServer();
      terminal.say(`serving ${server.url}/queues${server.asksForKey ? ', for those who bring PAWL_API_KEY' : ''}`);
      await untilToldToEnd(cli.world, server);
    });
}

type Ending = Pick<WorkerHandle, 'stop' | 'stopped'>;

/** Waits for the end of what goes on, whoever asks for it. */
async function untilToldToEnd(world: Pick<World, 'interrupt'>, running: Ending): Promise<void> {
  const stop = (): void => void running.stop().catch(() => {}); // what went wrong is in `stopped`
  if (world.interrupt.aborted) stop();
  else world.interrupt.addEventListener('abort', stop, { once: true });
  await running.stopped;
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
    const server = await startBeside(cli, worker);
    const say = (name: string, text: string) => terminal.say(`${terminal.paintErr('dim', name.padEnd(9))} ${text}`);
    say('database', `Postgres (${where})`);
    say('queue', queueKind === 'redis' ? 'Redis (REDIS_URL)' : 'in the same Postgres');
    say('agents', worker.agents.join(', ') || 'none');
    if (server !== null) say('queues', `${server.url}/queues${server.asksForKey ? ' (asks for PAWL_API_KEY)' : ''}`);
    terminal.say(`\nready. In another terminal: pawl run ${worker.agents[0] ?? 'AGENT'} "…"   (Ctrl-C ends this)`);
    await untilToldToEnd(cli.world, worker).finally(() => server?.stop());
  } finally {
    await opened.close();
  }
}

/** The server of `pawl dev`. Its port may be another `pawl dev`'s, in this folder or another: the worker goes on without. */
async function startBeside({ world }: Cli, worker: WorkerHandle): Promise<ServerHandle | null> {
  try {
    return await world.services.startServer();
  } catch (error) {
    if (error instanceof PawlError && error.code === 'config_invalid') {
      world.terminal.say(world.terminal.paintErr('yellow', `warning: no dashboard: ${error.message}`));
      return null;
    }
    await worker.stop();
    throw error;
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
