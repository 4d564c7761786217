/** Writes docs/judgement.json and, from it, the generated part of docs/judgement.md. */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { withResults } from './page.js';
import type { Summary } from './summary.js';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));

export async function writeDocs(summary: Summary): Promise<void> {
  await writeFile(`${docs}/judgement.json`, `${JSON.stringify(summary, null, 2)}\n`);
  const page = await readFile(`${docs}/judgement.md`, 'utf8');
  await writeFile(`${docs}/judgement.md`, withResults(page, summary));
}
