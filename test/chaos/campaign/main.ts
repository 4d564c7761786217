/**
 * `npm run chaos`: one campaign, its report, and an exit status: 0 passed, 1 failed, 2 inconclusive. `--fast` takes the short
 * times of CI; `--only` takes a list of kinds of fault; `--root` tries the code of another folder.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Backend, type FaultKind, faultKinds, type Report } from './evidence.js';
import { tryCampaign } from './try-campaign.js';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    runs: { type: 'string', default: '200' },
    minutes: { type: 'string', default: '3' },
    backend: { type: 'string', default: 'redis' },
    fast: { type: 'boolean', default: false },
    layout: { type: 'string' },
    only: { type: 'string' },
    root: { type: 'string' },
    folder: { type: 'string' },
  },
});

const statuses: Record<Report['verdict'], number> = { passed: 0, failed: 1, inconclusive: 2 };
const stop = new AbortController();
process.on('SIGINT', () => stop.abort());
process.on('SIGTERM', () => stop.abort());

const seed = values.seed === undefined ? Math.floor(Math.random() * 1_000_000) : numberOf('seed');
const { report, text } = await tryCampaign({
  seed,
  runs: numberOf('runs'),
  minutes: numberOf('minutes'),
  backend: backendOf(values.backend),
  profile: values.fast ? 'fast' : 'real',
  layout: values.layout ?? null,
  only: onlyOf(values.only),
  ...(values.root === undefined ? {} : { root: resolve(values.root) }),
  ...(values.folder === undefined ? {} : { folder: resolve(values.folder) }),
  say: (line) => console.error(line),
  signal: stop.signal,
});
console.log(text);
process.exit(statuses[report.verdict]);

function numberOf(name: 'seed' | 'runs' | 'minutes'): number {
  const value = Number(values[name]);
  if (!(value > 0) && !(name === 'seed' && value === 0)) throw new Error(`--${name} is a number above 0`);
  return value;
}

function backendOf(name: string): Backend {
  if (name === 'redis' || name === 'postgres') return name;
  throw new Error('--backend is redis or postgres');
}

function onlyOf(list: string | undefined): FaultKind[] | null {
  if (list === undefined) return null;
  return list.split(',').map((name) => {
    const kind = faultKinds.find((known) => known === name);
    if (kind === undefined) throw new Error(`--only knows ${faultKinds.join(', ')}`);
    return kind;
  });
}
