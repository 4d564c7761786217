/**
 * A campaign: real processes work on known runs while everything around them is broken by a seed, until all runs are begun
 * or the time is over; then everything is made whole, every run must come to its end, and the evidence is kept. Read
 * evidence.ts for what is kept, nemesis.ts for what is broken, clients.ts for who asks for the runs.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Clients } from './clients.js';
import { dumpTables } from './dump.js';
import type { Backend, Fault, FaultKind, Meta } from './evidence.js';
import type { Scene, Times } from './faults.js';
import { withInFlight } from './in-flight.js';
import { commitOf, machineOf } from './machine.js';
import { type LaneName, Nemesis, type Pace } from './nemesis.js';
import type { Notebook } from './notebook.js';
import { type Plan, planOf } from './plan.js';
import type { PostgresService } from './postgres-service.js';
import { randomOf } from './random.js';
import { isKill } from './recovery.js';
import { inTheatre, type Theatre } from './theatre.js';

export interface CampaignOptions {
  seed: number;
  runs: number;
  /** And as many more as it takes until so much was broken: how fast runs end says nothing of that. */
  atLeast?: Meant;
  minutes: number;
  backend: Backend;
  heartbeatMs: number;
  deathMs: number;
  concurrency: number;
  openRuns: number;
  /** Between two starts, at least: runs must be on their way for as long as things are broken. */
  startEveryMs: number;
  /** Time at the start in which nothing is broken. */
  quietMs: number;
  paces: Record<LaneName, Pace>;
  times: Times;
  /** Null: drawn by the seed. */
  layout: string | null;
  /** Time that a worker has between SIGTERM and its end; absent: 5 s. */
  shutdownMs?: number;
  only: readonly FaultKind[] | null;
  /** By so much longer than planned each call takes; absent: 0. */
  callMs?: number;
  /** What is waited for after each fault, before the pause that follows it. */
  afterFault?: (fault: Fault, theatre: Theatre) => Promise<void>;
  /** Folder of the repository whose code is tried; absent: this one. */
  root?: string;
  /** Made anew for the evidence. */
  folder: string;
  say: (line: string) => void;
  /** Nothing is broken from here on; the runs that are left come to their end. */
  whenWhole?: () => void;
  signal?: AbortSignal;
}

/** How much of what a slow machine may not come to within the time of its runs. */
export interface Meant {
  kills: number;
  zombies: number;
}

/** Always with a process that only maintains: what works is killed too often to see another's heart stand still. */
const layouts = ['aam', 'asm', 'ssm', 'aasm'] as const;
const livenessMs = 60_000;
const sayEveryMs = 10_000;

/** Runs it and leaves the evidence in the folder; the checker is asked by the caller. */
export async function runCampaign(options: CampaignOptions): Promise<void> {
  const layout = options.layout ?? randomOf(options.seed, 'layout').pick(layouts);
  await inTheatre({ ...options, layout }, (theatre) => conduct(options, layout, theatre));
}

async function conduct(options: CampaignOptions, layout: string, theatre: Theatre): Promise<void> {
  const plans = plansUntil(options, theatre.notebook);
  const { withdrawnMs } = options.times;
  const clients = new Clients({ ...options, ...theatre, services: theatre.services('clients'), plans, withdrawnMs });
  try {
    await playAll(options, layout, theatre, clients);
  } finally {
    await clients.close();
  }
}

