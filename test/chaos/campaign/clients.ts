/**
 * The people and services around the workers: they start runs by key, some twice and some until their thread is free,
 * cancel some, redrive what failed, settle what nobody knows, after a look at the ledger, and withdraw a tool for a while. All
 * they ask goes through the net that is being broken, and all they are told is written down. Only to know where to look do
 * they read the database directly.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, openClient, type ServiceSettings } from '../../../src/app.js';
import { PawlError } from '../../../src/core/errors.js';
import type { RunView } from '../../../src/core/view.js';
import type { Runs } from '../../../src/engine/runs.js';
import type { Log } from '../../../src/ports.js';
import type { Fate } from './crew.js';
import type { ClientAnswer, ClientOp } from './evidence.js';
import { between, type Times } from './faults.js';
import type { Notebook } from './notebook.js';
import { type Plan, withToken } from './plan.js';
import type { PostgresService } from './postgres-service.js';
import { type Random, randomOf } from './random.js';
import { ownersOf, type ToolName, tools } from './trade.js';

export interface ClientsOptions {
  services: Omit<ServiceSettings, 'log'>;
  postgres: PostgresService;
  worldUrl: string;
  plans: Iterable<Plan>;
  /** Runs that are on their way at any time, at most. */
  openRuns: number;
  startEveryMs: number;
  /** For so long an operator withdraws a tool, again and again; absent: nobody does. */
  withdrawnMs?: Times['withdrawnMs'];
  seed: number;
  notebook: Notebook;
  now: () => number;
}

const quietLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quietLog };

/** A client that hears nothing for this long asks again, with another connection. */
const patienceMs = 20_000;
const lookEveryMs = 400;

interface Watched {
  plan: Plan;
  runId: string;
  status: string;
  reason: string | null;
}

export class Clients {
  private readonly random: Random;
  private readonly watched = new Map<string, Watched>();
  private readonly clients: Client[] = [];
  private readonly busy = new Set<string>();
  private readonly seen = new Map<string, string>();
  private starting = 0;
  private started = 0;
  private closed = false;

  constructor(private readonly options: ClientsOptions) {
    this.random = randomOf(options.seed, 'clients');
  }

  async open(): Promise<void> {
    for (let n = 0; n < 2; n++) this.clients.push(await this.connect());
    void this.look();
    if (this.options.withdrawnMs !== undefined) void this.withdrawTools(this.options.withdrawnMs);
  }

  /** Starts one plan after the other while `mayGoOn`; returns when all were started or it may not. */
  async startAll(mayGoOn: () => boolean): Promise<void> {
    const { plans, openRuns, startEveryMs, notebook } = this.options;
    for (const plan of plans) {
      await delay(startEveryMs);
      while (this.openRuns() >= openRuns && mayGoOn()) await delay(20);
      if (!mayGoOn()) return;
      notebook.expected(plan.expected);
      this.starting += 1;
      this.started += 1;
      void this.start(plan).finally(() => {
        this.starting -= 1;
      });
    }
  }

  /** Runs that were begun, and those not yet at the end that their plan gives them. */
  progress(): { started: number; open: number } {
    return { started: this.started, open: this.openRuns() };
  }

  /** Names of runs that are not where their plan ends; empty when all are. */
  unsettled(): string[] {
    const unsettled = [...this.watched.values()].filter((run) => !isSettled(run)).map((run) => run.runId);
    return this.starting > 0 ? [...unsettled, `${this.starting} not yet accepted`] : unsettled;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await Promise.all(this.clients.map((client) => Promise.race([client.close(), delay(3_000)])));
  }

  private openRuns(): number {
    return this.unsettledRuns() + this.starting;
  }

  private unsettledRuns(): number {
    let open = 0;
    for (const run of this.watched.values()) if (!isSettled(run)) open += 1;
    return open;
  }

