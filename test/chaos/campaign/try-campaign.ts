/** One campaign from its seed to its verdict, for the command line, CI and the nightly pieces. */
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type CampaignOptions, runCampaign } from './campaign.js';
import { check } from './check/index.js';
import type { Evidence, Fault, Meta, Report } from './evidence.js';
import { profiles } from './profiles.js';
import { readEvidence } from './read-evidence.js';
import { recoveriesOf } from './recovery.js';
import { writeReport } from './report.js';

export type Try = Pick<CampaignOptions, 'seed' | 'runs' | 'minutes' | 'backend' | 'say'> &
  Partial<CampaignOptions> & { profile: keyof typeof profiles };

export interface Tried {
  folder: string;
  meta: Meta;
  faults: Fault[];
  report: Report;
  text: string;
  /** From a kill to the next claim of each step it hit: recovery.ts. */
  recovery: number[];
  evidence: Evidence;
}

export async function tryCampaign({ profile, ...given }: Try): Promise<Tried> {
  const name = `${given.backend}-${given.seed}-${new Date().toISOString().replaceAll(/[:.]/g, '')}`;
  const folder = given.folder ?? resolve('.pawl', 'chaos', name);
  await mkdir(folder, { recursive: true });
  await runCampaign({ ...profiles[profile], layout: null, only: null, ...given, folder });
  const report = await check(folder);
  const evidence = await readEvidence(folder);
  const { meta, nemesis: faults } = evidence;
  const recovery = recoveriesOf(evidence, 'nothing').times.map(({ ms }) => ms);
  return {
    folder,
    meta,
    faults,
    report,
    recovery,
    evidence,
    text: writeReport(meta, faults, report, recovery, folder),
  };
}