async function playAll(options: CampaignOptions, layout: string, theatre: Theatre, clients: Clients): Promise<void> {
  const { seed, backend, folder, say, atLeast } = options;
  const { postgres, redis, nets, fleet, queues, notebook, now, apiKey } = theatre;
  const startedAt = now();
  await clients.open();
  const scene: Scene = { backend, postgres, redis, nets, fleet, queues, times: options.times };
  const afterFault = async (fault: Fault) => options.afterFault?.(fault, theatre);
  const nemesis = new Nemesis({ ...options, scene, notebook, now, afterFault });

  const endsAt = now() + options.minutes * 60_000;
  const inTime = () => now() < endsAt && options.signal?.aborted !== true;
  const telling = tellProgress(clients, notebook.faults, say);
  const starting = clients.startAll(inTime);
  await nemesis.quiet(options.quietMs);
  let allStarted = false;
  void starting.then(() => {
    allStarted = true;
  });
  // The last runs end in peace: with few left on their way, most faults would hit nothing. Where so much was meant to be
  // broken, it is by then.
  const isOver = () => allStarted && (atLeast !== undefined || clients.progress().open < options.openRuns * 0.7);
  await nemesis.rage(
    () => inTime() && !isOver(),
    () => atLeast !== undefined && killsIn(notebook.faults) >= atLeast.kills,
  );
  await starting;
  await nemesis.heal();
  const lastFaultAt = now();
  say('everything is whole again');
  options.whenWhole?.();
  const settledAt = await settled(clients, now, lastFaultAt + livenessMs);
  clearInterval(telling);
  if (settledAt === null) say(`not at their end: ${clients.unsettled().slice(0, 10).join(' ')}`);
  // Whoever still records, or is late with it, has a moment.
  await delay(500);
  await dumpTables(folder, postgres);
  await clients.close();
  await theatre.end();
  for (const fault of await panicsOf(postgres, notebook.faults, now)) notebook.fault(fault);
  notebook.rewriteFaults(withInFlight(folder, notebook.faults));
  const { heartbeatMs, deathMs, concurrency, openRuns, minutes } = options;
  const runs = Math.max(options.runs, clients.progress().started);
  const meta: Meta = {
    seed,
    commit: await commitOf(options.root),
    machine: machineOf(postgres.version, redis?.version ?? null),
    backend,
    settings: { runs, minutes, heartbeatMs, deathMs, layout, concurrency, openRuns },
    unavailable: 'missing' in postgres.small ? { postgres_disk_full: postgres.small.missing } : {},
    secrets: [apiKey, new URL(postgres.url).password],
    startedAt,
    lastFaultAt,
    settledAt,
    livenessMs,
    endedAt: now(),
  };
  notebook.meta(meta);
}

function* plansUntil({ seed, runs, atLeast }: CampaignOptions, { faults }: Notebook): Iterable<Plan> {
  const isShort = ({ kills, zombies }: Meant) => killsIn(faults) < kills || zombiesIn(faults) < zombies;
  for (let n = 0; n < runs || (atLeast !== undefined && isShort(atLeast)); n++) yield planOf(seed, n);
}

const killsIn = (faults: readonly Fault[]) => faults.filter((fault) => isKill(fault) && fault.failed === null).length;
const zombiesIn = (faults: readonly Fault[]) =>
  faults.filter(({ kind, failed }) => kind === 'zombie' && failed === null).length;

/** What Postgres did to itself is written down beside what was done to it. */
async function panicsOf(postgres: PostgresService, faults: readonly Fault[], now: () => number): Promise<Fault[]> {
  const panics = await postgres.panics();
  const lastId = Math.max(0, ...faults.map(({ id }) => id));
  return panics.map(({ at, backAt, says }, index) => ({
    id: lastId + 1 + index,
    kind: 'postgres_panicked',
    target: 'postgres',
    beganAt: at,
    endedAt: backAt ?? now(),
    details: { says },
    inFlight: [],
    failed: null,
  }));
}

async function settled(clients: Clients, now: () => number, until: number): Promise<number | null> {
  while (clients.unsettled().length > 0) {
    if (now() > until) return null;
    await delay(100);
  }
  return now();
}

function tellProgress(clients: Clients, faults: { length: number }, say: (line: string) => void) {
  return setInterval(() => {
    const { started, open } = clients.progress();
    say(`${started} runs begun, ${open} on their way, ${faults.length} faults`);
  }, sayEveryMs);
}
