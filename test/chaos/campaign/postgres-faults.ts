/** Faults of the Postgres that holds the truth: restarted, its sessions ended, its connections, locks and disk taken. */
import { open, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { between, type FaultMaker, type Scene } from './faults.js';

const target = 'postgres';
/** Sessions of whoever is being tried. */
const others = `backend_type = 'client backend' and application_name not in ('campaign', 'pawl:presence')`;

const restart = (mode: 'fast' | 'immediate'): FaultMaker['make'] =>
  async function make({ postgres }) {
    await postgres.restart(mode);
    await postgres.revive();
    return { target };
  };

/** Takes connections, many at a time, until none is left. */
async function takeAll(url: string): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  for (;;) {
    const more = await Promise.all(Array.from({ length: 25 }, () => takeOne(url)));
    taken.push(...more.flatMap((client) => client ?? []));
    if (more.includes(null)) return taken;
  }
}

async function takeOne(url: string): Promise<pg.Client | null> {
  const client = new pg.Client({ connectionString: url, application_name: 'campaign', connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return client;
  } catch {
    await client.end().catch(() => {});
    return null;
  }
}

async function failSerialization({ postgres }: Scene, share: number, forMs: number): Promise<void> {
  await postgres.use(async (client) => {
    // 40001 as an isolated transaction gets it, 40P01 as the victim of a deadlock does.
    await client.query(`create or replace function public.campaign_fail() returns trigger language plpgsql as $$
      begin
        if random() < ${share} then
          raise exception 'campaign' using errcode = case when random() < 0.5 then '40001' else '40P01' end;
        end if;
        return new;
      end $$`);
    await client.query(`create or replace trigger campaign_fail before insert or update on pawl.steps
      for each row execute function public.campaign_fail()`);
    await delay(forMs);
  });
}

export async function healSerialization({ postgres }: Scene): Promise<void> {
  await postgres.use((client) => client.query('drop function if exists public.campaign_fail cascade'));
}

async function fillDisk(path: string): Promise<number> {
  const file = await open(join(path, 'ballast'), 'a');
  const block = Buffer.alloc(1 << 20);
  let bytes = 0;
  try {
    for (let size = block.length; size >= 512; ) {
      const wrote = await file.write(block, 0, size).then(
        ({ bytesWritten }) => bytesWritten,
        () => 0,
      );
      bytes += wrote;
      if (wrote < size) size = Math.floor(size / 2);
    }
  } finally {
    await file.close();
  }
  return bytes;
}

export async function healDisk({ postgres: { small } }: Scene): Promise<void> {
  if ('path' in small) await truncate(join(small.path, 'ballast'));
}

export function postgresFaults(scene: Scene): FaultMaker[] {
  const lockable = ['pawl.runs', 'pawl.steps', 'pawl.workers', 'pawl.instance', 'pawl.events', 'pawl.messages'];
  if (scene.backend === 'postgres') lockable.push('bullmq.job', 'bullmq.meta');
  return [
    { kind: 'postgres_fast_restart', weight: 5, make: restart('fast') },
    { kind: 'postgres_immediate_restart', weight: 5, make: restart('immediate') },
    {
      kind: 'postgres_backends_terminated',
      weight: 4,
      make: ({ postgres }) =>
        postgres.use(async (client) => {
          const { rowCount } = await client.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where ${others}`,
          );
          return { target, details: { backends: rowCount } };
        }),
    },
    {
      kind: 'postgres_connections_exhausted',
      weight: 3,
      async make({ postgres, times }, random) {
        const forMs = between(random, times.awayMs);
        // Whoever keeps a connection notices nothing: half of them lose theirs while the server is full.
        const taken = await takeAll(postgres.url);
        try {
          await taken[0]?.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where ${others} and random() < 0.5`,
          );
          const more = await takeAll(postgres.url);
          taken.push(...more);
          await delay(forMs);
        } finally {
          await Promise.all(taken.map((client) => client.end().catch(() => {})));
        }
        return { target, details: { forMs, connections: taken.length } };
      },
    },
    {
      kind: 'postgres_locked',
      weight: 4,
      make: ({ postgres, times }, random) =>
        postgres.use(async (client) => {
          const forMs = between(random, times.lockedMs);
          const table = random.pick(lockable);
          const mode = random.pick(['access exclusive', 'exclusive']);
          await client.query('begin');
          await client.query(`lock table ${table} in ${mode} mode`);
          await delay(forMs);
          await client.query('commit');
          return { target, details: { table, mode, forMs } };
        }),
    },
    {
      kind: 'postgres_serialization_failures',
      weight: 4,
      async make(scene, random) {
        const forMs = between(random, scene.times.awayMs);
        const share = random.pick([0.1, 0.3, 0.6]);
        await failSerialization(scene, share, forMs).finally(() => healSerialization(scene));
        return { target, details: { share, forMs } };
      },
    },
    {
      kind: 'postgres_disk_full',
      weight: 3,
      async make(scene, random) {
        const { small } = scene.postgres;
        if ('missing' in small) return { target, failed: small.missing };
        const forMs = between(random, scene.times.awayMs);
        const bytes = await fillDisk(small.path);
        await delay(forMs);
        await healDisk(scene);
        // Where it could not even recover it is down.
        await scene.postgres.revive();
        return { target, details: { forMs, bytes } };
      },
    },
  ];
}
