/**
 * Breaks things: four lanes side by side (kills, processes, services and the net, jobs and replies), each drawing one fault after
 * the other by weight from the seed. Writes down what it did, and at the end makes everything whole again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { bullmqSchemaFaults } from './bullmq-schema-faults.js';
import type { Fault, FaultKind } from './evidence.js';
import { between, type FaultMaker, type Scene } from './faults.js';
import { jobFaults } from './job-faults.js';
import { proxiesOf } from './net.js';
import { netFaults, swallowedReply } from './net-faults.js';
import type { Notebook } from './notebook.js';
import { healDisk, healSerialization, postgresFaults } from './postgres-faults.js';
import { killFaults, processFaults } from './process-faults.js';
import { type Random, randomOf } from './random.js';
import { redisFaults } from './redis-faults.js';

/**
 * How often a lane breaks something: by what is being done, so that a slow machine is not broken down, but only kept from
 * working for as long as it bears.
 */
export interface Pace {
  /** A pause from and to, at least. */
  pauseMs: readonly [number, number];
  /** Steps recorded since the last fault, at least. */
  steps: number;
  /** And no longer than that, whatever was recorded. */
  longestMs: number;
}

export type LaneName = 'kills' | 'processes' | 'services' | 'jobs';

export interface NemesisOptions {
  scene: Scene;
  paces: Record<LaneName, Pace>;
  seed: number;
  notebook: Notebook;
  now: () => number;
  /** Kinds to leave out, or nothing but these. */
  only: readonly FaultKind[] | null;
  /** What the lane of a fault waits for before its next pause. */
  afterFault(fault: Fault): Promise<void>;
}

interface Lane {
  name: LaneName;
  pace: Pace;
  makers: readonly FaultMaker[];
  random: Random;
}

/** A fault that is not over by then is given up on; what it broke is healed at the end. */
const longestFaultMs = 150_000;
const servicesAgainMs = 60_000;

export class Nemesis {
  private readonly lanes: Lane[];
  private readonly aside = new Set<Promise<void>>();
  private asideRuns = false;
  private stopping = false;
  private ids = 0;

  constructor(private readonly options: NemesisOptions) {
    const { scene, paces, seed, only, now } = options;
    const allowed = (makers: readonly FaultMaker[]) =>
      makers.filter(({ kind }) => only === null || only.includes(kind));
    const queueFaults = scene.backend === 'redis' ? redisFaults : bullmqSchemaFaults;
    const lane = (name: LaneName, makers: readonly FaultMaker[]): Lane => {
      return { name, pace: paces[name], makers: allowed(makers), random: randomOf(seed, 'lane', name) };
    };
    this.lanes = [
      lane('kills', killFaults(now)),
      lane('processes', processFaults(now)),
      lane('services', [...queueFaults, ...postgresFaults(scene), ...netFaults]),
      lane('jobs', [...jobFaults, swallowedReply]),
    ].filter(({ makers }) => makers.length > 0);
  }

  /** A time in which nothing is broken. */
  async quiet(ms: number): Promise<void> {
    const { now, notebook } = this.options;
    const beganAt = now();
    await delay(ms);
    const rest = { details: {}, inFlight: [], failed: null };
    notebook.fault({ id: this.nextId(), kind: 'quiet', target: 'everything', beganAt, endedAt: now(), ...rest });
  }

  /**
   * Breaks things while `mayGoOn`; returns when the last fault is over. Kills end sooner where there were enough: a slow
   * machine would be kept from all else by more of them.
   */
  async rage(mayGoOn: () => boolean, killedEnough: () => boolean = () => false): Promise<void> {
    const goesOn = (name: LaneName) => mayGoOn() && !this.stopping && !(name === 'kills' && killedEnough());
    await Promise.all(this.lanes.map((lane) => this.runLane(lane, () => goesOn(lane.name))));
    await Promise.all(this.aside);
  }

  /** Ends early. */
  stop(): void {
    this.stopping = true;
  }

  private async runLane({ pace, makers, random }: Lane, goesOn: () => boolean): Promise<void> {
    const weighted = makers.map((item) => ({ item, weight: item.weight }));
    while (goesOn()) {
      await this.pause(pace, random, goesOn);
      if (!goesOn()) return;
      const maker = random.weighted(weighted);
      if (maker.aside !== true) await this.options.afterFault(await this.commit(maker, random));
      else if (!this.asideRuns) this.commitAside(maker, random);
    }
  }

  private async pause({ pauseMs, steps, longestMs }: Pace, random: Random, goesOn: () => boolean): Promise<void> {
    const { now } = this.options;
    const [until, from] = [now() + longestMs, this.recorded()];
    await delay(between(random, pauseMs));
    while (this.recorded() - from < steps && now() < until && goesOn()) await delay(50);
  }

  private recorded(): number {
    return this.options.scene.nets.reduce((sum, { postgres }) => sum + postgres.records(), 0);
  }

  /** One at a time, beside its lane. */
  private commitAside(maker: FaultMaker, random: Random): void {
    this.asideRuns = true;
    const committed = this.commit(maker, random).then(() => {
      this.asideRuns = false;
      this.aside.delete(committed);
    });
    this.aside.add(committed);
  }

  /** Never throws: what could not be done is written down as that. */
  private async commit({ kind, make }: FaultMaker, random: Random): Promise<Fault> {
    const { scene, now, notebook } = this.options;
    const id = this.nextId();
    const beganAt = now();
    const write = (rest: Partial<Fault>): Fault => {
      const nothing = { target: kind, details: {}, inFlight: [], failed: null };
      const fault = { id, kind, beganAt, endedAt: now(), ...nothing, ...rest };
      notebook.fault(fault);
      return fault;
    };
    const made = make(scene, random);
    made.catch(() => {});
    try {
      const { target, details = {}, hit, inFlight = [], failed } = await bounded(made);
      const atOnce = hit === undefined ? {} : { hitAt: hit.at };
      const after = inFlight.map((flight) => ({ ...flight, gap: 'after_call' as const }));
      return write({ target, details: { ...details, ...atOnce }, inFlight: after, failed: failed ?? null });
    } catch (error) {
      return write({ failed: String(error).slice(0, 300) });
    }
  }

  /** Makes everything whole again, whatever was left broken. */
  async heal(): Promise<void> {
    const { scene } = this.options;
    const { nets, fleet, redis, postgres, queues } = scene;
    for (const proxy of proxiesOf(nets)) {
      proxy.delay(0);
      proxy.freeze(false);
      await proxy.refuse(false);
    }
    for (const place of fleet.places) {
      place.signal('SIGCONT');
      place.tell({ do: 'live' });
    }
    await healDisk(scene);
    await postgres.revive();
    await healSerialization(scene);
    if (redis !== null) {
      await redis.client.config('SET', 'maxmemory', '0');
      await redis.client.replicaof('NO', 'ONE');
    }
    await queues.resumeAll();
    await Promise.all(fleet.places.map((place) => place.readyAgain(servicesAgainMs)));
  }

  private nextId(): number {
    this.ids += 1;
    return this.ids;
  }
}

async function bounded<T>(work: Promise<T>): Promise<T> {
  const timer = new AbortController();
  try {
    return await Promise.race([
      work,
      delay(longestFaultMs, undefined, { signal: timer.signal }).then(() => {
        throw new Error(`it was not over after ${longestFaultMs} ms`);
      }),
    ]);
  } finally {
    timer.abort();
  }
}
