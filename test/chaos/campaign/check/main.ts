/** `npm run chaos:check -- FOLDER`: prints the report. Ends with 0 when it passed, 1 when not, 2 when it is inconclusive. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readOptions } from '../../../support/options.js';
import { files, type Meta } from '../evidence.js';
import { check } from './index.js';
import { printReport } from './print.js';

const exits = { passed: 0, failed: 1, inconclusive: 2 } as const;

const { operand: folder } = readOptions({
  name: 'npm run chaos:check --',
  says: 'Judges the evidence that a campaign left. Ends with 0 when it passed, 1 when it failed, 2 when it is inconclusive.',
  operand: 'FOLDER',
  options: {},
});
const report = await check(folder);
const meta = JSON.parse(await readFile(join(folder, files.meta), 'utf8')) as Meta;
console.log(printReport(report, meta));
process.exit(exits[report.verdict]);
