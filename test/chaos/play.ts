/**
 * Plays one case: a run, a worker that is hit in one gap of one step, and a second one that takes over. An operator does
 * what operators do: presses Retry on a dead letter, and answers for a call of unknown fate after a look at the world
 * outside. Then the past comes back (old jobs, late records) and must change nothing. Next: invariants.ts.
 */
import pg from 'pg';
import { type Client, openClient, startWorkerProcess, type WorkerProcess } from '../../src/app.js';
import type { Gap, OnGap } from '../../src/engine/gaps.js';
import type { Log } from '../../src/ports.js';
import { createTestDatabase } from '../support/services.js';
import { quietLog } from '../support/worlds.js';
import { type Case, canPressRetry, crashesToDeath, targetSeq } from './cases.js';
import { castOf } from './cast.js';
import { type Dashboard, openDashboard } from './dashboard.js';
import { breachesAtEnd, breachesNow } from './invariants.js';
import { killWorker } from './kill-worker.js';
import { bringBackThePast } from './past.js';
import { type Rows, readRows } from './rows.js';
import type { Stage } from './stage.js';
import { isStruck, type Strike, strikeOf } from './strike.js';
import { until } from './until.js';
import type { Order } from './victim.js';

export interface Played {
  /** What happened to the run from its operator's side, ending with its status. */
  outcome: string;
  /** Attempts of the step that was hit, and how often the model was asked for it. */
  attempts: number;
  asked: number | null;
  /** Effects outside: calls, and those that did something. */
  raw: number;
  applied: number;
  breaches: string[];
  /** From the last blow to the end of the run. */
  recoveredMs: number;
}

/** Times short enough for a test, long enough for a busy machine not to lose a beat. */
const times = { heartbeatMs: 200, deathMs: 3_000 };
/**
 * Bounds for a machine that is busy with other things; none of them is waited out. A job whose worker died is failed or
 * delivered again by the queue itself: lock and check take 45 s at most.
 */
const shownWithinMs = 90_000;
const endsWithinMs = 120_000;

export async function playCase(played: Case, stage: Stage, redisUrl: string | null): Promise<Played> {
  const scene = await openScene(played, stage, redisUrl);
  try {
    await scene.hit();
    const recoveredMs = await scene.recover();
    return await scene.judge(recoveredMs);
  } catch (error) {
    throw new Error(`${played.id}: ${String(error)}\n${await scene.describe()}`, { cause: error });
  } finally {
    await scene.close();
  }
}

async function openScene(played: Case, stage: Stage, redisUrl: string | null) {
  const database = await createTestDatabase();
  const services = { databaseUrl: database.url, redisUrl };
  const pool = new pg.Pool({ connectionString: database.url, max: 2, application_name: 'the checker' });
  pool.on('error', () => {});
  const dashboard = await openDashboard(services);
  if (redisUrl !== null) await dashboard.wipe();
  const client = await openClient({ ...services, log: quietLog });
  const scene = new Scene(played, stage, services, pool, dashboard, client);
  return {
    hit: () => scene.hit(),
    recover: () => scene.recover(),
    judge: (recoveredMs: number) => scene.judge(recoveredMs),
    describe: () => scene.describe(),
    async close() {
      await scene.stopWorker();
      await client.close();
      await dashboard.close();
      await pool.end();
      await database.drop();
    },
  };
}

class Scene {
  private readonly seq: number;
  private readonly caseId: string;
  private readonly story: string[] = [];
  private readonly breaches = new Set<string>();
  /** The first claim of the worker that takes over waits for it, and all others with it. */
  private broughtBack: Promise<void> | null = null;
  private runId = '';
  private worker: WorkerProcess | null = null;
  private hitAtMs = 0;
  private wipedAtMs: number | null = null;

