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
import { tryCampaign } from './campaign/try-campaign.js';

/** A slow machine gets longer than it should need: what counts is what happened. */
const minutes = 4;

describe.each(queueBackends())('a campaign on the %s queue', (backend) => {
  it('loses nothing, does nothing twice and brings every run to its known end', { timeout: 420_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-evidence-'));
    const seed = Number(process.env.PAWL_CHAOS_SEED ?? seedOfDay(backend) ?? 1);
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    const asked = { seed, runs: 102, kills: 26, openRuns: 40, minutes, backend };
    const { report, text } = await tryCampaign({ ...asked, profile: 'fast', folder, say });
    process.stdout.write(`\n${text}\n`);
    expect(report.breaches, lines.join('\n')).toEqual([]);
    expect(report.missing).toEqual([]);
    expect(report.counts.runs).toBeGreaterThanOrEqual(100);
    expect(report.counts.kills).toBeGreaterThanOrEqual(25);
    await rm(folder, { recursive: true });
  });
});
