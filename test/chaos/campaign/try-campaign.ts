/** One campaign from its seed to its verdict, for the command line, CI and the nightly pieces. */
import { mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type CampaignOptions, runCampaign } from './campaign.js';
import { check } from './check/index.js';
import { type Fault, files, type Meta, type Report } from './evidence.js';
import { profiles } from './profiles.js';
import { writeReport } from './report.js';

export type Try = Pick<CampaignOptions, 'seed' | 'runs' | 'minutes' | 'backend' | 'say'> &
  Partial<CampaignOptions> & { profile: keyof typeof profiles };

export interface Tried {
  folder: string;
  meta: Meta;
  faults: Fault[];
  report: Report;
  text: string;
}

export async function tryCampaign({ profile, ...given }: Try): Promise<Tried> {
  const name = `${given.backend}-${given.seed}-${new Date().toISOString().replaceAll(/[:.]/g, '')}`;
  const folder = given.folder ?? resolve('.pawl', 'chaos', name);
  await mkdir(folder, { recursive: true });
  await runCampaign({ ...profiles[profile], layout: null, only: null, ...given, folder });
  const report = await check(folder);
  const meta = JSON.parse(await readFile(join(folder, files.meta), 'utf8')) as Meta;
  const faults = (await readFile(join(folder, files.nemesis), 'utf8'))
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Fault]));
  return { folder, meta, faults, report, text: writeReport(meta, faults, report, folder) };
}
