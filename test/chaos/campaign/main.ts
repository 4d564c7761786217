/** `npm run chaos`: one campaign, its report, and an exit status: 0 passed, 1 failed, 2 inconclusive. */
import { resolve } from 'node:path';
import { flag, number, oneOf, readOptions, someOf, text } from '../../support/options.js';
import { faultKinds, type Report } from './evidence.js';
import { tryCampaign } from './try-campaign.js';

const { values } = readOptions({
  name: 'npm run chaos --',
  says: 'One chaos campaign and its report. Ends with 0 when it passed, 1 when it failed, 2 when it is inconclusive.',
  options: {
    seed: number('what is done and what is broken is drawn by it (by chance)', null),
    runs: number('runs to start', 200, { above: true }),
    minutes: number('no run is started after that', 3, { above: true }),
    backend: oneOf('the queue', ['redis', 'postgres'], 'redis'),
    fast: flag('the short heartbeats and pauses of CI, in place of the default times'),
    layout: text('a letter for each process: a all, s steps, m maintenance (drawn by the seed)', null, {
      like: /^[asm]+$/,
      shape: 'LETTERS a, s, m',
    }),
    only: someOf('the kinds of fault', faultKinds),
    root: text('folder of the repository whose code is tried (this one)', null),
    folder: text('where the evidence is left (.pawl/chaos/…)', null),
  },
});

const statuses: Record<Report['verdict'], number> = { passed: 0, failed: 1, inconclusive: 2 };
const stop = new AbortController();
process.on('SIGINT', () => stop.abort());
process.on('SIGTERM', () => stop.abort());

const seed = values.seed ?? Math.floor(Math.random() * 1_000_000);
const { report, text: told } = await tryCampaign({
  seed,
  runs: values.runs,
  minutes: values.minutes,
  backend: values.backend,
  profile: values.fast ? 'fast' : 'real',
  layout: values.layout,
  only: values.only,
  ...(values.root === null ? {} : { root: resolve(values.root) }),
  ...(values.folder === null ? {} : { folder: resolve(values.folder) }),
  say: (line) => console.error(line),
  signal: stop.signal,
});
console.log(told);
process.exit(statuses[report.verdict]);
