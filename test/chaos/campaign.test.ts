/**
 * A short campaign on each queue, at least 200 runs and 50 kills together: runs of known output on real processes, which are
 * killed while the services are wiped, restarted, cut off and lied for. `npm run chaos` runs longer ones, with the default times.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { queueBackends } from '../support/services.js';
import { seedOfDay } from './campaign/seeds.js';
import { type Tried, tryCampaign } from './campaign/try-campaign.js';
import { Gate } from './gate.js';

/** A slow machine gets longer than it should need: what counts is what happened. */
const minutes = 4;
const campaignMs = 420_000;

/** Only one breaks things at a time; while the last runs of one come to their end, which is waiting, the next begins. */
const breaking = new Gate(1);

describe.concurrent.each(queueBackends())('a campaign on the %s queue', (backend) => {
  it('loses nothing, does nothing twice and brings every run to its known end', {
    timeout: 2 * campaignMs,
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-evidence-'));
    const seed = Number(process.env.PAWL_CHAOS_SEED ?? seedOfDay(backend) ?? 1);
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    const asked = { seed, runs: 102, atLeast: { kills: 26, zombies: 3 }, openRuns: 40, minutes, backend };
    const { report, text } = await brokenInTurn((whenWhole) =>
      tryCampaign({ ...asked, profile: 'fast', folder, say, whenWhole }),
    );
    process.stdout.write(`\n${text}\n`);
    expect(report.breaches, lines.join('\n')).toEqual([]);
    expect(report.missing).toEqual([]);
    expect(report.counts.runs).toBeGreaterThanOrEqual(100);
    expect(report.counts.kills).toBeGreaterThanOrEqual(25);
    await rm(folder, { recursive: true });
  });
});

async function brokenInTurn(play: (whenWhole: () => void) => Promise<Tried>): Promise<Tried> {
  let played: Promise<Tried> | undefined;
  await breaking.pass(async () => {
    await new Promise<void>((resolve) => {
      played = play(resolve);
      void played.catch(() => {}).then(() => resolve());
    });
  });
  return played ?? Promise.reject(new Error('not played'));
}
