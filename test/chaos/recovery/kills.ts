/**
 * From SIGKILL to the next claim, in another process, of each step that the killed one held, jobs fetched and not yet
 * claimed among them. In two ways. `kills`: one kill after the other, sooner than a death is seen, so that many recoveries meet
 * the death of whoever took the step as well. `apart`: the next kill comes when all that the last one held goes on elsewhere, or
 * after 20 s. Pieces of one commit add up.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CampaignOptions } from '../campaign/campaign.js';
import { type Fault, files, type WorkerLine } from '../campaign/evidence.js';
import { held } from '../campaign/in-flight.js';
import { commitOf } from '../campaign/machine.js';
import { percentiles, type Recoveries, type Recovery, recoveriesOf } from '../campaign/recovery.js';
import type { Theatre } from '../campaign/theatre.js';
import { tryCampaign } from '../campaign/try-campaign.js';
import type { Setting } from './measure.js';

const stateFolder = join('.pawl', 'chaos', 'recovery');
const longMs = 12_000;
const patienceMs = 20_000;

/** One campaign of a measure. */
export interface Piece extends Recoveries {
  seed: number;
  minutes: number;
  kills: number;
  'kills that hit a step in flight': number;
  breaches: number;
  /** The machine's load average at each fault. */
  load: number[];
}

export function measureKills(setting: Setting): Promise<object> {
  return measure('kills', { pauseMs: [1_500, 3_000], callMs: 0, startEveryMs: 100 }, setting);
}

export function measureKillsApart(setting: Setting): Promise<object> {
  const way = { pauseMs: [100, 800], callMs: 600, startEveryMs: 400, after: goneOn(setting.folder) } as const;
  return measure('apart', way, setting);
}

interface Way {
  pauseMs: readonly [number, number];
  /** By so much longer than planned each call takes: as long as that of a quick model, or lone kills would hit little. */
  callMs: number;
  startEveryMs: number;
  after?: NonNullable<CampaignOptions['afterFault']>;
}

