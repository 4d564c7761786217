/**
 * A campaign: real processes work on known runs while everything around them is broken by a seed, until all runs are begun
 * or the time is over; then everything is made whole, every run must come to its end, and the evidence is kept. Read
 * evidence.ts for what is kept, nemesis.ts for what is broken, clients.ts for who asks for the runs.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openQueuesByHand } from './by-hand.js';
import { Clients } from './clients.js';
import { clockOf, openEpoch } from './clock.js';
import { type Code, compile } from './code.js';
import { dumpTables } from './dump.js';
import type { Backend, FaultKind, Meta } from './evidence.js';
import type { Scene, Times } from './faults.js';
import { Fleet, namesOf } from './fleet.js';
import { type Guard, openGuard } from './guard.js';
import { withInFlight } from './in-flight.js';
import { commitOf, machineOf } from './machine.js';
import { type LaneName, Nemesis, type Pace } from './nemesis.js';
import { openNet, proxiesOf } from './net.js';
import { openNotebook } from './notebook.js';
import { planOf } from './plan.js';
import { startPostgres } from './postgres-service.js';
import { randomOf } from './random.js';
import { startRedis } from './redis-service.js';
import type { WorldAddresses, WorldOrder } from './world.js';

export interface CampaignOptions {
  seed: number;
  runs: number;
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
  only: readonly FaultKind[] | null;
  /** Folder of the repository whose code is tried; absent: this one. */
  root?: string;
  /** Made anew for the evidence. */
  folder: string;
  say: (line: string) => void;
  signal?: AbortSignal;
}

/** Always with a process that only maintains: what works is killed too often to see another's heart stand still. */
const layouts = ['aam', 'asm', 'ssm', 'aasm'] as const;
const livenessMs = 60_000;
const startMs = 60_000;
const sayEveryMs = 10_000;

/** Runs it and leaves the evidence in the folder; the checker is asked by the caller. */
export async function runCampaign(options: CampaignOptions): Promise<void> {
  const base = await mkdtemp(join(tmpdir(), 'pawl-campaign-'));
  await chmod(base, 0o755); // under root Postgres runs as another account
  const guard = openGuard();
  guard.remove(base);
  const toClose: (() => Promise<unknown>)[] = [];
  try {
    await conduct(options, base, guard, toClose);
  } finally {
    for (const close of toClose.reverse()) await close().catch((error) => options.say(`at the end: ${error}`));
    await rm(base, { recursive: true, force: true });
    guard.dismiss();
  }
}

async function conduct(
  options: CampaignOptions,
  base: string,
  guard: Guard,
  toClose: (() => Promise<unknown>)[],
): Promise<void> {
  const { seed, backend, folder, say } = options;
  const epoch = openEpoch();
  const now = clockOf(epoch);
  const startedAt = now();
  const notebook = openNotebook(folder);
  const apiKey = `sk-campaign-${seed}-0123456789abcdef`;

  const code = await compile(options.root);
  guard.remove(code.folder);
  toClose.push(() => code.remove());
  const postgres = await startPostgres(base, guard);
  toClose.push(() => postgres.stop());
  const redis = backend === 'redis' ? await startRedis(base, guard) : null;
  if (redis !== null) toClose.push(() => redis.stop());
  const layout = options.layout ?? randomOf(seed, 'layout').pick(layouts);
  const names = ['clients', ...namesOf(layout)];
  const nets = await Promise.all(names.map((name) => openNet(name, postgres.url, redis?.url ?? null)));
  toClose.push(() => Promise.all(proxiesOf(nets).map((proxy) => proxy.close())));
  const world = await startWorld(code, { folder, seed, epoch, apiKey });
  toClose.push(() => world.stop());
  const queues = await openQueuesByHand(postgres, redis?.url ?? null);
  toClose.push(() => queues.close());

  const services = (whose: string) => {
    const net = nets.find(({ name }) => name === whose);
    return { databaseUrl: net?.postgres.url ?? '', redisUrl: net?.redis?.url ?? null };
  };
  const fleet = new Fleet({
    code,
    layout,
    notebook,
    now,
    services,
    order: { folder, epoch, ...world.addresses, apiKey, shutdownMs: 5_000, ...timesOf(options) },
  });
  toClose.push(() => fleet.stop(10_000));
  await fleet.start(startMs);
  const plans = Array.from({ length: options.runs }, (_, n) => planOf(seed, n));
  const clients = new Clients({
    ...options,
    services: services('clients'),
    postgres,
    worldUrl: world.addresses.worldUrl,
    plans,
    notebook,
    now,
  });
  toClose.push(() => clients.close());
  await clients.open();
  const scene: Scene = { backend, postgres, redis, nets, fleet, queues, times: options.times };
  const nemesis = new Nemesis({ ...options, scene, notebook, now });

  const endsAt = now() + options.minutes * 60_000;
  const inTime = () => now() < endsAt && options.signal?.aborted !== true;
  const telling = tellProgress(clients, notebook.faults, say);
  const starting = clients.startAll(inTime);
  await nemesis.quiet(options.quietMs);
  let allStarted = false;
  void starting.then(() => {
    allStarted = true;
  });
  // The last runs end in peace: with few left on their way, most faults would hit nothing.
  await nemesis.rage(() => inTime() && !(allStarted && clients.progress().open < options.openRuns * 0.7));
  await starting;
  await nemesis.heal();
  const lastFaultAt = now();
  say('everything is whole again');
  const settledAt = await settled(clients, now, lastFaultAt + livenessMs);
  clearInterval(telling);
  if (settledAt === null) say(`not at their end: ${clients.unsettled().slice(0, 10).join(' ')}`);
  // Whoever still records, or is late with it, has a moment.
  await delay(500);
  await dumpTables(folder, postgres);
  await clients.close();
  await fleet.stop(10_000);
  await world.stop();
  notebook.rewriteFaults(withInFlight(folder, notebook.faults));
  const { heartbeatMs, deathMs, concurrency, openRuns, runs, minutes } = options;
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

function timesOf({ heartbeatMs, deathMs, concurrency }: CampaignOptions) {
  return { heartbeatMs, deathMs, concurrency };
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

/** The process that is never killed: the model and the ledger. */
async function startWorld(code: Code, order: WorldOrder) {
  const child = fork(code.program('world'), [JSON.stringify(order)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit');
  const said = once(child, 'message') as Promise<[WorldAddresses]>;
  const [addresses] = await Promise.race([
    said,
    gone.then(([code, signal]) => {
      throw new Error(`the world ended before it began: ${code ?? signal}`);
    }),
  ]);
  let stopping = false;
  return {
    addresses,
    async stop() {
      if (!stopping && child.connected) child.send('end', () => {});
      stopping = true;
      await gone;
    },
  };
}
