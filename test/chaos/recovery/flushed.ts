/** Thousands of runs wait in the queue, which loses everything: how long until each is dispatched again. */
import { openClient } from '../../../src/app.js';
import { quietLog } from '../../support/quiet-log.js';
import { bullmqSchemaFaults } from '../campaign/bullmq-schema-faults.js';
import { profiles } from '../campaign/profiles.js';
import { randomOf } from '../campaign/random.js';
import { redisFaults } from '../campaign/redis-faults.js';
import type { Theatre } from '../campaign/theatre.js';
import { atDefaultTimes, type Setting, until } from './measure.js';

const runs = 5_000;
const atOnce = 50;

export function measureFlushed(setting: Setting): Promise<object> {
  return atDefaultTimes(setting, 'sm', async (theatre) => {
    await leaveNobodyWhoTakesSteps(theatre);
    await enqueue(theatre);
    const waiting = async () => (await theatre.queues.queue('llm').getJobCountByTypes('wait')) === runs;
    await until(waiting, 60_000, `${runs} runs queued`);
    const began = performance.now();
    await wipe(setting, theatre);
    await until(waiting, 120_000, `${runs} runs dispatched again`);
    return { runs, 'dispatched again after ms': Math.round(performance.now() - began) };
  });
}

/** The agents stay registered. */
async function leaveNobodyWhoTakesSteps({ fleet }: Theatre): Promise<void> {
  for (const place of fleet.places.filter(({ role }) => role === 'steps')) {
    place.restartWith({ afterMs: 3_600_000, clock: null });
    place.signal('SIGTERM');
    await place.gone();
  }
}

async function enqueue(theatre: Theatre): Promise<void> {
  const client = await openClient({ ...theatre.services('clients'), log: quietLog });
  for (let n = 0; n < runs; n += atOnce) {
    await Promise.all(
      Array.from({ length: atOnce }, (_, k) => client.runs.start({ agent: 'clerk', input: `task ${n + k}` })),
    );
  }
  await client.close();
}

async function wipe({ backend, seed }: Setting, theatre: Theatre): Promise<void> {
  const faults = backend === 'redis' ? redisFaults : bullmqSchemaFaults;
  const wiping = faults.find(({ kind }) => kind === 'queue_wiped');
  if (wiping === undefined) throw new Error('there is no such fault');
  await wiping.make({ ...theatre, backend, times: profiles.real.times }, randomOf(seed, 'wipe'));
}
