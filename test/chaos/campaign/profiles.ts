/**
 * How hard a campaign is and how long its parts take: `real` has the times that workers have by default, `fast` shorter
 * ones, so that a machine under test in CI sees as many take-overs in a minute as otherwise in ten.
 */
import type { CampaignOptions } from './campaign.js';

export type Profile = Pick<
  CampaignOptions,
  'heartbeatMs' | 'deathMs' | 'concurrency' | 'openRuns' | 'quietMs' | 'pace' | 'times'
>;

export const profiles: Record<'real' | 'fast', Profile> = {
  real: {
    heartbeatMs: 2_000,
    deathMs: 8_000,
    concurrency: 5,
    openRuns: 30,
    quietMs: 20_000,
    pace: { processes: [1_000, 4_000], services: [3_000, 9_000], jobs: [1_000, 3_000] },
    // A process is stopped for longer than the longest lease, a job's lock and the check for it: 45 s.
    times: {
      frozenMs: 15_000,
      zombieMs: [12_000, 50_000],
      blockedMs: [5_000, 35_000],
      awayMs: [1_000, 6_000],
      lockedMs: [1_000, 20_000],
    },
  },
  fast: {
    heartbeatMs: 300,
    deathMs: 2_000,
    concurrency: 5,
    openRuns: 24,
    quietMs: 4_000,
    pace: { processes: [400, 1_200], services: [1_500, 4_000], jobs: [500, 1_500] },
    times: {
      frozenMs: 4_000,
      zombieMs: [4_000, 6_000],
      blockedMs: [2_500, 4_000],
      awayMs: [300, 1_800],
      lockedMs: [500, 3_000],
    },
  },
};
