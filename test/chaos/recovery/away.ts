/**
 * Postgres is away for minutes, then the queue's Redis: the same processes go on after its return, by themselves, and have
 * said meanwhile what they wait for.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { files, type WorkerLine } from '../campaign/evidence.js';
import type { Theatre } from '../campaign/theatre.js';
import { atDefaultTimes, type Setting, underLoad, until } from './measure.js';

export function measureAway(setting: Setting): Promise<object> {
  const awayMs = (setting.minutes ?? 10) * 60_000;
  return atDefaultTimes(setting, 'aam', (theatre) =>
    underLoad(theatre, { seed: setting.seed, startEveryMs: 200, openRuns: 40 }, async () => {
      const worked = await recorded(setting);
      await until(async () => (await recorded(setting)) > worked + 100, 60_000, 'the load is under way');
      const { postgres, redis } = theatre;
      const measured = {
        'Postgres away': await outage(setting, theatre, awayMs, async () => {
          await postgres.leave();
          await delay(awayMs);
          await postgres.revive();
        }),
      };
      if (redis === null) return measured;
      await delay(20_000);
      await redis.keepCopy();
      return {
        ...measured,
        'Redis away': await outage(setting, theatre, awayMs, () => redis.restart('copy', awayMs)),
      };
    }),
  );
}

async function outage(setting: Setting, theatre: Theatre, awayMs: number, happen: () => Promise<void>) {
  const pids = theatre.fleet.places.map(({ pid }) => pid);
  const from = theatre.now();
  await happen();
  const back = theatre.now();
  const worked = new Set<number>();
  await until(
    async () => {
      for (const line of await linesOf(setting)) {
        if (line.what === 'gap' && line.gap === 'after_record' && line.at > back) worked.add(line.pid);
      }
      return worked.size >= 2;
    },
    120_000,
    'both workers record steps again',
  );
  const wentOnAfterMs = Math.round(theatre.now() - back);
  const said = (await linesOf(setting)).filter(
    (line) => line.what === 'log' && line.level === 'warn' && line.at > from && line.at < back,
  );
  return {
    minutes: awayMs / 60_000,
    'the same processes': theatre.fleet.places.every(({ pid }, index) => pid === pids[index]),
    'both workers record steps again after ms': wentOnAfterMs,
    'warnings meanwhile, by process': pids.map((pid) => said.filter((line) => line.pid === pid).length),
    'their words': [...new Set(said.map((line) => (line.what === 'log' ? line.msg : '')))],
  };
}

async function recorded(setting: Setting): Promise<number> {
  return (await linesOf(setting)).filter((line) => line.what === 'gap' && line.gap === 'after_record').length;
}

async function linesOf({ folder }: Setting): Promise<WorkerLine[]> {
  const text = await readFile(join(folder, files.workers), 'utf8');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as WorkerLine);
}
