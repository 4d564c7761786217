/**
 * Section 7: only the dead are buried. A worker declared dead whose process lived on undisturbed, and a claim taken from a
 * living worker while nothing was broken, are false takeovers: none may occur.
 */
import type { Evidence, WorkerLine } from '../evidence.js';
import { tellingLines } from '../evidence.js';
import { type Breach, breachOfAll, type Line, numbered, see } from './dossier.js';
import { disturbedSpans, disturbedSpansOf, overlaps } from './spans.js';

const name = 'section 7';
/** What a fault leaves behind is not over when it is: a beat that hangs, connections to be made again. */
const aftermathMs = 5_000;
/** The longest that a claim may outlive its deadline. */
const overdueMs = 30_000;

type LogLine = Line<Extract<WorkerLine, { what: 'log' }>>;

export function checkTakeovers(evidence: Evidence): Breach[] {
  const { workers, tables, meta } = evidence;
  const disturbed = disturbedSpans(evidence);
  const pids = new Map(tables.workers.map(({ id, pid }) => [id, pid]));
  const goneAt = new Map(workers.flatMap((line) => (line.what === 'exited' ? [[line.pid, line.at]] : [])));
  const places = new Map(workers.map((line) => [line.pid, line.worker]));

  function ofDeath(line: LogLine): Breach[] {
    const workerId = String(line.fields.workerId);
    const pid = pids.get(workerId);
    if (pid === undefined || (goneAt.get(pid) ?? Number.POSITIVE_INFINITY) <= line.at) return [];
    const from = line.at - meta.settings.deathMs - aftermathMs;
    if (overlaps(disturbedSpansOf(evidence, places.get(pid) ?? ''), { from, to: line.at })) return [];
    return [breachOfAll(name, `${workerId} (process ${pid}) was declared dead and was not`, see('workers', line))];
  }

  function ofRescue(line: LogLine): Breach[] {
    const { runId, seq, cause } = line.fields;
    if (cause === 'crash' || overlaps(disturbed, { from: line.at - overdueMs, to: line.at })) return [];
    const text = `step ${String(seq)} of ${String(runId)} was taken back (${String(cause)}) while nothing was broken`;
    return [breachOfAll(name, text, see('workers', line))];
  }

  const logs = numbered(workers).flatMap((line) => (line.what === 'log' ? [line] : []));
  return logs.flatMap((line) => {
    if (line.msg === tellingLines.declaredDead) return ofDeath(line);
    return line.msg === tellingLines.rescued ? ofRescue(line) : [];
  });
}
