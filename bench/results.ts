/** From what was measured to what is told: medians, ratios, and whether each goal is met. */
import { createRequire } from 'node:module';
import type { Machine } from './machine.js';
import type { Enqueue } from './measures/enqueue.js';
import type { Growth } from './measures/growth.js';
import type { Memory } from './measures/memory.js';
import { median } from './measures/numbers.js';
import type { Parts } from './measures/parts.js';
import type { StartUp } from './measures/start-up.js';
import type { Throughput } from './measures/throughput.js';
import type { Workers } from './measures/workers.js';
import { loadPeer } from './peers/index.js';
import type { Measured } from './play.js';
import { payloadOf } from './work.js';

export interface Results {
  throughput: Record<string, Measured<Throughput>[]>;
  growth: Record<string, Measured<Growth>[]>;
  workers: Record<string, Measured<Workers>[]>;
  parts: Measured<Parts>[];
  memory: Measured<Memory>[];
  enqueue: Measured<Enqueue>[];
  startUp: Measured<StartUp> | null;
  /** What could not be measured, and why. */
  notMeasured: Record<string, string>;
}

export interface PeerResult {
  title: string;
  how: string;
  versions: string;
  stepsPerSecond: number;
  aloneMs: number;
  bytesPerRun: number | null;
  rounds: number;
  /** Least and most of the rounds' steps a second. */
  spread: [number, number];
  /** The largest share of the machine that others took during a round. */
  others: number | null;
}

export interface Curve {
  points: { step: number; ms: number }[];
}

export interface Goal {
  ratio: string;
  what: string;
  goal: string;
  met: boolean | null;
  value: number | null;
}

export interface Summary {
  machine: Machine;
  settings: Record<string, unknown> & { quick: boolean };
  results: {
    peers: Record<string, PeerResult>;
    growth: Record<string, Curve>;
    bytesPerStep: { step50: { read: number; written: number }; step5000: { read: number; written: number } } | null;
    workers: Record<string, number>;
    /** What a step costs in each part of a deployment. */
    parts: Parts | null;
    memory: Memory | null;
    enqueue: number | null;
    startUp: StartUp | null;
    payloadBytesPerRun: number;
    notMeasured: Record<string, string>;
  };
  ratios: Record<string, number | null>;
  goals: Goal[];
}

const stepsPerRun = 20;

export async function summarise(measured: Results): Promise<Pick<Summary, 'results' | 'ratios' | 'goals'>> {
  const peers: Record<string, PeerResult> = {};
  for (const [name, rounds] of Object.entries(measured.throughput)) {
    if (rounds.length > 0 && measured.notMeasured[name] === undefined) peers[name] = await peerResult(name, rounds);
  }
  const pawlGrowth = measured.growth.pawl ?? [];
  const results: Summary['results'] = {
    peers,
    growth: Object.fromEntries(Object.entries(measured.growth).flatMap(([name, rounds]) => curveOf(name, rounds))),
    bytesPerStep: bytesOf(pawlGrowth),
    workers: Object.fromEntries(
      Object.entries(measured.workers)
        .filter(([, rounds]) => rounds.length > 0)
        .map(([count, rounds]) => [count, median(rounds.map(({ value }) => value.stepsPerSecond))]),
    ),
    parts: partsOf(measured.parts),
    memory: measured.memory[0]?.value ?? null,
    enqueue: measured.enqueue.length === 0 ? null : median(measured.enqueue.map(({ value }) => value.runsPerSecond)),
    startUp: measured.startUp?.value ?? null,
    payloadBytesPerRun: stepsPerRun * Buffer.byteLength(payloadOf('run000001', 1)),
    notMeasured: measured.notMeasured,
  };
  const ratios = ratiosOf(results);
  return { results, ratios, goals: goalsOf(ratios) };
}

async function peerResult(name: string, rounds: Measured<Throughput>[]): Promise<PeerResult> {
  const { title, how, packages } = await loadPeer(name);
  const rates = rounds.map(({ value }) => value.stepsPerSecond);
  const bytes = rounds.flatMap(({ value }) => (value.bytesPerRun === null ? [] : [value.bytesPerRun]));
  const others = rounds.map((round) => round.others);
  return {
    title,
    how,
    versions: packages.map((name) => `${name} ${versionOf(name)}`).join(', '),
    stepsPerSecond: median(rates),
    aloneMs: median(rounds.map(({ value }) => value.aloneMs)),
    bytesPerRun: bytes.length === 0 ? null : median(bytes),
    rounds: rounds.length,
    spread: [Math.min(...rates), Math.max(...rates)],
    others: others.includes(null) ? null : Math.max(...others.map(Number)),
  };
}

function versionOf(name: string): string {
  const installed = createRequire(import.meta.url)('./node_modules/.package-lock.json') as {
    packages: Record<string, { version: string }>;
  };
  return installed.packages[`node_modules/${name}`]?.version ?? '(not installed)';
}

function curveOf(name: string, rounds: Measured<Growth>[]): [string, Curve][] {
  const [first] = rounds;
  if (first === undefined) return [];
  const points = first.value.points.map(({ step }, n) => {
    return { step, ms: median(rounds.map(({ value }) => value.points[n]?.ms ?? Number.NaN)) };
  });
  return [[name, { points }]];
}

