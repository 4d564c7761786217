/**
 * `npm run bench`: Pawl beside other systems, side by side on this machine. Plans the measurements and gathers them; how each
 * is taken stands in measures/, how each peer is used in peers/, how it is told in report.ts.
 */
import { parseArgs } from 'node:util';
import { machineOf } from './machine.js';
import type { Enqueue } from './measures/enqueue.js';
import type { Growth } from './measures/growth.js';
import type { Memory } from './measures/memory.js';
import type { Parts } from './measures/parts.js';
import { measureStartUp, type StartUp } from './measures/start-up.js';
import type { Throughput } from './measures/throughput.js';
import type { Workers } from './measures/workers.js';
import { peerNames } from './peers/index.js';
import { createPlayer, type Measured } from './play.js';
import { type Results, summarise } from './results.js';
import { postgresSettings, redisSettings, startServices } from './services.js';
import { asTable } from './table.js';
import { writeDocs } from './write-docs.js';

const growers = ['pawl', 'dbos', 'langgraph'];
const extras = ['growth', 'parts', 'workers', 'memory', 'enqueue', 'start'];

const usage = `npm run bench -- [--quick] [--only LIST] [-o table|json] [--write] [--minutes N]
  --quick      fewer and smaller measurements: within 5 minutes
  --only LIST  peers (${peerNames.join(', ')}) and further measures (${extras.join(', ')}), by commas
  -o FORMAT    table (the default), or json on stdout
  --write      also writes docs/performance.md and docs/performance.svg
  --minutes N  how long memory is watched`;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    output: { type: 'string', short: 'o', default: 'table' },
    write: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}

const wanted = values.only?.split(',') ?? [...peerNames, ...extras];
const unknown = wanted.filter((name) => !peerNames.includes(name) && !extras.includes(name));
if (unknown.length > 0)
  refuse(`--only does not know ${unknown.join(', ')}: it takes ${[...peerNames, ...extras].join(', ')}`);
if (values.output !== 'table' && values.output !== 'json') refuse(`-o is table or json, not ${values.output}`);
const minutes = values.minutes === undefined ? null : Number(values.minutes);
if (minutes !== null && !(minutes > 0)) refuse(`--minutes is a number above 0, not ${values.minutes}`);

const plan = values.quick
  ? { rounds: 3, runs: 150, warmUpMs: 2_000, aloneRuns: 5, growthRounds: 1, tries: 1, memorySeconds: 10, starts: 3 }
  : { rounds: 5, runs: 500, warmUpMs: 15_000, aloneRuns: 20, growthRounds: 3, tries: 3, memorySeconds: 60, starts: 5 };
const memorySeconds = minutes === null ? plan.memorySeconds : minutes * 60;
const settings = {
  steps: 20,
  payloadBytes: 400,
  concurrency: 50,
  ...plan,
  memorySeconds,
  quick: values.quick,
  postgres: postgresSettings,
  redis: redisSettings,
};

const say = (line: string) => process.stderr.write(`${line}\n`);
const services = await startServices();
let isInterrupted = false;
const interrupted = () => {
  isInterrupted = true;
  services.stop().finally(() => process.exit(130));
};
process.once('SIGINT', interrupted);
process.once('SIGTERM', interrupted);
try {
  const results = await measureAll();
  const machine = await machineOf(services.versions);
  const summary = { machine, settings, ...(await summarise(results)) };
  console.log(values.output === 'json' ? JSON.stringify(summary, null, 2) : asTable(summary));
  if (values.write) await writeDocs(summary);
} finally {
  await services.stop();
}

async function measureAll(): Promise<Results> {
  const player = createPlayer(services, say, plan.tries);
  const results: Results = {
    throughput: {},
    growth: {},
    workers: {},
    parts: [],
    memory: [],
    enqueue: [],
    startUp: null,
    notMeasured: {},
  };
  const peers = peerNames.filter((name) => wanted.includes(name));
  const attempt = async <T>(name: string, into: Measured<T>[], measure: () => Promise<Measured<T>>) => {
    if (results.notMeasured[name] !== undefined) return;
    try {
      into.push(await measure());
    } catch (error) {
      // The services are being stopped, and the process ends with them.
      if (isInterrupted) await new Promise(() => {});
      const reason = error instanceof Error ? error.message : String(error);
      say(`${name}: not measured: ${reason}`);
      results.notMeasured[name] = reason;
    }
  };
  const { runs, aloneRuns } = plan;
  const load = { warmUpMs: plan.warmUpMs, concurrency: 50, steps: 20 };

  for (let round = 1; round <= plan.rounds; round++) {
    for (const peer of peers) {
      const ask = { measure: 'throughput', peer, runs, aloneRuns, ...load } as const;
      const into = entryOf(results.throughput, peer);
      await attempt(peer, into, () => player.measure<Throughput>(`${peer}, round ${round}`, ask));
    }
  }
  for (let round = 1; wanted.includes('growth') && round <= plan.growthRounds; round++) {
    for (const peer of growers) {
      const ask = { measure: 'growth', peer, steps: peer === 'pawl' ? 5_000 : 1_000 } as const;
      const into = entryOf(results.growth, peer);
      await attempt(`growth of ${peer}`, into, () => player.measure<Growth>(`growth of ${peer}, round ${round}`, ask));
    }
  }
  for (let round = 1; wanted.includes('workers') && round <= plan.rounds; round++) {
    for (const workers of [1, 2]) {
      const ask = { measure: 'workers', workers, runs, ...load } as const;
      const into = entryOf(results.workers, workers);
      await attempt('workers', into, () => player.measure<Workers>(`${workers} workers, round ${round}`, ask));
    }
  }
  for (let round = 1; wanted.includes('parts') && round <= plan.growthRounds; round++) {
    const ask = { measure: 'parts', runs, ...load, ...services.pids } as const;
    await attempt('parts', results.parts, () => player.measure<Parts>(`parts, round ${round}`, ask));
  }
  if (wanted.includes('enqueue')) {
    for (let round = 1; round <= 3; round++) {
      const ask = { measure: 'enqueue', runs: values.quick ? 2_000 : 10_000 } as const;
      await attempt('enqueue', results.enqueue, () => player.measure<Enqueue>(`enqueue, round ${round}`, ask));
    }
  }
  if (wanted.includes('memory')) {
    const ask = { measure: 'memory', queued: 10_000, inFlight: 200, seconds: memorySeconds } as const;
    await attempt('memory', results.memory, () => player.measure<Memory>('memory', ask));
  }
  if (wanted.includes('start')) {
    const starts: Measured<StartUp>[] = [];
    await attempt('start', starts, () => player.inProcess('start', (given) => measureStartUp(given, plan.starts)));
    results.startUp = starts[0] ?? null;
  }
  return results;
}

function entryOf<T>(table: Record<string, T[]>, name: string | number): T[] {
  const entry = table[name] ?? [];
  table[name] = entry;
  return entry;
}

function refuse(message: string): never {
  console.error(`bench: ${message}`);
  process.exit(2);
}
