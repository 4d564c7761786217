/**
 * A world for commands without a process or a service: streams that remember what was written, runs that answer what a
 * test says, and signals that a test raises.
 */
import { Writable } from 'node:stream';
import { runCli } from '../../../src/cli/program.js';
import { type Stream, Terminal } from '../../../src/cli/terminal.js';
import type { Services, World } from '../../../src/cli/world.js';
import type { EventView, RunView, StepView } from '../../../src/core/view.js';
import type { Runs } from '../../../src/engine/runs.js';

export class Sink extends Writable {
  text = '';
  isTTY = false;
  columns = 100;
  colours = false;
  hasColors(): boolean {
    return this.colours;
  }
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** As on a person's desk, or as in a pipe. */
export function makeTerminal(options: { isTTY?: boolean; colours?: boolean; columns?: number } = {}) {
  const stdout = Object.assign(new Sink(), {
    isTTY: options.isTTY ?? false,
    colours: options.colours ?? false,
    columns: options.columns ?? 100,
  });
  const stderr = Object.assign(new Sink(), { isTTY: stdout.isTTY, colours: stdout.colours, columns: stdout.columns });
  return { stdout, stderr, terminal: new Terminal(stdout satisfies Stream, stderr satisfies Stream) };
}

/** Runs that answer what is given, and fail loudly for whatever else is asked. */
export function fakeRuns(given: Partial<Runs>): Runs {
  const refuse = (name: string) => () => {
    throw new Error(`the test did not expect runs.${name}`);
  };
  const names = [
    'start',
    'startMany',
    'get',
    'list',
    'steps',
    'attempts',
    'messages',
    'events',
    'watch',
    'cancel',
    'pause',
    'resume',
    'resolve',
    'redrive',
    'agents',
    'tools',
  ];
  return { ...(Object.fromEntries(names.map((name) => [name, refuse(name)])) as unknown as Runs), ...given };
}

export interface Ran {
  exit: number;
  out: string;
  err: string;
  /** Services that were opened and not closed. */
  leftOpen: number;
  opened: number;
}

export interface RanOptions {
  runs?: Partial<Runs>;
  isTTY?: boolean;
  colours?: boolean;
  columns?: number;
  stdin?: string;
  confirm?: boolean | null;
  interrupt?: AbortSignal;
  services?: Partial<Services>;
  now?: Date;
  patienceMs?: number;
}

/** Carries out one command line. */
export async function pawl(args: string[], options: RanOptions = {}): Promise<Ran> {
  const { stdout, stderr, terminal } = makeTerminal(options);
  let opened = 0;
  let leftOpen = 0;
  const services: Services = {
    async open() {
      opened += 1;
      leftOpen += 1;
      const close = async (): Promise<void> => {
        leftOpen -= 1;
      };
      return {
        runs: fakeRuns(options.runs ?? {}),
        database: { kind: 'given', started: false },
        queueKind: 'postgres',
        close,
      };
    },
    migrate: async () => ({ applied: [] }),
    startWorker: () => Promise.reject(new Error('the test did not expect a worker')),
    startServer: () => Promise.reject(new Error('the test did not expect a server')),
    examine: async () => [],
    runDemo: async () => 0,
    showsStacks: async () => false,
    ...options.services,
  };
  const world: World = {
    terminal,
    services,
    interrupt: options.interrupt ?? new AbortController().signal,
    readStdin: async () => Buffer.from(options.stdin ?? ''),
    confirm: async () => options.confirm ?? null,
    now: () => options.now ?? new Date('2026-03-01T12:00:00Z'),
    refreshMs: 1,
    patienceMs: options.patienceMs ?? 1_000_000,
  };
  const exit = await runCli(args, world);
  return { exit, out: stdout.text, err: stderr.text, leftOpen, opened };
}

export function aRun(given: Partial<RunView> = {}): RunView {
  return {
    id: 'run_1',
    agent: 'analyst',
    agentVersion: 'v1',
    status: 'completed',
    reason: null,
    waitingFor: null,
    input: 'Sum the sales',
    output: 'The sum is 7',
    error: null,
    steps: 2,
    turns: 1,
    usage: { inputTokens: 1_204, cachedInputTokens: 0, outputTokens: 88, costUsd: 0.0021, estimated: false },
    limits: { maxSteps: 60, maxTurns: 25, maxTokens: null, maxCostUsd: null, deadlineMs: null, onLimit: 'finish' },
    tags: {},
    key: null,
    tenant: null,
    lane: null,
    threadId: null,
    parentId: null,
    createdAt: '2026-03-01T11:59:00.000Z',
    startedAt: '2026-03-01T11:59:01.000Z',
    finishedAt: '2026-03-01T11:59:13.400Z',
    ...given,
  };
}

export function aStep(given: Partial<StepView> = {}): StepView {
  return {
    seq: 1,
    kind: 'llm',
    name: 'gpt-4o-mini',
    status: 'completed',
    attempt: 1,
    crashes: 0,
    effect: null,
    waitingFor: null,
    input: null,
    output: 'The sum is 7',
    error: null,
    note: null,
    usage: { inputTokens: 1_204, cachedInputTokens: 0, outputTokens: 88, costUsd: 0.0021, estimated: false },
    queuedAt: '2026-03-01T11:59:00.000Z',
    startedAt: '2026-03-01T11:59:01.000Z',
    finishedAt: '2026-03-01T11:59:02.200Z',
    worker: 'worker_1',
    ...given,
  };
}

export function anEvent(id: number, type: string, given: Partial<EventView> = {}): EventView {
  return { id, type, at: '2026-03-01T11:59:02.200Z', seq: null, data: {}, ...given };
}

/** A watch that gives these events and ends, or goes on until its signal aborts. */
export function watching(events: readonly EventView[], goesOn = false): Runs['watch'] {
  return async function* (_, { after = 0, signal } = {}) {
    for (const event of events) if (event.id > after) yield event;
    if (goesOn && signal !== undefined && !signal.aborted) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
  };
}
