/**
 * The checker: reads the folder that a campaign left and says whether the invariants of PROTOCOL.md section 9 held. It needs
 * no service and changes nothing. Next: judge.ts, then one file per invariant.
 */
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { files, type Report } from '../evidence.js';
import { readEvidence } from '../read-evidence.js';
import type { Breach } from './dossier.js';
import { judge } from './judge.js';
import { secretsIn } from './secrets.js';

/** Throws when the folder is not whole. */
export async function check(folder: string): Promise<Report> {
  const evidence = await readEvidence(folder);
  return judge(evidence, await readForSecrets(folder, evidence.meta.secrets));
}

async function readForSecrets(folder: string, secrets: readonly string[]): Promise<Breach[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const found: Breach[] = [];
  for (const entry of entries) {
    if (!entry.isFile() || entry.name === files.meta) continue;
    const path = join(entry.parentPath, entry.name);
    const file = relative(folder, path);
    let line = 0;
    for await (const text of createInterface({ input: createReadStream(path) })) {
      line += 1;
      found.push(...secretsIn({ file, line, text }, secrets));
    }
  }
  return found;
}
