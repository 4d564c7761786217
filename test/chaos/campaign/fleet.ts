/**
 * The worker processes of a campaign: named places, each held by one process at a time. Who ends is followed by another, as
 * a service manager would have it, whether it was killed here or ended by itself. Next: process-faults.ts.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Code } from './code.js';
import type { Notebook } from './notebook.js';
import type { WorkerOrder } from './worker.js';
import type { WorkerCommand } from './worker-command.js';

export interface WrongClock {
  offMs: number;
  /** Milliseconds from the start of the process to the jump. */
  afterMs: number;
}

export interface Place {
  readonly name: string;
  readonly role: WorkerOrder['role'];
  readonly pid: number;
  /** It takes steps, or maintains. */
  readonly ready: boolean;
  /** A fault has it in hand. */
  busy: boolean;
  signal(signal: NodeJS.Signals): void;
  tell(command: WorkerCommand): void;
  /** Resolves when the process that holds the place now is gone. */
  gone(): Promise<void>;
  /** Ready again, by whichever process; false when that took too long. */
  readyAgain(withinMs: number): Promise<boolean>;
  /** How the next processes begin; null: as they should. */
  restartWith(how: { afterMs: number; clock: WrongClock | null }): void;
}

export interface FleetOptions {
  code: Code;
  layout: string;
  order: Omit<WorkerOrder, 'name' | 'role' | 'databaseUrl' | 'redisUrl'>;
  /** The services as the process in that place reaches them. */
  services(name: string): Pick<WorkerOrder, 'databaseUrl' | 'redisUrl'>;
  notebook: Notebook;
  now: () => number;
}

const roles = { a: 'all', s: 'steps', m: 'maintenance' } as const;
/** The places of a layout: a letter and a number each. */
export function namesOf(layout: string): string[] {
  return [...layout].map((letter, index) => `${letter}${index + 1}`);
}

/** Pause before a process is followed that could not start, or ended by itself. */
const againMs = 500;
const spareProcesses = 2;

export class Fleet {
  readonly places: Seat[];
  /** Processes that have loaded everything and wait for a place: loading takes longer than a place may stay empty. */
  private readonly spares: ChildProcess[] = [];
  private readonly stderr: number;
  private ending = false;

  constructor(private readonly options: FleetOptions) {
    this.stderr = openSync(join(options.order.folder, 'stderr.log'), 'a');
    this.places = namesOf(options.layout).map((name) => {
      const role = roles[name[0] as keyof typeof roles];
      if (role === undefined) throw new Error(`a layout has the letters a, s and m, not ${name[0]}`);
      return new Seat(name, role, (seat) => this.spawn(seat));
    });
  }

  /** Starts every process and waits until all are ready. */
  async start(withinMs: number): Promise<void> {
    for (const place of this.places) this.spawn(place);
    while (this.spares.length < spareProcesses) this.spares.push(this.fork(null));
    const ready = await Promise.all(this.places.map((place) => place.readyAgain(withinMs)));
    if (ready.includes(false)) throw new Error(`not all workers were ready within ${withinMs} ms: see stderr.log`);
  }

  /** Places that no fault has in hand, whose process works. */
  idle(): Seat[] {
    return this.places.filter((place) => place.ready && !place.busy);
  }

  async stop(withinMs: number): Promise<void> {
    this.ending = true;
    for (const spare of this.spares) spare.kill('SIGKILL');
    for (const place of this.places) place.signal('SIGTERM');
    await Promise.race([Promise.all(this.places.map((place) => place.gone())), delay(withinMs)]);
    for (const place of this.places) place.signal('SIGKILL');
    await Promise.all(this.places.map((place) => place.gone()));
  }

  private spawn(place: Seat): void {
    const { order, notebook, now, services } = this.options;
    const { clock, name, role } = place;
    const child = (clock === null ? this.takeSpare() : undefined) ?? this.fork(clock);
    const full: WorkerOrder = { ...order, ...services(name), name, role };
    child.send(full, () => {});
    const pid = child.pid ?? 0;
    const line = { worker: name, pid };
    notebook.worker({ at: now(), ...line, what: 'spawned', role, clockOffMs: clock?.offMs ?? 0 });
    place.take(child);
    child.on('exit', (code, signal) => {
      notebook.worker({ at: now(), ...line, what: 'exited', code, signal });
      if (!this.ending) place.followAfter(againMs, () => !this.ending);
    });
  }

  private takeSpare(): ChildProcess | undefined {
    const spare = this.spares.shift();
    if (spare !== undefined) this.spares.push(this.fork(null));
    return spare;
  }

  private fork(clock: WrongClock | null): ChildProcess {
    const { code } = this.options;
    const fromUptimeMs = Number(process.hrtime.bigint() / 1_000_000n) + (clock?.afterMs ?? 0);
    const child = fork(code.program('worker'), [], {
      execArgv: clock === null ? [] : ['--import', code.wrongClock],
      env: { ...process.env, CAMPAIGN_CLOCK: JSON.stringify({ offMs: clock?.offMs ?? 0, fromUptimeMs }) },
      stdio: ['ignore', this.stderr, this.stderr, 'ipc'],
    });
    child.on('error', () => {}); // one that could not be started ends, too
    return child;
  }
}

class Seat implements Place {
  busy = false;
  ready = false;
  clock: WrongClock | null = null;
  private child: ChildProcess | null = null;
  private next: { afterMs: number; clock: WrongClock | null } | null = null;

  constructor(
    readonly name: string,
    readonly role: WorkerOrder['role'],
    private readonly spawn: (seat: Seat) => void,
  ) {}

  get pid(): number {
    return this.child?.pid ?? 0;
  }

  take(child: ChildProcess): void {
    this.child = child;
    this.ready = false;
    child.on('message', () => {
      this.ready = true;
    });
    child.on('exit', () => {
      if (this.child === child) this.ready = false;
    });
  }

  /** Follows the process that ended by another. */
  followAfter(ms: number, mayStill: () => boolean): void {
    const { afterMs, clock } = this.next ?? { afterMs: ms, clock: null };
    this.next = null;
    this.clock = clock;
    setTimeout(() => {
      if (mayStill()) this.spawn(this);
    }, afterMs);
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isThere()) this.child?.kill(signal);
  }

  tell(command: WorkerCommand): void {
    if (this.child?.connected) this.child.send(command, () => {});
  }

  async gone(): Promise<void> {
    const { child } = this;
    if (child !== null && this.isThere()) await new Promise((resolve) => child.once('exit', resolve));
  }

  async readyAgain(withinMs: number): Promise<boolean> {
    const until = performance.now() + withinMs;
    while (!this.ready) {
      if (performance.now() > until) return false;
      await delay(20);
    }
    return true;
  }

  restartWith(how: { afterMs: number; clock: WrongClock | null }): void {
    this.next = how;
  }

  private isThere(): boolean {
    return this.child !== null && this.child.exitCode === null && this.child.signalCode === null;
  }
}
