/**
 * A worker's post: what one process needs to carry steps, and the little state it keeps while it does: the calls in
 * flight, the suspects (suspects.ts), whether the database answers. Built by worker.ts, used by run-step.ts.
 */
import type { Agent } from '../core/agent.js';
import { PawlError } from '../core/errors.js';
import type {
  Clock,
  Consumer,
  Delivery,
  Dispatch,
  Embedder,
  Heart,
  Ids,
  Llm,
  Log,
  Queue,
  Store,
  Watch,
} from '../ports.js';
import { Call } from './calls.js';
import { Embeddings } from './embeddings.js';
import type { Claimed, Gap, OnGap } from './gaps.js';
import { Suspects } from './suspects.js';
import { ToolHealth } from './tool-health.js';

export interface PostParts {
  store: Store;
  watch: Watch;
  queue: Queue;
  llm: Llm;
  /** Left out: relevance and likeness are judged by words alone. */
  embedder?: Embedder | null;
  clock: Clock;
  ids: Ids;
  log: Log;
  agents: ReadonlyMap<string, Agent>;
  /** For tests that end the process in a gap. */
  onGap?: OnGap;
}

/** First pause after the database did not answer; it doubles up to the second. */
const firstPauseMs = 100;
const longestPauseMs = 2_000;
/** The database is said to be away once in this time, not at every try. */
const sayEveryMs = 10_000;

export class Post {
  readonly serves: ReadonlyMap<string, string>;
  private readonly calls = new Map<string, Call>();
  readonly suspects: Suspects;
  readonly toolHealth: ToolHealth;
  readonly embeddings: Embeddings | null;
  private heart: Heart | null = null;
  private id = '';
  private consumer: Consumer | null = null;
  private stopping = false;
  private lettingGo = false;
  private waitingForDatabase = 0;
  private saidAtMs = Number.NEGATIVE_INFINITY;
  private whenDeclaredDead = () => {};

  constructor(private readonly parts: PostParts) {
    this.serves = new Map([...parts.agents.values()].map((agent) => [agent.name, agent.version]));
    this.toolHealth = new ToolHealth(parts);
    const { embedder = null } = parts;
    this.embeddings = embedder === null ? null : new Embeddings({ ...parts, embedder });
    this.suspects = new Suspects({ ...parts, dispatch: (dispatches) => this.dispatch(dispatches) });
  }

  get store(): Store {
    return this.parts.store;
  }
  get watch(): Watch {
    return this.parts.watch;
  }
  get llm(): Llm {
    return this.parts.llm;
  }
  get ids(): Ids {
    return this.parts.ids;
  }
  get log(): Log {
    return this.parts.log;
  }
  get agents(): ReadonlyMap<string, Agent> {
    return this.parts.agents;
  }

  workerId(): string {
    return this.id;
  }

  /** Takes the registration that the process works under from now on. */
  takeHeart(id: string, heart: Heart, whenDeclaredDead: () => void): void {
    this.id = id;
    this.heart = heart;
    this.whenDeclaredDead = whenDeclaredDead;
    heart.onAbort(({ token, cause }) => this.calls.get(token)?.abort(cause));
    heart.onDeclaredDead(() => {
      this.registerAnew(id);
    });
  }

  takeConsumer(consumer: Consumer): void {
    this.consumer = consumer;
  }

  /**
   * The registration was declared dead: what is claimed under it is lost, and the process works on under a new one. An
   * answer that is late, to a claim under an older registration, says nothing of the present one.
   */
  registerAnew(deadId: string): void {
    if (deadId !== this.id) return;
    for (const call of this.calls.values()) if (call.heart === this.heart && call.isClaimed) call.abort('lost');
    this.whenDeclaredDead();
  }

  openCall(token: string): Call {
    const { clock } = this.parts;
    const call = new Call(token, clock.monotonicMs(), this.heart, () => clock.monotonicMs());
    this.calls.set(token, call);
    this.heart?.hold(token);
    return call;
  }