  constructor(
    private readonly played: Case,
    private readonly stage: Stage,
    private readonly services: { databaseUrl: string; redisUrl: string | null },
    private readonly pool: pg.Pool,
    private readonly dashboard: Dashboard,
    private readonly client: Client,
  ) {
    this.seq = targetSeq(played.kind);
    this.caseId = played.id;
  }

  /** Brings the run to its gap and strikes there. Afterwards a healthy worker is up. */
  async hit(): Promise<void> {
    const { kind, place, blow } = this.played;
    if (place === 'after_death' && (kind === 'idempotent' || kind === 'once')) await this.crashToDeath(kind);
    const strike = strikeOf(this.played);
    if (blow === 'wipe') await this.wipeAt(strike);
    else await this.kill(strike);
    if (blow === 'kill and wipe') await this.wipe();
    this.worker ??= await this.startWorker((gap) => {
      if (gap !== 'after_claim') return;
      this.broughtBack ??= this.bringBackThePast();
      return this.broughtBack;
    });
  }

  private async crashToDeath(kind: 'idempotent' | 'once'): Promise<void> {
    const at = (gap: Gap): Strike => ({ seq: this.seq, gap, whenDead: false });
    // A `once` call is lost once before: it is what its fate is asked with that can crash again and again.
    if (kind === 'once') await this.kill(at('after_call'));
    for (let crash = 1; crash <= crashesToDeath; crash++) {
      await this.kill(at(kind === 'once' ? 'after_claim' : 'after_call'));
    }
  }

  /** A process of its own works until it has killed itself there. */
  private async kill(strike: Strike): Promise<void> {
    const order: Order = { ...this.services, ...times, stageUrl: this.stage.url, caseId: this.caseId, strike };
    await killWorker(order, () => this.startRun(), endsWithinMs);
    this.hitAtMs = performance.now();
  }

  /** A worker of this process wipes the queue there and goes on. */
  private async wipeAt(strike: Strike): Promise<void> {
    let isFirst = true;
    this.worker = await this.startWorker(async (gap, delivery) => {
      if (!isFirst || !(await isStruck(strike, gap, delivery, this.services.databaseUrl))) return;
      isFirst = false;
      await this.wipe();
    });
    await this.startRun();
    await until(`the queue wiped ${strike.gap}`, endsWithinMs, () => this.wipedAtMs !== null);
  }

  private async wipe(): Promise<void> {
    await this.dashboard.wipe();
    this.hitAtMs = performance.now();
    this.wipedAtMs = performance.now();
  }

  private async startRun(): Promise<void> {
    if (this.runId !== '') return;
    this.runId = (await this.client.runs.start({ agent: 'clerk', input: 'put the shelf in order' })).id;
  }

  /** A worker that meets a fault of its own says so as an error; none is expected, whatever was hit. */
  private faultLog(): Log {
    const log: Log = {
      ...quietLog,
      error: (fields, message) => void this.breaches.add(`fault: ${message} ${JSON.stringify(fields)}`),
      child: () => log,
    };
    return log;
  }

  private startWorker(onGap?: OnGap): Promise<WorkerProcess> {
    const { agent, llm } = castOf({ stageUrl: this.stage.url, caseId: this.caseId });
    return startWorkerProcess({
      ...this.services,
      ...times,
      log: this.faultLog(),
      role: 'all',
      agents: [agent],
      llm,
      // Room for the jobs of the past beside calls that are held still.
      concurrency: 6,
      queues: null,
      ...(onGap === undefined ? {} : { onGap }),
    });
  }

  /** Waits for the end of the run, or a breach, and acts for its operator on the way. Answers the time that took. */
  async recover(): Promise<number> {
    await until(`the end of ${this.caseId}`, endsWithinMs + shownWithinMs, async () => {
      const rows = await this.look();
      const { status } = rows.run;
      if (this.breaches.size > 0) return true;
      if (status === 'completed' || status === 'cancelled') return true;
      if (status === 'failed') {
        if (this.story.includes('failed')) return true;
        this.story.push('failed');
        await this.revive(rows);
      } else if (status === 'suspended') await this.answerFor(rows);
      return false;
    });
    return performance.now() - this.hitAtMs;
  }

