/**
 * What a command needs of the process it runs in and of the services behind it. main.ts hands in the real ones, tests hand
 * in others. A command that needs services opens them here, so that they are closed however it ends.
 */
import type { Check } from '../core/checkup.js';
import type { Runs } from '../engine/runs.js';
import type { Log } from '../ports.js';
import { Interrupted } from './exits.js';
import type { Terminal } from './terminal.js';

export type Role = 'all' | 'steps' | 'maintenance';

/** The database and the queue, opened. */
export interface Opened {
  runs: Runs;
  database: { kind: 'embedded' | 'given'; started: boolean };
  queueKind: 'redis' | 'postgres';
  close(): Promise<void>;
}

export interface WorkerHandle {
  agents: readonly string[];
  queueKind: 'redis' | 'postgres';
  /** Ends the worker in good order. */
  stop(): Promise<void>;
  /** Resolves once it has ended, by `stop` or by itself; rejects with what ended it. */
  stopped: Promise<void>;
}

export interface ServerHandle {
  url: string;
  /** Whether callers must bring PAWL_API_KEY. */
  asksForKey: boolean;
  queueKind: 'redis' | 'postgres';
  stop(): Promise<void>;
  stopped: Promise<void>;
}

/** Everything heavy: each loads its own code when it is called, so that `--help` stays fast. */
export interface Services {
  open(log: Log, options?: { migrate?: boolean }): Promise<Opened>;
  migrate(log: Log): Promise<{ applied: string[] }>;
  startWorker(role: Role): Promise<WorkerHandle>;
  startServer(): Promise<ServerHandle>;
  /** Looks at everything Pawl stands on. Never rejects for what it finds broken. */
  examine(options: { llm: boolean }, log: Log): Promise<Check[]>;
  runDemo(options: { csv?: string }, signal: AbortSignal): Promise<number>;
  /** Whether the reader of errors wants their stack, too. */
  showsStacks(): Promise<boolean>;
}

export interface World {
  terminal: Terminal;
  services: Services;
  /** Aborted by the first Ctrl-C, SIGTERM or hang-up; the second one ends the process. */
  interrupt: AbortSignal;
  readStdin(): Promise<Uint8Array>;
  /** Asks a person; null where there is nobody to ask. */
  confirm(question: string): Promise<boolean | null>;
  now(): Date;
  /** How often a follower looks what is under way, and after how long it wonders where the workers are. */
  refreshMs: number;
  patienceMs: number;
}

/**
 * Opens the services for one command. Ends with `Interrupted` as soon as the person at the terminal wants that, except
 * with `handlesInterrupt`: then the command sees to it by itself.
 */
export async function withRuns<T>(
  world: World,
  use: (opened: Opened) => Promise<T>,
  options: { handlesInterrupt?: boolean } = {},
): Promise<T> {
  const { terminal, interrupt } = world;
  const opened = await world.services.open(terminalLog(terminal));
  terminal.status(null);
  try {
    if (interrupt.aborted) throw new Interrupted();
    const used = use(opened);
    if (options.handlesInterrupt === true) return await used;
    used.catch(() => {}); // when the interrupt wins, nobody waits for it any more
    return await Promise.race([used, rejectOn(interrupt)]);
  } finally {
    terminal.status(null);
    await opened.close();
  }
}

function rejectOn(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Interrupted()), { once: true });
  });
}

/** The log of a command that is no worker: warnings are messages, and news is what the status line shows for a moment. */
export function terminalLog(terminal: Terminal): Log {
  const log: Log = {
    debug: () => {},
    info: (_, message) => terminal.status(() => message),
    warn: (fields, message) => terminal.say(terminal.paintErr('yellow', `warning: ${message}${causeOf(fields)}`)),
    error: (fields, message) => terminal.say(terminal.paintErr('red', `error: ${message}${causeOf(fields)}`)),
    child: () => log,
  };
  return log;
}

function causeOf(fields: Record<string, unknown>): string {
  return typeof fields.cause === 'string' ? ` (${fields.cause})` : '';
}