  /** The registration to claim under now. Its beats list the token from here on, or the claim would be taken for dropped. */
  claimAs(token: string): string {
    const call = this.calls.get(token);
    if (call !== undefined && call.heart !== this.heart) {
      call.heart?.drop(token);
      this.heart?.hold(token);
      call.heart = this.heart;
    }
    return this.id;
  }

  claimed(token: string): void {
    const call = this.calls.get(token);
    if (call === undefined) return;
    call.claimedAtMs = this.parts.clock.monotonicMs();
    call.isClaimed = true;
    call.heart?.claimed(token);
  }

  /** The database's time, reckoned from what it said with the claim; behind it by the time that answer took. */
  databaseTime(call: Call, claim: Claimed): Date {
    return new Date(claim.now.getTime() + this.parts.clock.monotonicMs() - call.claimedAtMs);
  }

  closeCall(token: string): void {
    this.calls.get(token)?.heart?.drop(token);
    this.calls.delete(token);
    this.suspects.free(token);
  }

  /** Waits until the beats are confirmed; false once the process is stopping. */
  async mayClaim(): Promise<boolean> {
    while (!this.stopping && this.heart?.isConfirmed() !== true) await this.parts.clock.sleep(firstPauseMs);
    return !this.stopping;
  }

  /**
   * Repeats `work` while the database does not answer it, and fetches nothing meanwhile. At the end of a shutdown it gives
   * up and answers `otherwise`. Faults other than an unreachable database are thrown.
   */
  async whileReachable<T, E>(work: () => Promise<T>, otherwise: E): Promise<T | E> {
    let pauseMs = firstPauseMs;
    for (let waiting = false; ; ) {
      try {
        const answer = await work();
        if (waiting) this.databaseIsBack();
        return answer;
      } catch (error) {
        const isAway = error instanceof PawlError && error.code === 'database_unreachable';
        if (!isAway || this.lettingGo) {
          if (waiting) this.databaseIsBack();
          if (isAway) return otherwise;
          throw error;
        }
        if (!waiting) this.databaseIsAway(error);
        waiting = true;
        this.sayAway(error);
        await this.parts.clock.sleep(pauseMs);
        pauseMs = Math.min(longestPauseMs, pauseMs * 2);
      }
    }
  }

  /** Hands steps to the queue. What it does not take, the sweep finds. */
  async dispatch(dispatches: readonly Dispatch[]): Promise<void> {
    if (dispatches.length === 0) return;
    try {
      await this.parts.queue.add(dispatches);
    } catch (error) {
      this.log.warn(
        { steps: dispatches.length, cause: String(error) },
        'the queue does not answer; the sweep will dispatch',
      );
    }
  }

  /** Nothing to wait for but in a test. */
  reached(gap: Gap, delivery: Delivery, claim: Claimed | null = null): void | Promise<void> {
    return this.parts.onGap?.(gap, delivery, claim);
  }

  /** Claims nothing more. */
  beginStop(): void {
    this.stopping = true;
  }

  /** Aborts what still runs, so that it is handed back. */
  abortCalls(): void {
    for (const call of this.calls.values()) call.abort('shutdown');
  }

  /** Gives up what the database does not answer. */
  letGo(): void {
    this.lettingGo = true;
  }

  private databaseIsAway(error: PawlError): void {
    this.waitingForDatabase += 1;
    if (this.waitingForDatabase === 1) this.consumer?.pause();
    this.sayAway(error);
  }

  private databaseIsBack(): void {
    this.waitingForDatabase -= 1;
    if (this.waitingForDatabase > 0 || this.stopping) return;
    this.log.info({}, 'the database answers again');
    this.consumer?.resume();
  }

  private sayAway(error: PawlError): void {
    const now = this.parts.clock.monotonicMs();
    if (now - this.saidAtMs < sayEveryMs) return;
    this.saidAtMs = now;
    this.log.warn(
      { cause: error.message, waiting: this.waitingForDatabase },
      'the database does not answer; asking again',
    );
  }
}
