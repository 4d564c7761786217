/**
 * `pawl demo`: an agent does a real task, its worker is killed in the middle, another one finishes without repeating a step,
 * and the demo checks by itself that this is what happened. Whatever it started has ended when it returns. Next: stage.ts
 * for what it stands on, follow-run.ts for the run, verify.ts for the check.
 */
import { join } from 'node:path';
import { openClient } from '../app.js';
import { exitOfRun, exits, Interrupted } from '../cli/exits.js';
import type { Terminal } from '../cli/terminal.js';
import { terminalLog } from '../cli/world.js';
import type { Settings } from '../config.js';
import type { Runs } from '../engine/runs.js';
import type { Log } from '../ports.js';
import { analystTask } from './analyst.js';
import { judgeCrash } from './crash.js';
import { type Followed, followRun } from './follow-run.js';
import { showEnding, showOpening } from './frame.js';
import { factLine, headLine } from './show.js';
import { type Later, type Stage, setStage } from './stage.js';
import { type Failure, verifyDemo } from './verify.js';
import { type DemoWorker, startDemoWorker } from './worker-child.js';

export interface DemoOptions {
  settings: Settings;
  /** The project's `.pawl` folder. */
  pawlDir: string;
  csv?: string | undefined;
  terminal: Terminal;
  /** Ctrl-C. */
  interrupt: AbortSignal;
}

/** The longest a demo may take: a real model may think and retry for minutes, the scripted one does not. */
const boundMs = { real: 15 * 60_000, scripted: 3 * 60_000 };

/** Answers the exit status. Throws `Interrupted`, and a PawlError where it cannot begin. */
export async function runDemo(options: DemoOptions): Promise<number> {
  const { terminal, interrupt, settings } = options;
  const { apiKey, baseUrl } = settings.openai;
  const longest = apiKey === null && baseUrl === null ? boundMs.scripted : boundMs.real;
  const bound = AbortSignal.timeout(longest);
  const closers: (() => Promise<void>)[] = [];
  try {
    return await tellStory(options, AbortSignal.any([interrupt, bound]), (close) => closers.push(close));
  } catch (error) {
    if (interrupt.aborted) throw new Interrupted();
    if (!bound.aborted) throw error;
    terminal.say(
      `failed: the demo did not end within ${longest / 60_000} minutes and was given up; its workers' logs lie in ${join(options.pawlDir, 'demo')}`,
    );
    return exits.error;
  } finally {
    terminal.status(() => 'ending what was started');
    for (const close of closers.reverse()) await close().catch((error) => terminal.say(`warning: ${String(error)}`));
    terminal.status(null);
  }
}

async function tellStory(options: DemoOptions, signal: AbortSignal, later: Later): Promise<number> {
  const { settings, terminal, csv, pawlDir } = options;
  terminal.out(
    'An agent does a real task, loses its worker to kill -9 in the middle, and finishes without repeating a step.\n',
  );
  const say = (text: string) => terminal.status(() => text);
  say('starting the embedded Postgres');
  const stage = await setStage({ settings, csv, pawlDir, now: new Date(), later, say, signal });
  say('starting a worker');
  // What the queue has to complain of stands in the workers' logs; where it does not answer, they do not start.
  const log: Log = { ...terminalLog(terminal), warn: () => {}, child: () => log };
  const client = await openClient({ databaseUrl: stage.databaseUrl, redisUrl: settings.redisUrl, log });
  later(() => client.close());
  const startWorker = workerStarter(options, stage, signal, later);
  const worker = await startWorker();
  showOpening(options, stage, client.queueKind, worker);
  const { id } = await client.runs.start({ agent: 'analyst', input: analystTask });
  terminal.out(`${factLine('run', `${id}\n“${analystTask}”`, terminal.paintOut)}\n\n${headLine(terminal.paintOut)}`);
  const { deathMs } = settings;
  const parts = { runs: client.runs, id, terminal, worker, startAnother: startWorker, deathMs, signal };
  const followed = await followRun(parts);
  terminal.status(() => 'checking');
  const failures = await check(client.runs, stage, settings, followed);
  terminal.status(null);
  await showEnding(options, stage, followed, failures);
  if (followed.run.status !== 'completed') return exitOfRun(followed.run.status);
  return failures.length === 0 ? exits.ok : exits.error;
}

/** Starts workers that are gone at the end of the demo, those killed in the middle included. */
function workerStarter({ settings }: DemoOptions, stage: Stage, signal: AbortSignal, later: Later) {
  const { smtpUrl, from, to } = settings.mail;
  const { concurrency, heartbeatMs, deathMs, shutdownMs, logLevel, logDir, secrets } = settings;
  const order = {
    databaseUrl: stage.databaseUrl,
    redisUrl: settings.redisUrl,
    analyst: {
      model: stage.model.name,
      databaseUrl: stage.dataUrl,
      schema: stage.table.schema,
      workDir: stage.folder.work,
      maildir: stage.folder.mail,
      ...(smtpUrl === null ? {} : { smtpUrl }),
      ...(from === null ? {} : { mailFrom: from }),
      ...(to === null ? {} : { mailTo: to }),
    },
    llm: stage.model.llm,
    settings: { concurrency, heartbeatMs, deathMs, shutdownMs, logLevel, logDir, secrets },
  };
  let number = 0;
  return async (): Promise<DemoWorker> => {
    number += 1;
    const worker = await startDemoWorker(order, join(stage.folder.path, `worker-${number}.log`), signal);
    // Given up in the middle, nothing of the run is wanted any more.
    later(() => (signal.aborted ? worker.kill() : worker.stop()));
    return worker;
  };
}

async function check(runs: Runs, stage: Stage, settings: Settings, followed: Followed): Promise<Failure[]> {
  const { folder, table, dataUrl, model } = stage;
  const { run, survived } = followed;
  const reads = { run: runs.get, steps: runs.steps, events: runs.events };
  const maildir = settings.mail.smtpUrl === null ? folder.mail : null;
  const evidence = { reads, runId: run.id, table, databaseUrl: dataUrl, workDir: folder.work, maildir };
  return [
    ...(await verifyDemo(evidence)),
    ...judgeCrash(survived, await runs.steps(run.id)).map((problem): Failure => ({ check: 'crash', problem })),
    ...model.breaches().map((problem): Failure => ({ check: 'protocol', problem })),
  ];
}
