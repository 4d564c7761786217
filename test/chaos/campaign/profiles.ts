/**
 * How hard a campaign is and how long its parts take: `real` has the times that workers have by default, `fast` shorter
 * ones, so that a machine under test in CI sees as many take-overs in a minute as otherwise in ten.
 */
import type { CampaignOptions } from './campaign.js';

export type Profile = Pick<
  CampaignOptions,
  'heartbeatMs' | 'deathMs' | 'concurrency' | 'openRuns' | 'startEveryMs' | 'quietMs' | 'paces' | 'times'
>;

export const profiles: Record<'real' | 'fast', Profile> = {
  real: {
    heartbeatMs: 2_000,
    deathMs: 8_000,
    concurrency: 5,
    openRuns: 60,
    startEveryMs: 400,
    quietMs: 20_000,
    paces: {
      kills: { pauseMs: [1_000, 4_000], steps: 40, longestMs: 20_000 },
      processes: { pauseMs: [3_000, 8_000], steps: 60, longestMs: 30_000 },
      services: { pauseMs: [3_000, 8_000], steps: 80, longestMs: 40_000 },
      jobs: { pauseMs: [1_000, 3_000], steps: 30, longestMs: 20_000 },
    },
    // A process is stopped for longer than the longest lease, a job's lock and the check for it: 45 s.
    times: {
      gapWithinMs: 6_000,
      frozenMs: 15_000,
      zombieMs: [12_000, 50_000],
      blockedMs: [5_000, 35_000],
      awayMs: [1_000, 6_000],
      lockedMs: [1_000, 20_000],
      withdrawnMs: [2_000, 8_000],
    },
  },
  fast: {
    heartbeatMs: 300,
    deathMs: 2_000,
    concurrency: 5,
    openRuns: 50,
    startEveryMs: 0,
    quietMs: 4_000,
    paces: {
      // A machine on which a process takes seconds to start would have none left by kills that wait for less.
      kills: { pauseMs: [100, 400], steps: 6, longestMs: 8_000 },
      processes: { pauseMs: [500, 1_500], steps: 15, longestMs: 8_000 },
      services: { pauseMs: [1_000, 2_500], steps: 25, longestMs: 12_000 },
      jobs: { pauseMs: [200, 600], steps: 8, longestMs: 6_000 },
    },
    times: {
      gapWithinMs: 3_000,
      frozenMs: 4_000,
      zombieMs: [5_000, 9_000],
      blockedMs: [2_500, 4_000],
      awayMs: [300, 1_800],
      lockedMs: [500, 3_000],
      withdrawnMs: [300, 2_500],
    },
  },
};
