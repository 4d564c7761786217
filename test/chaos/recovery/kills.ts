/**
 * From SIGKILL to the next claim, in another process, of each step that the killed one held, jobs fetched and not yet
 * claimed among them. Workers are killed one after the other, so that most recoveries see further kills: none is left out.
 */
import { percentiles, recoveriesOf } from '../campaign/recovery.js';
import { tryCampaign } from '../campaign/try-campaign.js';
import type { Setting } from './measure.js';

export async function measureKills(setting: Setting): Promise<object> {
  const { report, evidence } = await tryCampaign({
    ...setting,
    profile: 'real',
    runs: 20_000,
    minutes: setting.minutes ?? 15,
    layout: 'aaaam',
    only: ['kill', 'kill_at_gap'],
    openRuns: 60,
    startEveryMs: 100,
    paces: paced({ pauseMs: [1_500, 3_000], steps: 0, longestMs: 0 }),
  });
  for (const { text } of report.breaches) setting.say(text);
  const recoveries = recoveriesOf(evidence, 'kills');
  const unclaimed = recoveries.filter(({ gap }) => gap === 'before_claim');
  return {
    kills: report.counts.kills,
    'kills that hit a step in flight': report.counts['kills that hit a step in flight'],
    'steps in flight': recoveries.length,
    'of them fetched and not yet claimed': unclaimed.length,
    breaches: report.breaches.length,
    ms: percentiles(recoveries.map(({ ms }) => ms)),
    'ms of those not yet claimed': percentiles(unclaimed.map(({ ms }) => ms)),
  };
}

/** The same pace in every lane: those without a fault of their own do nothing. */
export function paced<Pace>(pace: Pace) {
  return { kills: pace, processes: pace, services: pace, jobs: pace };
}