  private async start(plan: Plan): Promise<void> {
    for (const afterMs of plan.duplicates) setTimeout(() => void this.startOnce(plan), afterMs);
    for (;;) {
      const runId = await this.startOnce(plan);
      if (runId !== null) {
        this.watched.set(runId, { plan, runId, status: 'pending', reason: null });
        if (plan.cancelAfterMs !== null) setTimeout(() => void this.cancel(runId), plan.cancelAfterMs);
        return;
      }
      if (this.closed) return;
      await delay(plan.expected.thread === null ? 300 : 1_000);
    }
  }

  private async startOnce({ n, key, task, agent, expected: { thread } }: Plan): Promise<string | null> {
    if (this.closed) return null;
    const op = { op: 'start', plan: n, key, task } as const;
    return this.ask(op, null, async (runs) => {
      const { id, created } = await runs.start({
        agent,
        input: task,
        key,
        ...(thread === null ? {} : { threadId: thread }),
      });
      return { value: id, runId: id, answer: { ...plainly, status: 'accepted', created } };
    });
  }

  private async cancel(runId: string): Promise<void> {
    for (;;) {
      const call = await this.command(runId, { op: 'cancel' }, (runs) => runs.cancel(runId));
      if (call !== 'unknown' || this.closed) return;
      await delay(300);
    }
  }

  /** The operator: looks where every run stands, and does what somebody has to. */
  private async look(): Promise<void> {
    while (!this.closed) {
      await delay(lookEveryMs);
      const rows = await this.standings().catch(() => []);
      for (const { id, status, reason } of rows) {
        const run = this.watched.get(id);
        if (run === undefined) continue;
        Object.assign(run, { status, reason });
        if (this.busy.has(id)) continue;
        this.busy.add(id);
        void this.attend(run).finally(() => this.busy.delete(id));
      }
    }
  }

  private async standings(): Promise<{ id: string; status: string; reason: string | null }[]> {
    const ids = [...this.watched.values()]
      .filter(({ status }) => status !== 'completed' && status !== 'cancelled')
      .map(({ runId }) => runId);
    if (ids.length === 0) return [];
    const found = await this.options.postgres.use((client) =>
      client.query<{ id: string; status: string; reason: string | null }>(
        'select id, status, reason from pawl.runs where id = any($1)',
        [ids],
      ),
    );
    return found.rows;
  }

  private async attend(run: Watched): Promise<void> {
    const { runId, status } = run;
    if (status === 'suspended') return this.settleFates(runId);
    if (status !== 'completed' && status !== 'failed' && status !== 'cancelled') return;
    await this.sayFinal(run);
    if (status !== 'failed' || isSettled(run)) return;
    await this.command(runId, { op: 'redrive' }, (runs) => runs.redrive(runId));
  }

  /** Looks at a final run once for each end it had, so that a later change is seen. */
  private async sayFinal({ runId, status, reason }: Watched): Promise<void> {
    const end = `${status} ${reason}`;
    if (this.seen.get(runId) === end) return;
    const asked = await this.command(runId, { op: 'seen_final' }, (runs) => runs.get(runId));
    if (asked === 'done') this.seen.set(runId, end);
  }

  private async settleFates(runId: string): Promise<void> {
    const client = this.random.pick(this.clients);
    const steps = await bounded(client.runs.steps(runId)).catch(() => []);
    for (const step of steps) {
      if (step.waitingFor !== 'outcome') continue;
      const fate = await this.fateOf(runId, step.seq);
      const as = fate.happened ? (this.random.chance(0.8) ? 'done' : 'failed') : 'rerun';
      await this.command(runId, { op: 'resolve', step: step.seq, as }, (runs) => {
        if (as === 'rerun') return runs.resolve(runId, { step: step.seq, as });
        return runs.resolve(runId, { step: step.seq, as, result: withToken(as, fate.token) });
      });
    }
  }

  /** An operator withdraws a tool, of one agent or of all, and gives it back: one after the other. */
  private async withdrawTools(withdrawnMs: Times['withdrawnMs']): Promise<void> {
    const random = randomOf(this.options.seed, 'withdrawals');
    const withdrawable = (Object.keys(tools) as ToolName[]).filter((name) => tools[name].isWithdrawn);
    while (!this.closed) {
      const tool = random.pick(withdrawable);
      const agent = random.pick([null, ...ownersOf(tool)]);
      await this.switchTool({ op: 'disable_tool', tool, agent });
      await delay(between(random, withdrawnMs));
      await this.switchTool({ op: 'enable_tool', tool, agent });
      await delay(between(random, withdrawnMs));
    }
  }

