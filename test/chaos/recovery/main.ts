/**
 * `npm run chaos:recovery -- --only kills,handover,flushed,away,soak --backend redis`: how long it takes until work goes on.
 * Each figure is measured on real worker processes with the default times, printed, and kept in docs/recovery.json.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { commitOf, machineOf } from '../campaign/machine.js';
import { measureAway } from './away.js';
import { measureFlushed } from './flushed.js';
import { measureHandOver } from './hand-over.js';
import { measureKills } from './kills.js';
import type { Measure, Setting } from './measure.js';
import { measureSoak } from './soak.js';

const measures: Record<string, Measure> = {
  kills: measureKills,
  handover: measureHandOver,
  flushed: measureFlushed,
  away: measureAway,
  soak: measureSoak,
};

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(measures).join() },
    backend: { type: 'string', default: 'redis' },
    seed: { type: 'string', default: '1' },
    /** Of kills, SIGTERMs, absence and soak: as long as the measure says when absent. */
    minutes: { type: 'string' },
    docs: { type: 'string', default: 'docs/recovery.json' },
  },
});
if (values.backend !== 'redis' && values.backend !== 'postgres') throw new Error('--backend is redis or postgres');
const { backend } = values;

for (const name of values.only.split(',')) {
  const measure = measures[name];
  if (measure === undefined) throw new Error(`--only knows ${Object.keys(measures).join(', ')}`);
  const folder = await mkdtemp(join(tmpdir(), 'pawl-recovery-'));
  const setting: Setting = {
    seed: Number(values.seed),
    backend,
    minutes: values.minutes === undefined ? null : Number(values.minutes),
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