function bytesOf(rounds: Measured<Growth>[]): Summary['results']['bytesPerStep'] {
  const all = rounds.flatMap(({ value }) => (value.bytes === null ? [] : [value.bytes]));
  if (all.length === 0) return null;
  const of = (pick: (bytes: (typeof all)[number]) => number) => median(all.map(pick));
  return {
    step50: { read: of((bytes) => bytes.early.read), written: of((bytes) => bytes.early.written) },
    step5000: { read: of((bytes) => bytes.late.read), written: of((bytes) => bytes.late.written) },
  };
}

function partsOf(rounds: Measured<Parts>[]): Parts | null {
  const [first] = rounds;
  if (first === undefined) return null;
  const names = Object.keys(first.value) as (keyof Parts)[];
  return Object.fromEntries(
    names.map((name) => [name, median(rounds.map(({ value }) => value[name]))]),
  ) as unknown as Parts;
}

function ratiosOf(results: Summary['results']): Record<string, number | null> {
  const { peers, growth, bytesPerStep, workers, memory, enqueue, startUp } = results;
  const against = (peer: string, ours = 'pawl') => ratio(peers[ours]?.stepsPerSecond, peers[peer]?.stepsPerSecond);
  const grown = (name: string, late: number, early: number) => {
    const at = (step: number) => growth[name]?.points.find((point) => point.step === step)?.ms;
    return ratio(at(late), at(early));
  };
  return {
    vsDbos: against('dbos'),
    vsRestate: against('restate'),
    vsLanggraph: against('langgraph'),
    vsBullmq: against('bullmq'),
    vsBullmqPostgres: against('bullmq-postgres', 'pawl-postgres'),
    vsPgBoss: against('pg-boss'),
    vsGraphileWorker: against('graphile-worker'),
    isolatedVsDbos: ratio(peers.pawl?.aloneMs, peers.dbos?.aloneMs),
    step5000vs50: grown('pawl', 5_000, 50),
    step5000vs50BytesRead: ratio(bytesPerStep?.step5000.read, bytesPerStep?.step50.read),
    step5000vs50BytesWritten: ratio(bytesPerStep?.step5000.written, bytesPerStep?.step50.written),
    dbosStep1000vs10: grown('dbos', 1_000, 10),
    langgraphStep1000vs10: grown('langgraph', 1_000, 10),
    bytesVsPayload: ratio(peers.pawl?.bytesPerRun, results.payloadBytesPerRun),
    twoWorkersVsOne: ratio(workers[2], workers[1]),
    memoryMbBusyOverIdle: memory === null ? null : memory.busyMb - memory.idleMb,
    memoryMbMostOverIdle: memory === null ? null : memory.mostMb - memory.idleMb,
    memoryMbDrift: memory?.driftMb ?? null,
    startWorkerSeconds: startUp?.workerSeconds ?? null,
    helpSeconds: startUp?.helpSeconds ?? null,
    enqueuePerSecond: enqueue,
  };
}

function ratio(above: number | null | undefined, below: number | null | undefined): number | null {
  return above == null || below == null ? null : above / below;
}

const goals: [ratio: string, what: string, sign: '>=' | '<=', bound: number, unit: string][] = [
  ['vsDbos', 'steps/s against DBOS', '>=', 3, ''],
  ['vsRestate', 'steps/s against Restate', '>=', 1.3, ''],
  ['vsLanggraph', 'steps/s against LangGraph.js + Postgres', '>=', 10, ''],
  ['vsBullmq', 'steps/s against a bare BullMQ chain on Redis', '>=', 0.4, ''],
  ['vsBullmqPostgres', "on the Postgres queue, against BullMQ's", '>=', 0.8, ''],
  ['isolatedVsDbos', 'a step alone, p50, against DBOS', '<=', 0.9, ''],
  ['step5000vs50', 'step 5,000 against step 50: time', '<=', 1.15, ''],
  ['step5000vs50BytesRead', 'step 5,000 against step 50: bytes read', '<=', 1.15, ''],
  ['step5000vs50BytesWritten', 'step 5,000 against step 50: bytes written', '<=', 1.15, ''],
  ['bytesVsPayload', "bytes stored against the payload's", '<=', 2.5, ''],
  ['twoWorkersVsOne', 'two worker processes against one', '>=', 1, ''],
  ['memoryMbBusyOverIdle', 'memory, 10,000 queued and 200 in flight, over idle', '<=', 150, ' MB'],
  ['startWorkerSeconds', 'start of pawl worker to its first claim', '<=', 1, ' s'],
  ['helpSeconds', 'pawl --help', '<=', 0.25, ' s'],
  ['enqueuePerSecond', 'enqueue through createPawl', '>=', 5_000, ' runs/s'],
];

function goalsOf(ratios: Record<string, number | null>): Goal[] {
  return goals.map(([name, what, sign, bound, unit]) => {
    const value = ratios[name] ?? null;
    const met = value === null ? null : sign === '>=' ? value >= bound : value <= bound;
    return { ratio: name, what, goal: `${sign === '>=' ? '≥' : '≤'} ${bound.toLocaleString('en')}${unit}`, met, value };
  });
}
