/**
 * `npm run chaos:recovery`: how long it takes until work goes on. Each figure is measured on real worker
 * processes with the default times, printed, and kept in docs/recovery.json.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { number, oneOf, readOptions, someOf, text } from '../../support/options.js';
import { commitOf, machineOf } from '../campaign/machine.js';
import { measureAway } from './away.js';
import { measureFlushed } from './flushed.js';
import { measureHandOver } from './hand-over.js';
import { measureKills, measureKillsApart } from './kills.js';
import type { Measure, Setting } from './measure.js';
import { measurePoison } from './poison.js';
import { measureSoak } from './soak.js';

const measures: Record<string, Measure> = {
  kills: measureKills,
  apart: measureKillsApart,
  handover: measureHandOver,
  flushed: measureFlushed,
  away: measureAway,
  poison: measurePoison,
  soak: measureSoak,
};

const { values } = readOptions({
  name: 'npm run chaos:recovery --',
  says: 'How long it takes until work goes on, with the default times: measured, printed and kept.',
  options: {
    only: someOf('the measures', Object.keys(measures)),
    backend: oneOf('the queue', ['redis', 'postgres'], 'redis'),
    seed: number('of the load', 1),
    minutes: number('of kills, SIGTERMs, absence and soak (as the measure says)', null, { above: true }),
    docs: text('file to keep them in', 'docs/recovery.json'),
  },
});
const { backend } = values;

for (const [name, measure] of Object.entries(measures)) {
  if (values.only?.includes(name) === false) continue;
  const folder = await mkdtemp(join(tmpdir(), 'pawl-recovery-'));
  const setting: Setting = {
    seed: values.seed,
    backend,
    minutes: values.minutes,
    folder,
    say: (line) => console.error(line),
  };
  console.error(`${name} on ${backend}`);
  const measured = await measure(setting);
  console.log(`${name} on ${backend}: ${JSON.stringify(measured, null, 2)}`);
  await keep(`${name} on ${backend}`, measured);
  if ('breaches' in measured && measured.breaches !== 0) console.error(`breaches: the evidence is in ${folder}`);
  else await rm(folder, { recursive: true });
}
process.exit(0);

async function keep(name: string, measured: object): Promise<void> {
  const path = resolve(values.docs);
  const known = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as Record<string, unknown>,
    () => ({}),
  );
  const at = new Date().toISOString();
  const { postgres: _, redis: __, ...machine } = machineOf('', null);
  const entry = { at, commit: await commitOf(), machine, ...measured };
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify({ ...known, [name]: entry }, null, 2)}\n`);
}
