/** Writes the evidence of the supervisor's own side, a line at a time, and keeps the faults until what they hit is known. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClientCall, type Expected, type Fault, files, type Meta, type WorkerLine } from './evidence.js';

export interface Notebook {
  folder: string;
  expected(expected: Expected): void;
  client(call: ClientCall): void;
  worker(line: WorkerLine): void;
  fault(fault: Fault): void;
  faults: readonly Fault[];
  /** The faults once more, with what each hit. */
  rewriteFaults(faults: readonly Fault[]): void;
  meta(meta: Meta): void;
}

export function openNotebook(folder: string): Notebook {
  mkdirSync(join(folder, 'tables'), { recursive: true });
  const path = (name: string) => join(folder, name);
  for (const name of Object.values(files)) if (name !== files.meta) writeFileSync(path(name), '');
  const append = (name: string, value: unknown) => appendFileSync(path(name), `${JSON.stringify(value)}\n`);
  const faults: Fault[] = [];
  return {
    folder,
    expected: (expected) => append(files.expected, expected),
    client: (call) => append(files.clients, call),
    worker: (line) => append(files.workers, line),
    fault(fault) {
      faults.push(fault);
      append(files.nemesis, fault);
    },
    faults,
    rewriteFaults(known) {
      writeFileSync(path(files.nemesis), known.map((fault) => `${JSON.stringify(fault)}\n`).join(''));
    },
    meta: (meta) => writeFileSync(path(files.meta), `${JSON.stringify(meta, null, 2)}\n`),
  };
}
