/**
 * A step that takes its process down whenever it is claimed, until it is dead: how many steps of healthy runs are recorded a
 * second meanwhile, beside the time before, and what the deaths held up. With many runs and with few, each of which is followed
 * by another when it has ended: what holds a run up holds its followers up, too.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openClient } from '../../../src/app.js';
import { quietLog } from '../../support/quiet-log.js';
import type { Fault, WorkerLine } from '../campaign/evidence.js';
import { files } from '../campaign/evidence.js';
import { withInFlight } from '../campaign/in-flight.js';
import { percentiles } from '../campaign/recovery.js';
import type { Theatre } from '../campaign/theatre.js';
import { atDefaultTimes, type Setting, underLoad, until } from './measure.js';

const loads = {
  'few runs': { openRuns: 4, layout: 'aa' },
  'many runs': { openRuns: 60, layout: 'aa' },
  'many runs on four processes': { openRuns: 60, layout: 'aaaa' },
};
const warmUpMs = 10_000;
const beforeMs = 30_000;
const deadWithinMs = 180_000;
const afterMs = 15_000;

export async function measurePoison(setting: Setting): Promise<object> {
  const figures: Record<string, object> = {};
  for (const [name, { openRuns, layout }] of Object.entries(loads)) {
    figures[name] = await atDefaultTimes(setting, layout, (theatre) =>
      underLoad(theatre, { seed: setting.seed, startEveryMs: 0, openRuns }, () => poisoned(theatre, openRuns)),
    );
  }
  return figures;
}

async function poisoned(theatre: Theatre, openRuns: number): Promise<object> {
  const client = await openClient({ ...theatre.services('clients'), log: quietLog });
  try {
    await delay(warmUpMs);
    const start = await look(theatre);
    await delay(beforeMs);
    const before = await look(theatre);
    const { id } = await client.runs.start({ agent: 'poison', input: 'die' });
    await until(async () => (await client.runs.get(id)).status === 'failed', deadWithinMs, 'the death of the poison');
    const after = await look(theatre);
    const { reason } = await client.runs.get(id);
    // What the last death held has its next claim by then.
    await delay(afterMs);
    const held = heldByDeaths(theatre.notebook.folder, id);
    const lostMs = held.waits.reduce((sum, ms) => sum + ms, 0);
    const healthy = rateOf(start, before);
    const meanwhile = rateOf(before, after);
    return {
      'ended by': reason,
      seconds: Math.round((after.at - before.at) / 1_000),
      'steps of healthy runs a second before': healthy,
      'and meanwhile': meanwhile,
      'share kept': `${Math.round((meanwhile / healthy) * 100)} %`,
      'deaths of a process': held.deaths,
      'ms until the next process works': percentiles(held.startMs),
      'steps of healthy runs that they held': held.waits.length,
      'of them fetched and not yet claimed': held.fetched,
      'ms until those are claimed again': percentiles(held.waits),
      'share of the time of runs that was lost so': `${Math.round((lostMs / openRuns / (after.at - before.at)) * 100)} %`,
    };
  } finally {
    await client.close();
  }
}

interface Held {
  deaths: number;
  startMs: number[];
  waits: number[];
  fetched: number;
}

/** What the killed processes held, and how long it took until another claimed it, as all of them wrote down. */
function heldByDeaths(folder: string, poisonId: string): Held {
  const lines = readFileSync(join(folder, files.workers), 'utf8')
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as WorkerLine]));
  const exits = lines.filter((line) => line.what === 'exited' && line.signal === 'SIGKILL');
  const kills = exits.map(({ pid, at, worker }, id): Fault => {
    const details = { pid, hitAt: at };
    return { id, kind: 'kill', target: worker, beganAt: at, endedAt: at, details, inFlight: [], failed: null };
  });
  const held = withInFlight(folder, kills).flatMap((kill) =>
    kill.inFlight.filter(({ runId }) => runId !== poisonId).map((flight) => ({ ...flight, at: kill.beganAt })),
  );
  return {
    deaths: kills.length,
    startMs: exits.flatMap(({ worker, at }) => {
      const ready = lines.find((line) => line.what === 'ready' && line.worker === worker && line.at > at);
      return ready === undefined ? [] : [Math.round(ready.at - at)];
    }),
    waits: held.flatMap(({ runId, seq, at }) => {
      const next = lines.find(
        (line) =>
          line.what === 'gap' && line.gap === 'after_claim' && line.runId === runId && line.seq === seq && line.at > at,
      );
      return next === undefined ? [] : [Math.round(next.at - at)];
    }),
    fetched: held.filter(({ gap }) => gap === 'before_claim').length,
  };
}

interface Look {
  at: number;
  completed: number;
}

async function look({ postgres, now }: Theatre): Promise<Look> {
  const { rows } = await postgres.use((client) =>
    client.query<{ completed: number }>(
      `select count(*)::int as completed from pawl.steps s join pawl.runs r on r.id = s.run_id
       where s.status = 'completed' and r.agent <> 'poison'`,
    ),
  );
  return { at: now(), completed: rows[0]?.completed ?? 0 };
}

function rateOf(from: Look, to: Look): number {
  return Math.round(((to.completed - from.completed) / (to.at - from.at)) * 10_000) / 10;
}
