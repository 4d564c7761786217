/**
 * `npm run chaos:night`: campaigns at default times, one after the other, until the goals are reached or the time is over.
 * What they add up to is in docs/durability.json after each of them, and a later night goes on from there: a piece that was
 * cut short counts for nothing. Ends with 0 when no piece failed, else with 1; the evidence of failed pieces stays.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { number, oneOf, readOptions, text } from '../../support/options.js';
import type { Backend } from './evidence.js';
import { emptyNight, type Night, pieceOf, totalsOf, unreached } from './night-totals.js';
import { tryCampaign } from './try-campaign.js';

const { values } = readOptions({
  name: 'npm run chaos:night --',
  says: 'Campaigns one after the other, on the two queues in turn, from where the last night stopped. Ends with 1 when one failed.',
  options: {
    folder: text('where the state and the evidence of failed pieces are kept', '.pawl/chaos/night'),
    docs: text('file for what they add up to', 'docs/durability.json'),
    minutes: number('no piece is begun after that', 480, { above: true }),
    pieces: number('campaigns to play, at most', 1000, { above: true }),
    runs: number('runs of each', 500, { above: true }),
    profile: oneOf('the times of workers by default, or the short ones of CI', ['real', 'fast'], 'real'),
    seed: number('of the first piece of all; each later one has the next', 1000),
  },
});

const folder = resolve(values.folder);
const stateFile = join(folder, 'state.json');
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());

await mkdir(folder, { recursive: true });
const night = await readFile(stateFile, 'utf8').then(
  (text) => JSON.parse(text) as Night,
  () => emptyNight(values.seed),
);
const endsAt = Date.now() + values.minutes * 60_000;
let left = values.pieces;

while (left > 0 && Date.now() < endsAt && !stop.signal.aborted && unreached(night).length > 0) {
  left -= 1;
  await playPiece();
  const totals = totalsOf(night);
  console.log(`${night.pieces.length} pieces; still to come: ${unreached(night).join(', ') || 'nothing'}`);
  if (totals.breaches > 0) console.log(`${totals.breaches} breaches so far`);
}
process.exit(totalsOf(night).failed === 0 ? 0 : 1);

async function playPiece(): Promise<void> {
  const backend: Backend = night.pieces.length % 2 === 0 ? 'redis' : 'postgres';
  const seed = night.nextSeed;
  const evidence = join(folder, `${backend}-${seed}`);
  await rm(evidence, { recursive: true, force: true });
  console.log(`\npiece ${night.pieces.length + 1}: seed ${seed} on ${backend}`);
  const tried = await tryCampaign({
    seed,
    runs: values.runs,
    minutes: 30,
    backend,
    profile: values.profile,
    folder: evidence,
    say: () => {},
    signal: stop.signal,
  });
  // Interrupted, it has shown nothing.
  if (stop.signal.aborted) return;
  console.log(tried.text);
  night.pieces.push(pieceOf(tried));
  night.nextSeed += 1;
  if (tried.report.verdict !== 'failed') await rm(evidence, { recursive: true });
  await write(stateFile, night);
  await write(resolve(values.docs), { totals: totalsOf(night), pieces: night.pieces });
}

/** As a whole or not at all. */
async function write(path: string, value: unknown): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.new`, `${JSON.stringify(value, null, 2)}\n`);
  await rename(`${path}.new`, path);
}
