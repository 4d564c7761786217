/** Reads a campaign's folder back into one value. A last line that a crash left half is an error: evidence is whole or none. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Evidence, files, type Meta, type Table, type Tables, tables } from './evidence.js';

export async function readEvidence(folder: string): Promise<Evidence> {
  const lines = <T>(name: string) => readLines<T>(join(folder, name));
  const dumped = await Promise.all(
    tables.map(async (table) => [table, await lines(join('tables', `${table}.jsonl`))] as const),
  );
  return {
    meta: JSON.parse(await readFile(join(folder, files.meta), 'utf8')) as Meta,
    expected: await lines(files.expected),
    clients: await lines(files.clients),
    nemesis: await lines(files.nemesis),
    ledger: await lines(files.ledger),
    model: await lines(files.model),
    workers: await lines(files.workers),
    tables: Object.fromEntries(dumped) as Record<Table, unknown> as Tables,
  };
}

async function readLines<T>(path: string): Promise<T[]> {
  const text = await readFile(path, 'utf8');
  return text.split('\n').flatMap((line, index) => {
    if (line === '') return [];
    try {
      return [JSON.parse(line) as T];
    } catch (cause) {
      throw new Error(`${path}, line ${index + 1} is no JSON`, { cause });
    }
  });
}