async function measure(name: string, { pauseMs, callMs, startEveryMs, after }: Way, setting: Setting): Promise<object> {
  const file = join(stateFolder, `${name}-${setting.backend}-${await commitOf()}.json`);
  const pieces = await readFile(file, 'utf8').then(
    (text) => JSON.parse(text) as Piece[],
    () => [] as Piece[],
  );
  const minutes = setting.minutes ?? 10;
  const seed = setting.seed + pieces.length;
  const load: number[] = [];
  const { report, evidence } = await tryCampaign({
    ...{ ...setting, seed, minutes, callMs },
    profile: 'real',
    runs: 20_000,
    layout: 'aaaam',
    only: ['kill', 'kill_at_gap'],
    openRuns: 60,
    startEveryMs,
    quietMs: 5_000,
    paces: paced({ pauseMs, steps: 0, longestMs: 0 }),
    async afterFault(fault, theatre) {
      load.push(loadavg()[0] ?? 0);
      await after?.(fault, theatre);
    },
  });
  for (const { text } of report.breaches) setting.say(text);
  const { times, without } = recoveriesOf(evidence, 'kills');
  for (const time of times) if (time.ms > longMs) setting.say(tell(time));
  const counts = {
    kills: report.counts.kills ?? 0,
    'kills that hit a step in flight': report.counts['kills that hit a step in flight'] ?? 0,
  };
  pieces.push({ seed, minutes, ...counts, breaches: report.breaches.length, times, without, load });
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(pieces)}\n`);
  return figuresOf(pieces);
}

/** What the pieces say together. */
export function figuresOf(pieces: readonly Piece[]) {
  const sum = (count: (piece: Piece) => number) => pieces.reduce((total, piece) => total + count(piece), 0);
  const times = pieces.flatMap((piece) => piece.times);
  const unclaimed = times.filter(({ gap }) => gap === 'before_claim');
  const ms = (some: readonly Recovery[]) => percentiles(some.map((time) => time.ms));
  const met = (kills: number) => times.filter(({ furtherKills }) => furtherKills === kills);
  const without: Record<string, number> = {};
  for (const piece of pieces)
    for (const [why, count] of Object.entries(piece.without)) without[why] = (without[why] ?? 0) + count;
  return {
    seeds: pieces.map(({ seed }) => seed),
    minutes: sum(({ minutes }) => minutes),
    kills: sum(({ kills }) => kills),
    'kills that hit a step in flight': sum((piece) => piece['kills that hit a step in flight']),
    'steps in flight': times.length,
    'of them fetched and not yet claimed': unclaimed.length,
    breaches: sum(({ breaches }) => breaches),
    ms: ms(times),
    'ms of those that met no further kill': ms(met(0)),
    ...furtherKillsOf(times, ms),
    'ms of those not yet claimed that met no further kill': ms(unclaimed.filter((time) => time.furtherKills === 0)),
    'over 12 s, by what they waited for beyond what a death takes': longest(times),
    'without a time': without,
    'load of the machine': percentiles(pieces.flatMap(({ load }) => load.map((value) => Math.round(value * 10) / 10))),
  };
}

function furtherKillsOf(times: readonly Recovery[], ms: (some: readonly Recovery[]) => object) {
  const most = Math.max(0, ...times.map(({ furtherKills }) => furtherKills));
  return Object.fromEntries(
    Array.from({ length: most }, (_, n) => [
      `ms of those that met ${n + 1} further`,
      ms(times.filter(({ furtherKills }) => furtherKills === n + 1)),
    ]),
  );
}

/** What a death takes in any case. */
const dueMs: Partial<Record<string, number>> = {
  'the verdict that the process is dead': 8_500,
  'the sweep to find it': 9_500,
};

function longest(times: readonly Recovery[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { ms, waits } of times) {
    if (ms <= longMs) continue;
    const beyond = Object.entries(waits).map(([wait, each]) => [wait, each - (dueMs[wait] ?? 0)] as const);
    const [wait] = beyond.reduce((most, each) => (each[1] > most[1] ? each : most));
    counts[wait] = (counts[wait] ?? 0) + 1;
  }
  return counts;
}

function tell({ ms, gap, waits }: Recovery): string {
  return `${ms} ms, killed ${gap}: ${Object.entries(waits)
    .map(([wait, each]) => `${each} for ${wait}`)
    .join(', ')}`;
}

/** Waits until each step that the killed process held is claimed by another, or has no claim to come before its deadline. */
function goneOn(folder: string) {
  const read = readerOf(folder);
  return async ({ details: { pid, hitAt } }: Fault, { postgres, now }: Theatre): Promise<void> => {
    if (typeof pid !== 'number' || typeof hitAt !== 'number') return;
    const lines = read();
    const from = lines.findLastIndex((line) => line.at <= hitAt);
    let open = held(lines.filter((line) => line.pid === pid && line.at <= hitAt));
    open = open.filter(({ gap }) => gap !== 'after_record');
    for (const until = now() + patienceMs; open.length > 0 && now() < until; await delay(100)) {
      const later = read()
        .slice(from)
        .filter((line) => line.at > hitAt && line.pid !== pid);
      open = open.filter(({ runId, seq }) => {
        return !later.some((line) => {
          return line.what === 'gap' && line.gap === 'after_claim' && line.runId === runId && line.seq === seq;
        });
      });
      const { rows } = await postgres.use((client) =>
        client.query<{ id: string }>(
          `select run_id || '.' || seq as id from pawl.steps
           where run_id = any($1) and effect is distinct from 'once' and finished_at is null`,
          [open.map(({ runId }) => runId)],
        ),
      );
      const mayCome = new Set(rows.map(({ id }) => id));
      open = open.filter(({ runId, seq }) => mayCome.has(`${runId}.${seq}`));
    }
  };
}

/** All whole lines that processes wrote so far; what else than ids is in them need not be read right. */
function readerOf(folder: string): () => readonly WorkerLine[] {
  const lines: WorkerLine[] = [];
  let [from, rest] = [0, ''];
  return () => {
    const file = openSync(join(folder, files.workers), 'r');
    const part = Buffer.alloc(1 << 20);
    for (let length = 1; length > 0; from += length) {
      length = readSync(file, part, 0, part.length, from);
      const whole = (rest + part.toString('latin1', 0, length)).split('\n');
      rest = whole.pop() ?? '';
      for (const line of whole) lines.push(JSON.parse(line) as WorkerLine);
    }
    closeSync(file);
    return lines;
  };
}

/** The same pace in every lane: those without a fault of their own do nothing. */
export function paced<Pace>(pace: Pace) {
  return { kills: pace, processes: pace, services: pace, jobs: pace };
}
