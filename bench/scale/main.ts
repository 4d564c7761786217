/**
 * `npm run bench:scale -- redis-cluster pgbouncer partitions`: ways to deploy Pawl on more than it was measured on, each tried for
 * real with the bench's own work, which is checked. What they mean: docs/scale.md.
 */
import { checkWork } from '../measures/check.js';
import { namesOf } from '../measures/throughput.js';
import type { Session } from '../peer.js';
import { startServices } from '../services.js';
import { Work } from '../work.js';
import { tryPartitions } from './partitions.js';
import { tryPgBouncer } from './pgbouncer.js';
import { tryRedisCluster } from './redis-cluster.js';
import type { Say, Trial } from './trial.js';

const trials: Record<string, Trial> = {
  'redis-cluster': tryRedisCluster,
  pgbouncer: tryPgBouncer,
  partitions: tryPartitions,
};
const withinMs = 60_000;
const runs = 100;
const steps = 20;

const wanted = process.argv.slice(2);
const names = wanted.length === 0 ? Object.keys(trials) : wanted;
const services = await startServices();
let failed = 0;
for (const name of names) {
  const trial = trials[name];
  if (trial === undefined)
    throw new Error(`there is no trial ${name}; the trials are ${Object.keys(trials).join(', ')}`);
  const say: Say = (what) => console.log(`${name}: ${what}`);
  const { drop, ...given } = await services.fresh();
  try {
    await trial({ ...given, play, say });
  } catch (error) {
    failed += 1;
    say(`does not work: ${error instanceof Error ? error.message : String(error)}`);
  }
  await drop();
}
await services.stop();
process.exit(failed === 0 ? 0 : 1);

/** Plays runs, checks them, and answers the steps a second. */
async function play(open: (work: Work) => Promise<Session>): Promise<number> {
  const work = new Work();
  const session = await open(work);
  const began = performance.now();
  const names = namesOf('run', runs);
  let late: NodeJS.Timeout | undefined;
  try {
    await Promise.race([
      session.play(names, steps),
      new Promise((_, reject) => {
        late = setTimeout(
          () => reject(new Error(`${work.calls} of ${runs * steps} steps in ${withinMs / 1_000} s`)),
          withinMs,
        );
      }),
    ]);
    const seconds = (performance.now() - began) / 1_000;
    await checkWork(session, work, [{ runs: names, steps }]);
    return Math.round((runs * steps) / seconds);
  } finally {
    clearTimeout(late);
    await session.close();
  }
}
