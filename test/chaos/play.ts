/**
 * Plays one case: a run, a worker that is hit in one gap of one step, and a second one that takes over. An operator does
 * what operators do: presses Retry on a dead letter, and answers for a call of unknown fate after a look at the world
 * outside. Then the past comes back (old jobs, late records) and must change nothing. Next: invariants.ts.
 */
import pg from 'pg';
import { type Client, openClient, startWorkerProcess, type WorkerProcess } from '../../src/app.js';
import type { Gap, OnGap } from '../../src/engine/gaps.js';
import { quietLog } from '../support/quiet-log.js';
import type { TestDatabase } from '../support/services.js';
import { type Case, canPressRetry, crashesToDeath, targetSeq } from './cases.js';
import { castOf } from './cast.js';
import { type Dashboard, openDashboard } from './dashboard.js';
import { breachesAtEnd, breachesNow, Stillness } from './invariants.js';
import { type LogLine, logTo } from './log-lines.js';
import { bringBackThePast } from './past.js';
import { type Rows, readRows } from './rows.js';
import type { Stage } from './stage.js';
import { isStruck, type Strike, strikeOf } from './strike.js';
import { until } from './until.js';
import type { Order } from './victim.js';
import type { Victims } from './victims.js';

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
  /** Everything there is to see of it, for a case that ended otherwise than it should. */
  seen: string;
}

/** Times short enough for a test, long enough for a busy machine not to lose a beat. */
const times = { heartbeatMs: 200, deathMs: 3_000 };
/**
 * A job whose worker died is failed or delivered again by the queue itself, once its lock is over. Where a death is to be
 * shown that is waited for; elsewhere it would only come before what is to be seen.
 */
const lockMs = { ofDeaths: 8_000, otherwise: 30_000 };
/** No bound is waited out. */
const shownWithinLooks = 900;
const endsWithinLooks = 1_200;

export interface Props {
  stage: Stage;
  victims: Victims;
  /** Empty; and so it is left. */
  database: TestDatabase;
  /** Null: the queue lives in Postgres. */
  redisUrl: string | null;
}

