/** What a process held at the moment it was hit, by the gaps that it had written down. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Fault, files, type InFlight, type WorkerLine } from './evidence.js';

type GapLine = Extract<WorkerLine, { what: 'gap' }>;

/** Adds to each fault of a process the deliveries that its process held. */
export function withInFlight(folder: string, faults: readonly Fault[]): Fault[] {
  const lines = readFileSync(join(folder, files.workers), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as WorkerLine);
  return faults.map((fault) => {
    const { pid, hitAt } = fault.details;
    if (typeof pid !== 'number' || typeof hitAt !== 'number') return fault;
    const mine = lines.filter((line) => line.pid === pid && line.at <= hitAt);
    return { ...fault, inFlight: held(mine) };
  });
}

/** By what one process wrote down until then. */
export function held(lines: readonly WorkerLine[]): InFlight[] {
  const open = new Map<string, GapLine>();
  for (const line of lines) {
    if (line.what === 'refused') open.delete(`${line.runId}.${line.seq}.${line.dispatch}`);
    if (line.what !== 'gap') continue;
    const id = `${line.runId}.${line.seq}.${line.dispatch}`;
    if (line.gap === 'after_dispatch') open.delete(id);
    else open.set(id, line);
  }
  return [...open.values()].map(({ runId, seq, gap, token }) => ({ runId, seq, gap, token }));
}
