/**
 * `npm run bench:judgement`: Pawl beside LangGraph.js's prebuilt agent on the same tasks, tools and model, whose habits are
 * those of real ones and which does not know who asks. Starts its services itself; what is compared stands in docs/judgement.md.
 */
import { parseArgs } from 'node:util';
import { machineOf } from '../machine.js';
import { startServices } from '../services.js';
import { boundsOf, courses, playCourses, setsOfCourses, undercuts } from './bounds.js';
import { loadOrders } from './data.js';
import { playTasks, type Trial } from './play.js';
import { startJudgementModel } from './server.js';
import type { Side } from './side.js';
import { langgraph } from './sides/langgraph.js';
import { pawl } from './sides/pawl.js';
import { endingsOf, goalsOf, ratiosOf, type Summary, setsOf } from './summary.js';
import { asTable, columned, courseRows } from './table.js';
import { tasksOf } from './tasks.js';
import { versionsOf } from './versions.js';
import { writeDocs } from './write-docs.js';

const usage = `npm run bench:judgement -- [--seed N] [--seeds N] [-o table|json|trials|bounds] [--write]
  --seed N     the first seed of the model's lots (1)
  --seeds N    how many seeds are played, one after the other (3)
  --only TEXT  the tasks whose text holds this
  -o FORMAT    table (the default), json, trials: a line of JSON for each task, on stdout, or bounds: what no
               loop can better with this model, for which neither side is played
  --write      also writes docs/judgement.md and docs/judgement.json`;

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
    output: { type: 'string', short: 'o', default: 'table' },
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const seeds = seedsOf(values.seed, values.seeds);
if (!['table', 'json', 'trials', 'bounds'].includes(values.output))
  refuse(`-o is table, json, trials or bounds, not ${values.output}`);
if (values.write && values.output === 'bounds') refuse('--write takes what the sides did: leave -o bounds out');
if (values.write && values.only !== '') refuse('--write takes all tasks: leave --only out');

const sides: Record<string, Side> = { pawl, langgraph };
const orders = loadOrders();
const tasks = tasksOf(orders).filter(({ text }) => text.includes(values.only));
if (tasks.length === 0) refuse(`--only: no task holds ${JSON.stringify(values.only)}`);

const played = await playCourses(seeds, tasks, orders);
const told = setsOfCourses(played);
const toldCourses = Object.fromEntries(
  Object.entries(courses).map(([name, one]) => [name, { ...one, sets: told[name as keyof typeof told] }]),
);
if (values.output === 'bounds') {
  console.log(columned(courseRows({ courses: toldCourses })));
  process.exit(0);
}

const services = await startServices();
const model = await startJudgementModel({ pace: 1 });
let stopping: Promise<void> | null = null;
const stop = () => {
  stopping ??= model.close().then(() => services.stop());
  return stopping;
};
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void stop().then(() => process.exit(130)));
try {
  const trials = await playAll();
  if (values.output === 'trials') for (const trial of trials) console.log(JSON.stringify(trial));
  else await tell(trials);
} finally {
  await stop();
}

async function playAll(): Promise<Trial[]> {
  const trials: Trial[] = [];
  for (const seed of seeds) {
    for (const [name, side] of Object.entries(sides)) {
      const { drop, ...fresh } = await services.fresh();
      const from = performance.now();
      const played = await playTasks({ side, name, seed, tasks, orders, model, services: fresh });
      await drop();
      trials.push(...played);
      const right = played.filter((trial) => trial.right).length;
      const seconds = ((performance.now() - from) / 1_000).toFixed(0);
      process.stderr.write(`seed ${seed}, ${side.title}: ${right} of ${played.length} right, ${seconds} s\n`);
    }
  }
  return trials;
}

async function tell(trials: Trial[]): Promise<void> {
  const toldSides = Object.entries(sides).map(([name, { title, how, packages }]) => {
    const own = trials.filter(({ side }) => side === name);
    return [name, { title, how, versions: versionsOf(packages), sets: setsOf(own), endings: endingsOf(own) }] as const;
  });
  const framework = setsOfSide('langgraph');
  const ratios = ratiosOf(setsOfSide('pawl'), framework);
  const { bounds, faultless: boundsWithoutMistakes } = boundsOf(played, framework);
  const summary: Summary = {
    ...{ machine: await machineOf(services.versions), seeds, sides: Object.fromEntries(toldSides) },
    ...{ ratios, bounds, boundsWithoutMistakes, courses: toldCourses },
    ...{ right: trials.filter(({ right }) => right).length, undercuts: undercuts(trials, played) },
    goals: goalsOf({ ratios, bounds, boundsWithoutMistakes }),
  };
  console.log(values.output === 'json' ? JSON.stringify(summary, null, 2) : asTable(summary));
  if (values.write) await writeDocs(summary);

  function setsOfSide(name: string) {
    return setsOf(trials.filter(({ side }) => side === name));
  }
}

function seedsOf(first: string, count: string): number[] {
  const [from, many] = [Number(first), Number(count)];
  if (!Number.isInteger(from) || from < 0) refuse(`--seed is a whole number from 0 on, not ${first}`);
  if (!Number.isInteger(many) || many < 1) refuse(`--seeds is a whole number from 1 on, not ${count}`);
  return Array.from({ length: many }, (_, at) => from + at);
}

function refuse(problem: string): never {
  console.error(`bench:judgement: ${problem}\n\n${usage}`);
  process.exit(2);
}