  private async look(): Promise<Rows> {
    const rows = await readRows(this.pool, this.runId);
    const wipedForMs = this.wipedAtMs === null ? null : performance.now() - this.wipedAtMs;
    for (const breach of breachesNow(rows, wipedForMs)) this.breaches.add(breach);
    return rows;
  }

  private async revive({ steps }: Rows): Promise<void> {
    const dead = steps.find((step) => step.status === 'dead');
    if (dead === undefined || this.played.place !== 'after_death') return;
    if (canPressRetry(this.played)) {
      const current = async () => {
        const dispatch = (await this.look()).steps.find(({ seq }) => seq === dead.seq)?.dispatch ?? dead.dispatch;
        return { queue: dead.queue, runId: this.runId, seq: dead.seq, dispatch };
      };
      await this.dashboard.retry(current, shownWithinMs);
      this.story.push('Retry');
    } else {
      await this.client.runs.redrive(this.runId);
      this.story.push('redrive');
    }
    await until('the run to be revived', endsWithinMs, async () => (await this.look()).run.status !== 'failed');
  }

  /** The operator of a call whose fate is not known looks at the world outside, and says what they see. */
  private async answerFor({ steps }: Rows): Promise<void> {
    const asked = steps.find((step) => step.waiting_for === 'outcome');
    if (asked === undefined) throw new Error(`the run waits for ${steps.map((step) => step.waiting_for).join(' ')}`);
    const happened = this.stage.ledger(this.caseId).some((entry) => entry.seq === asked.seq);
    this.story.push('asked', happened ? 'done' : 'rerun');
    await this.client.runs.resolve(this.runId, { step: asked.seq, as: happened ? 'done' : 'rerun' });
  }

  async judge(recoveredMs: number): Promise<Played> {
    const { kind } = this.played;
    const end = await this.look();
    const ledger = this.stage.ledger(this.caseId);
    for (const breach of breachesAtEnd(end, ledger, this.stage.shown(this.caseId))) this.breaches.add(breach);
    for (const breach of this.stage.breaches(this.caseId)) this.breaches.add(`I7: ${breach.message}`);
    if (this.breaches.size === 0) await this.bringBackThePast();
    const asked = this.stage.asked(this.caseId);
    return {
      outcome: [...this.story, end.run.status].join(', '),
      attempts: end.steps.find((step) => step.seq === this.seq)?.attempt ?? 0,
      asked: kind === 'llm' ? asked.first : kind === 'last' ? asked.last : null,
      raw: this.stage.ledger(this.caseId).length,
      applied: ledger.filter((entry) => entry.applied).length,
      breaches: [...this.breaches],
      recoveredMs,
    };
  }

  private async bringBackThePast(): Promise<void> {
    const effects = () => this.stage.ledger(this.caseId).length;
    const before = effects();
    // Within a worker's hook a fault would be taken for one of its own.
    const found = await bringBackThePast(this.pool, this.dashboard, this.runId).catch((error) => [`I2: ${error}`]);
    for (const breach of found) this.breaches.add(breach);
    if (effects() !== before) this.breaches.add('I6: an old job called a tool');
  }

  /** For a case that failed: where everything stood. */
  async describe(): Promise<string> {
    if (this.runId === '') return 'the run was not accepted';
    const { run, steps, events } = await readRows(this.pool, this.runId);
    const { rows: workers } = await this.pool.query(
      'select id, pid, state, beat, now() - beat_at as age from pawl.workers',
    );
    return [
      JSON.stringify(run),
      ...steps.map((step) => JSON.stringify(step)),
      events.map(({ type, seq, data }) => [type, seq, data].join(' ')).join('\n'),
      JSON.stringify(workers),
    ].join('\n');
  }

  async stopWorker(): Promise<void> {
    await this.worker?.stop(5_000);
  }
}