export async function playCase(played: Case, props: Props): Promise<Played> {
  const scene = await openScene(played, props);
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

async function openScene(played: Case, props: Props) {
  const { database, redisUrl } = props;
  const services = { databaseUrl: database.url, redisUrl };
  const pool = new pg.Pool({ connectionString: database.url, max: 2, application_name: 'the checker' });
  pool.on('error', () => {});
  const dashboard = await openDashboard(services);
  if (redisUrl !== null) await dashboard.wipe();
  const client = await openClient({ ...services, log: quietLog });
  const scene = new Scene(played, props, services, pool, dashboard, client);
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
      await database.clear();
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
  private isWiped = false;
  private readonly stillness = new Stillness();
  /** What its workers logged. */
  private readonly lines: string[] = [];
  private readonly stage: Stage;
  private readonly times: typeof times & { lockMs: number };

  constructor(
    private readonly played: Case,
    private readonly props: Props,
    private readonly services: { databaseUrl: string; redisUrl: string | null },
    private readonly pool: pg.Pool,
    private readonly dashboard: Dashboard,
    private readonly client: Client,
  ) {
    this.seq = targetSeq(played.kind);
    this.caseId = played.id;
    this.stage = props.stage;
    this.times = { ...times, lockMs: played.place === 'after_death' ? lockMs.ofDeaths : lockMs.otherwise };
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
    const { services, times, caseId } = this;
    const order: Order = { ...services, ...times, stageUrl: this.stage.url, caseId, strike };
    await this.props.victims.kill(order, {
      whenUp: () => this.startRun(),
      look: () => this.letCallsRunOut(),
      keep: (line) => this.keep('victim', line),
      looks: endsWithinLooks,
    });
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
    await until(`the queue wiped ${strike.gap}`, endsWithinLooks, () => this.isWiped);
  }

  private async wipe(): Promise<void> {
    await this.dashboard.wipe();
    this.hitAtMs = performance.now();
    this.isWiped = true;
  }

  private async startRun(): Promise<void> {
    if (this.runId !== '') return;
    this.runId = (await this.client.runs.start({ agent: 'clerk', input: 'put the shelf in order' })).id;
  }

  /** A worker that meets a fault of its own says so as an error; none is expected, whatever was hit. */
  private keep(who: 'victim' | 'worker', line: LogLine): void {
    this.lines.push(`${who} ${JSON.stringify(line)}`);
    if (line.level === 'error') this.breaches.add(`fault of the ${who}: ${JSON.stringify(line)}`);
  }

  /**
   * Nobody asks about a `once` call that was lost before its time is over: it passes at once. So a call has time enough to
   * be made by a machine however busy, and a claim never outlives its deadline before its worker is missed.
   */
  private async letCallsRunOut(): Promise<void> {
    if (this.played.kind !== 'once') return;
    await this.pool.query(
      `with run as (select id from pawl.runs where id = $1 for no key update)
       update pawl.steps s set due_at = now() from run
       where s.run_id = run.id and s.status = 'pending' and s.unknown and s.due_at > now()`,
      [this.runId],
    );
  }

  private startWorker(onGap?: OnGap): Promise<WorkerProcess> {
    const { agent, llm } = castOf({ stageUrl: this.stage.url, caseId: this.caseId });
    return this.props.victims.starts.pass(() =>
      startWorkerProcess({
        ...this.services,
        ...this.times,
        log: logTo((line) => this.keep('worker', line)),
        role: 'all',
        agents: [agent],
        llm,
        // Room for the jobs of the past beside calls that are held still.
        concurrency: 6,
        queues: null,
        ...(onGap === undefined ? {} : { onGap }),
      }),
    );
  }

  /** Waits for the end of the run, or a breach, and acts for its operator on the way. Answers the time that took. */
  async recover(): Promise<number> {
    await until(`the end of ${this.caseId}`, endsWithinLooks + shownWithinLooks, async () => {
      await this.letCallsRunOut();
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
    this.stillness.look(rows);
    for (const breach of breachesNow(rows, this.stillness, this.isWiped)) this.breaches.add(breach);
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
      await this.dashboard.retry(current, shownWithinLooks);
      this.story.push('Retry');
    } else {
      await this.client.runs.redrive(this.runId);
      this.story.push('redrive');
    }
    await until('the run to be revived', endsWithinLooks, async () => (await this.look()).run.status !== 'failed');
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
      seen: await this.describe(),
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

  /** Where everything stands, and what was said on the way there. */
  async describe(): Promise<string> {
    if (this.runId === '') return ['the run was not accepted', ...this.lines].join('\n');
    const { run, steps, attempts, events } = await readRows(this.pool, this.runId);
    const { rows: workers } = await this.pool.query(
      'select id, pid, state, beat, now() - beat_at as age from pawl.workers order by id',
    );
    const dispatches = steps.flatMap(({ seq, queue, dispatch }) =>
      Array.from({ length: dispatch }, (_, index) => ({ queue, runId: this.runId, seq, dispatch: index + 1 })),
    );
    return [
      JSON.stringify(run),
      ...[...steps, ...attempts, ...workers].map((row) => JSON.stringify(row)),
      ...(await this.dashboard.describe(dispatches).catch((error) => [`no word of the jobs: ${error}`])),
      ...events.map(({ type, seq, at, data }) => [at, type, seq, JSON.stringify(data)].join(' ')),
      ...this.stage.ledger(this.caseId).map((effect) => `effect ${JSON.stringify(effect)}`),
      ...this.lines,
      `operator: ${this.story.join(', ')}`,
    ].join('\n');
  }

  async stopWorker(): Promise<void> {
    await this.worker?.stop(5_000);
  }
}
