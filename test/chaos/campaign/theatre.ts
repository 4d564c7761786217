/**
 * Everything a campaign is played on: a Postgres and a Redis, a net for each process, the world outside, the fleet of workers
 * and the hands at the queues. Opened in order, closed in the opposite one, whatever happens in between.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openQueuesByHand, type QueuesByHand } from './by-hand.js';
import { clockOf, openEpoch } from './clock.js';
import { type Code, compile } from './code.js';
import type { Backend } from './evidence.js';
import { Fleet, namesOf } from './fleet.js';
import { type Guard, openGuard } from './guard.js';
import { type Net, openNet, proxiesOf } from './net.js';
import { type Notebook, openNotebook } from './notebook.js';
import { type PostgresService, startPostgres } from './postgres-service.js';
import { type RedisService, startRedis } from './redis-service.js';
import type { WorkerOrder } from './worker.js';
import type { WorldAddresses, WorldOrder } from './world.js';

export interface TheatreOptions {
  seed: number;
  backend: Backend;
  heartbeatMs: number;
  deathMs: number;
  concurrency: number;
  layout: string;
  /** Time that a worker has between SIGTERM and its end. */
  shutdownMs?: number;
  /** By so much longer than planned each call takes; absent: 0. */
  callMs?: number;
  /** Folder of the repository whose code is tried; absent: this one. */
  root?: string;
  /** Made anew for the evidence. */
  folder: string;
  say: (line: string) => void;
}

export interface Theatre {
  postgres: PostgresService;
  /** Null on the Postgres backend. */
  redis: RedisService | null;
  nets: readonly Net[];
  queues: QueuesByHand;
  fleet: Fleet;
  worldUrl: string;
  notebook: Notebook;
  now: () => number;
  apiKey: string;
  /** The services as a process, or the clients, reach them. */
  services(name: string): Pick<WorkerOrder, 'databaseUrl' | 'redisUrl'>;
  /** Ends the processes in good order: then all that they wrote is there. */
  end(): Promise<void>;
}

const startMs = 60_000;
const endMs = 10_000;

export async function inTheatre<T>(options: TheatreOptions, play: (theatre: Theatre) => Promise<T>): Promise<T> {
  const base = await mkdtemp(join(tmpdir(), 'pawl-campaign-'));
  await chmod(base, 0o755); // under root Postgres runs as another account
  const guard = openGuard();
  guard.remove(base);
  const toClose: (() => Promise<unknown>)[] = [];
  try {
    return await play(await openTheatre(options, base, guard, toClose));
  } finally {
    for (const close of toClose.reverse()) await close().catch((error) => options.say(`at the end: ${error}`));
    await rm(base, { recursive: true, force: true });
    guard.dismiss();
  }
}

async function openTheatre(
  options: TheatreOptions,
  base: string,
  guard: Guard,
  toClose: (() => Promise<unknown>)[],
): Promise<Theatre> {
  const { seed, backend, folder, layout, heartbeatMs, deathMs, concurrency, shutdownMs = 5_000, callMs = 0 } = options;
  const epoch = openEpoch();
  const now = clockOf(epoch);
  const notebook = openNotebook(folder);
  const apiKey = `sk-campaign-${seed}-0123456789abcdef`;

  const code = await compile(options.root);
  guard.remove(code.folder);
  toClose.push(() => code.remove());
  const postgres = await startPostgres(base, guard);
  toClose.push(() => postgres.stop());
  const redis = backend === 'redis' ? await startRedis(base, guard) : null;
  if (redis !== null) toClose.push(() => redis.stop());
  const names = ['clients', ...namesOf(layout)];
  const nets = await Promise.all(names.map((name) => openNet(name, postgres.url, redis?.url ?? null)));
  toClose.push(() => Promise.all(proxiesOf(nets).map((proxy) => proxy.close())));
  const world = await startWorld(code, { folder, seed, epoch, apiKey, callMs });
  toClose.push(() => world.stop());
  const queues = await openQueuesByHand(postgres, redis?.url ?? null);
  toClose.push(() => queues.close());

  const services = (whose: string) => {
    const net = nets.find(({ name }) => name === whose);
    return { databaseUrl: net?.postgres.url ?? '', redisUrl: net?.redis?.url ?? null };
  };
  const order = { folder, epoch, ...world.addresses, apiKey, shutdownMs, heartbeatMs, deathMs, concurrency };
  const fleet = new Fleet({ code, layout, notebook, now, services, order });
  toClose.push(() => fleet.stop(endMs));
  await fleet.start(startMs);
  const { worldUrl } = world.addresses;
  return {
    ...{ postgres, redis, nets, queues, fleet, worldUrl, notebook, now, apiKey, services },
    async end() {
      await fleet.stop(endMs);
      await world.stop();
    },
  };
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
