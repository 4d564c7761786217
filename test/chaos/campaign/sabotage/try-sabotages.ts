/**
 * `npm run chaos:sabotage`: a fast campaign on each sabotaged copy of the code, one after the other, and the checker's word
 * on it. Caught means: failed, under a name that the sabotage was to be caught by, within three minutes from the start.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { flag, number, readOptions, someOf, text } from '../../../support/options.js';
import { runCampaign } from '../campaign.js';
import { check } from '../check/index.js';
import { files, type Meta, type Report } from '../evidence.js';
import { commitOf } from '../machine.js';
import { profiles } from '../profiles.js';
import { copyWith } from './apply.js';
import { type Sabotage, sabotages } from './sabotages.js';
import { pageOf, type Trial, tableOf } from './table.js';

const withinMs = 180_000;

/** The code as it is: the same campaign must not fail it. */
const control: Sabotage = { name: 'none', breaks: 'nothing: the code as it is', edits: [], caughtBy: [] };

const { values } = readOptions({
  name: 'npm run chaos:sabotage --',
  says: 'A fast campaign on each sabotaged copy of the code, which must be caught. Ends with 1 when one was missed.',
  options: {
    only: someOf(
      'the sabotages',
      [control, ...sabotages].map(({ name }) => name),
    ),
    seed: number('of each campaign', 1),
    minutes: number('no run is started after that', 1.4, { above: true }),
    write: text('page to put the table into', null),
    keep: flag('leaves the evidence of those that were not caught, too'),
  },
});
const stop = new AbortController();
process.on('SIGINT', () => stop.abort());
process.on('SIGTERM', () => stop.abort());

const { only, seed } = values;
const chosen = [control, ...sabotages].filter(({ name }) => only === null || only.includes(name));
const trials: Trial[] = [];
let meta: Meta | null = null;
for (const sabotage of chosen) {
  if (stop.signal.aborted) break;
  console.error(`${sabotage.name}: ${sabotage.breaks}`);
  const trial = await tryOn(sabotage);
  trials.push(trial);
  console.error(tableOf([trial]).at(-1));
}
console.log(tableOf(trials).join('\n'));
// A copy is no repository: the commit is that of the code it was made of.
if (values.write !== null && meta !== null)
  await writeFile(values.write, pageOf(trials, { ...(meta as Meta), commit: await commitOf() }, seed));
process.exit(trials.every(({ verdict }) => verdict !== 'missed') ? 0 : 1);

async function tryOn(sabotage: Sabotage): Promise<Trial> {
  const folder = resolve('.pawl', 'chaos', `sabotage-${sabotage.name.replaceAll(' ', '-')}-${seed}`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const copy = await copyWith(sabotage);
  const beganAt = performance.now();
  try {
    await runCampaign({
      ...profiles.fast,
      seed,
      runs: 150,
      minutes: values.minutes,
      backend: 'redis',
      layout: null,
      only: null,
      ...sabotage.campaign,
      root: copy.root,
      folder,
      say: () => {},
      signal: stop.signal,
    });
    const report = await check(folder);
    const seconds = Math.round((performance.now() - beganAt) / 1_000);
    meta ??= JSON.parse(await readFile(join(folder, files.meta), 'utf8')) as Meta;
    if (!values.keep && report.verdict !== 'failed') await rm(folder, { recursive: true, force: true });
    return { sabotage, seconds, ...verdictOn(sabotage, report, seconds) };
  } catch (error) {
    const seconds = Math.round((performance.now() - beganAt) / 1_000);
    return { sabotage, seconds, verdict: 'missed', by: [], note: `no campaign: ${String(error).slice(0, 200)}` };
  } finally {
    await copy.remove();
  }
}

function verdictOn(
  { edits, caughtBy }: Sabotage,
  report: Report,
  seconds: number,
): Omit<Trial, 'sabotage' | 'seconds'> {
  const names = [...new Set(report.breaches.map(({ invariant }) => invariant))].sort();
  const by = names.map((name) => ({ name, breaches: report.breaches.filter((one) => one.invariant === name).length }));
  const note = report.breaches.find(({ invariant }) => edits.length === 0 || caughtBy.includes(invariant))?.text ?? '';
  if (edits.length === 0) return { verdict: names.length === 0 ? 'sound' : 'missed', by, note };
  const isCaught = names.some((name) => caughtBy.includes(name));
  if (!isCaught) return { verdict: 'missed', by, note };
  return { verdict: seconds * 1_000 <= withinMs ? 'caught' : 'late', by, note };
}
