/**
 * What a worker's process must never do, whatever is thrown at it: end by a fault of its own once it works, or meet an outcome
 * that the database refuses. No plan holds one, so a refusal means that a rule wrote what a constraint forbids.
 */
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, breachOfAll, type Dossier, numbered, see } from './dossier.js';

export function checkProcesses({ workers }: Pick<Evidence, 'workers'>, dossiers: readonly Dossier[]): Breach[] {
  const ready = new Set<number>();
  const runs = new Map(dossiers.map((dossier) => [dossier.run.id, dossier]));
  return numbered(workers).flatMap((line) => {
    if (line.what === 'ready') ready.add(line.pid);
    if (line.what === 'exited' && ready.has(line.pid) && line.code !== null && line.code !== 0) {
      const text = `process ${line.worker} (${line.pid}) ended by a fault of its own, with ${line.code}`;
      return [breachOfAll('process', text, see('workers', line))];
    }
    if (line.what !== 'log' || line.msg !== 'the outcome cannot be stored') return [];
    const { runId, seq, cause } = line.fields;
    const text = `the outcome of step ${String(seq)} could not be stored: ${String(cause)}`;
    const dossier = runs.get(String(runId));
    const where = see('workers', line);
    return [
      dossier === undefined ? breachOfAll('section 5', text, where) : breachOf('section 5', dossier, text, where),
    ];
  });
}
