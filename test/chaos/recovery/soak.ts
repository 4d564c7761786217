/**
 * A steady load for half an hour and nothing broken: what the processes and services hold must not grow. The first quarter
 * warms up; the second is compared with the last by medians.
 */
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Theatre } from '../campaign/theatre.js';
import { atDefaultTimes, type Setting, underLoad } from './measure.js';

type Sample = Record<string, number>;

const everyMs = 5_000;

export function measureSoak(setting: Setting): Promise<object> {
  const minutes = setting.minutes ?? 30;
  return atDefaultTimes(setting, 'aam', (theatre) =>
    underLoad(theatre, { seed: setting.seed, startEveryMs: 200, openRuns: 40 }, async () => {
      const samples: Sample[] = [];
      const endsAt = performance.now() + minutes * 60_000;
      while (performance.now() < endsAt) {
        await delay(everyMs);
        samples.push(await sample(theatre));
      }
      const { rows } = await theatre.postgres.use((client) =>
        client.query<{ runs: number; steps: number }>(
          'select count(*)::int as runs, sum(steps_used)::int as steps from pawl.runs',
        ),
      );
      return { minutes, ...rows[0], 'medians of the second and of the last quarter': compare(samples) };
    }),
  );
}

async function sample({ fleet, postgres, redis }: Theatre): Promise<Sample> {
  const taken: Sample = {};
  for (const { name, pid } of fleet.places) {
    taken[`${name}: file descriptors`] = (await readdir(`/proc/${pid}/fd`)).length;
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    taken[`${name}: memory, MB`] = Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024);
    taken[`${name}: threads`] = Number(/Threads:\s+(\d+)/.exec(status)?.[1]);
  }
  const { rows } = await postgres.use((client) =>
    client.query<{ n: number }>(`select count(*)::int as n from pg_stat_activity where application_name like 'pawl%'`),
  );
  taken['Postgres connections'] = rows[0]?.n ?? Number.NaN;
  if (redis === null) return taken;
  const { client } = redis;
  taken['Redis keys'] = await client.dbsize();
  taken['Redis connections'] = Number(/connected_clients:(\d+)/.exec(await client.info('clients'))?.[1]);
  taken['Redis memory, MB'] = Math.round(Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]) / 1e6);
  for (const key of await client.keys('*:events')) {
    taken[`stream ${key.split(':').slice(-2).join(' ')}`] = await client.xlen(key);
  }
  return taken;
}

function compare(samples: readonly Sample[]): Record<string, [second: number, last: number]> {
  const quarter = Math.floor(samples.length / 4);
  const part = (n: number) => samples.slice(n * quarter, (n + 1) * quarter);
  const names = Object.keys(samples.at(-1) ?? {});
  return Object.fromEntries(
    names.map((name) => [name, [median(part(1), name), median(part(3), name)] as const]),
  ) as Record<string, [number, number]>;
}

function median(samples: readonly Sample[], name: string): number {
  const values = samples.flatMap((taken) => taken[name] ?? []).sort((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? Number.NaN;
}