  /** Both may be asked for twice. */
  private async switchTool(op: Extract<ClientOp, { op: 'disable_tool' | 'enable_tool' }>): Promise<void> {
    const { tool, agent } = op;
    while (!this.closed) {
      const done = await this.ask(op, null, async (runs) => {
        await (op.op === 'disable_tool' ? runs.disableTool(tool, { agent }) : runs.enableTool(tool, { agent }));
        return { value: true, runId: null, answer: plainly };
      });
      if (done === true) return;
      await delay(300);
    }
  }

  private async fateOf(runId: string, seq: number): Promise<Fate> {
    const asked = await fetch(`${this.options.worldUrl}/fate`, {
      method: 'POST',
      body: JSON.stringify({ runId, seq }),
    });
    return (await asked.json()) as Fate;
  }

  private async command(
    runId: string,
    op: ClientOp,
    work: (runs: Runs) => Promise<RunView>,
  ): Promise<'done' | 'refused' | 'unknown'> {
    let refused = false;
    const done = await this.ask(op, runId, async (runs) => {
      const view = await work(runs).catch((error: unknown) => {
        refused = error instanceof PawlError && !opensQuestions.has(error.code);
        throw error;
      });
      return { value: true, runId, answer: { ...plainly, ...answerOf(view) } };
    });
    return done === true ? 'done' : refused ? 'refused' : 'unknown';
  }

  /** Asks once, writes down what was asked and answered; null when it was not done, or nobody knows. */
  private async ask<T>(
    op: ClientOp,
    about: string | null,
    work: (runs: Runs) => Promise<{ value: T; runId: string | null; answer: ClientAnswer }>,
  ): Promise<T | null> {
    const { notebook, now } = this.options;
    const n = this.random.int(0, this.clients.length - 1);
    const client = this.clients[n];
    if (client === undefined) return null;
    const beganAt = now();
    const name = `client ${n + 1}`;
    try {
      const { value, runId, answer } = await bounded(work(client.runs));
      notebook.client({ ...op, client: name, runId, beganAt, endedAt: now(), answer });
      return value;
    } catch (error) {
      const code = error instanceof PawlError ? error.code : error === tooLate ? 'no_answer' : 'internal';
      const answer = { ok: false, code, message: String(error).slice(0, 300) } as const;
      notebook.client({ ...op, client: name, runId: about, beganAt, endedAt: now(), answer });
      if (error === tooLate) await this.replace(n, client);
      return null;
    }
  }

  private async replace(n: number, client: Client): Promise<void> {
    const fresh = await this.connect().catch(() => null);
    if (fresh === null) return;
    if (this.clients[n] === client) this.clients[n] = fresh;
    void client.close().catch(() => {});
  }

  private connect(): Promise<Client> {
    return openClient({ ...this.options.services, log: quietLog });
  }
}

const opensQuestions = new Set<string>(['database_unreachable', 'queue_unreachable', 'internal']);
const plainly = { ok: true, status: '', reason: null, output: null, finishedAt: null, created: null } as const;
const tooLate = new Error(`no answer within ${patienceMs} ms`);

function answerOf({ status, reason, output, finishedAt }: RunView) {
  const text = output === null || typeof output === 'string' ? output : JSON.stringify(output);
  return { status, reason, output: text, finishedAt };
}

function isSettled({ plan, status, reason }: Watched): boolean {
  const { expected } = plan;
  if (status === 'failed') return expected.status === 'failed' && expected.reason === reason;
  return status === 'completed' || status === 'cancelled';
}

async function bounded<T>(work: Promise<T>): Promise<T> {
  const timer = new AbortController();
  work.catch(() => {});
  try {
    return await Promise.race([
      work,
      delay(patienceMs, undefined, { signal: timer.signal }).then(() => {
        throw tooLate;
      }),
    ]);
  } finally {
    timer.abort();
  }
}
