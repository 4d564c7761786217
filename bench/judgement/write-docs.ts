/** Writes docs/judgement.json and, from it, the generated part of docs/judgement.md. */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { withResults } from './page.js';
import type { Summary } from './summary.js';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));

export async function writeDocs(summary: Summary): Promise<void> {
  // A list of numbers on one line, as the formatter has it.
  const json = JSON.stringify(summary, null, 2).replaceAll(/\[[\d\s,]+\]/g, (list) =>
    list.replaceAll(/\s+/g, ' ').replaceAll(/\[ | \]/g, (end) => end.trim()),
  );
  await writeFile(`${docs}/judgement.json`, `${json}\n`);
  const page = await readFile(`${docs}/judgement.md`, 'utf8');
  await writeFile(`${docs}/judgement.md`, withResults(page, summary));
}
