/**
 * `npm run chaos:night`: campaigns at default times, one after the other, until the goals are reached or the time is over.
 * What they add up to is in docs/durability.json after each of them, and a later night goes on from there: a piece that was
 * cut short counts for nothing. Ends with 0 when no piece failed, else with 1; the evidence of failed pieces stays.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Backend } from './evidence.js';
import { emptyNight, type Night, pieceOf, totalsOf, unreached } from './night-totals.js';
import { tryCampaign } from './try-campaign.js';

const { values } = parseArgs({
  options: {
    folder: { type: 'string', default: '.pawl/chaos/night' },
    docs: { type: 'string', default: 'docs/durability.json' },
    minutes: { type: 'string', default: '480' },
    pieces: { type: 'string', default: '1000' },
    runs: { type: 'string', default: '500' },
    profile: { type: 'string', default: 'real' },
    /** Of the first piece; each later one has the next. */
    seed: { type: 'string', default: '1000' },
  },
});

const folder = resolve(values.folder);
const stateFile = join(folder, 'state.json');
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());

await mkdir(folder, { recursive: true });
const night = await readFile(stateFile, 'utf8').then(
  (text) => JSON.parse(text) as Night,
  () => emptyNight(Number(values.seed)),
);
const endsAt = Date.now() + Number(values.minutes) * 60_000;
let left = Number(values.pieces);

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
    runs: Number(values.runs),
    minutes: 30,
    backend,
    profile: values.profile === 'fast' ? 'fast' : 'real',
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
