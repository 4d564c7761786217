/**
 * The Workers port in memory: a registration, and a heart that beats on the clock given. A test can stop a heart without a
 * word, as the death of a process does.
 */
import type { Heart, WorkerRegistration, Workers } from '../ports.js';
import { requireReachable, type Tables, type WorkerRows } from './memory-store.js';

const unconfirmedMs = 6_000;

export class MemoryWorkers implements Workers {
  readonly #hearts = new Map<string, MemoryHeart>();

  constructor(
    private readonly tables: Tables,
    private readonly everyMs: number,
  ) {}

  async register(registration: WorkerRegistration): Promise<Heart> {
    requireReachable(this.tables);
    const { clock, agents, workers } = this.tables;
    for (const agent of registration.agents) {
      const known = agents.findIndex(({ name, version }) => name === agent.name && version === agent.version);
      if (known < 0) agents.push({ ...agent, registeredAt: clock.now().toISOString() });
      else agents[known] = { ...agent, registeredAt: agents[known]?.registeredAt ?? null };
    }
    const row: WorkerRows = {
      id: registration.id,
      serves: registration.agents.map(({ name, version }) => ({ agent: name, version })),
      state: 'live',
      beat: 0,
      tokens: [],
      tokensBefore: [],
      beatAt: clock.now(),
      beatBeforeAt: clock.now(),
      endedAt: null,
    };
    workers.set(row.id, row);
    const heart = new MemoryHeart(this.tables, row);
    this.#hearts.set(row.id, heart);
    void heart.beatOn(this.everyMs);
    return heart;
  }

  /** The process dies: its heart stands still, and says nothing. */
  kill(workerId: string): void {
    this.#hearts.get(workerId)?.stopBeating();
  }

  stopAll(): void {
    for (const heart of this.#hearts.values()) heart.stopBeating();
  }
}

class MemoryHeart implements Heart {
  readonly #held = new Set<string>();
  readonly #claimed = new Set<string>();
  readonly #onAbort: ((abort: { token: string; cause: 'ending' | 'lost' }) => void)[] = [];
  readonly #onDead: (() => void)[] = [];
  readonly #stopped = new AbortController();
  #confirmedAtMs: number;

  constructor(
    private readonly tables: Tables,
    private readonly row: WorkerRows,
  ) {
    this.#confirmedAtMs = tables.clock.monotonicMs();
  }

  hold(token: string): void {
    this.#held.add(token);
  }

  claimed(token: string): void {
    this.#claimed.add(token);
  }

  drop(token: string): void {
    this.#held.delete(token);
    this.#claimed.delete(token);
  }

  isConfirmed(): boolean {
    return this.tables.clock.monotonicMs() - this.#confirmedAtMs < unconfirmedMs;
  }

  onAbort(listener: (abort: { token: string; cause: 'ending' | 'lost' }) => void): void {
    this.#onAbort.push(listener);
  }

  onDeclaredDead(listener: () => void): void {
    this.#onDead.push(listener);
  }

  async stop(): Promise<void> {
    this.stopBeating();
    if (!this.tables.reachable || this.row.state !== 'live') return;
    this.row.state = 'stopped';
    this.row.endedAt = this.tables.clock.now();
  }

  stopBeating(): void {
    this.#stopped.abort();
  }

  async beatOn(everyMs: number): Promise<void> {
    for (;;) {
      await this.tables.clock.sleep(everyMs, this.#stopped.signal);
      if (this.#stopped.signal.aborted) return;
      if (this.tables.reachable) this.#beat();
    }
  }

  #beat(): void {
    const { row } = this;
    if (row.state !== 'live') {
      for (const listener of this.#onDead) listener();
      return;
    }
    row.beat += 1;
    row.tokensBefore = row.tokens;
    row.beatBeforeAt = row.beatAt;
    row.tokens = [...this.#held];
    row.beatAt = this.tables.clock.now();
    this.#confirmedAtMs = this.tables.clock.monotonicMs();
    for (const token of this.#claimed) {
      const cause = this.#causeToAbort(token);
      if (cause !== null) for (const listener of this.#onAbort) listener({ token, cause });
    }
  }

  #causeToAbort(token: string): 'ending' | 'lost' | null {
    for (const { run, steps } of this.tables.runs.values()) {
      for (const step of steps.values()) {
        if (step.status !== 'running' || step.claim?.token !== token) continue;
        const isClosed = step.kind === 'tool' && run.finishingAs === 'deadline';
        return run.endingAs !== null || isClosed ? 'ending' : null;
      }
    }
    return 'lost';
  }
}
