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
  const logs = numbered(evidence.workers).flatMap((line) => (line.what === 'log' ? [line] : []));
  const disturbed = disturbedSpans(evidence);
  return logs.flatMap((line) => {
    if (line.msg === tellingLines.declaredDead) return ofDeath(evidence, line);
    if (line.msg !== tellingLines.rescued || line.fields.cause === 'crash') return [];
    if (overlaps(disturbed, { from: line.at - overdueMs, to: line.at })) return [];
    const { runId, seq, cause } = line.fields;
    const text = `step ${String(seq)} of ${String(runId)} was taken back (${String(cause)}) while nothing was broken`;
    return [breachOfAll(name, text, see('workers', line))];
  });
}

function ofDeath(evidence: Evidence, line: LogLine): Breach[] {
  const workerId = line.fields.workerId;
  const pid = evidence.tables.workers.find((worker) => worker.id === workerId)?.pid;
  if (pid === undefined) return [];
  const isGone = evidence.workers.some((other) => other.what === 'exited' && other.pid === pid && other.at <= line.at);
  const from = line.at - evidence.meta.settings.deathMs - aftermathMs;
  if (isGone || overlaps(disturbedSpansOf(evidence, pid), { from, to: line.at })) return [];
  const text = `${String(workerId)} (process ${pid}) was declared dead and was not`;
  return [breachOfAll(name, text, see('workers', line))];
}
