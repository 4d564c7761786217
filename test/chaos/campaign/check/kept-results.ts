/**
 * Section 3: a result that a tool keeps is given again, by any worker, to calls with the same arguments of the same agent, for
 * as long as the tool says and no longer; and while one is kept its tool is not called. Each result names its hit in the
 * ledger, so what was given is known whatever the step says of itself.
 */
import type { Evidence, Hit, StepDump } from '../evidence.js';
import { hitIn } from '../result.js';
import { type ToolName, tools } from '../trade.js';
import { claimAt, claimOf, returnedAt } from './deliveries.js';
import { type Breach, breachOf, byKey, type Dossier, type Line, numbered, see } from './dossier.js';

const name = 'section 3';
/** The database tells when a result has expired, the machine's clock when it was asked for. */
const clockSlackMs = 250;

export function checkKeptResults(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const runs = new Map(dossiers.map((dossier) => [dossier.run.id, dossier]));
  const hits = new Map(numbered(evidence.ledger).map((hit) => [hit.n, hit]));
  const given = dossiers.flatMap((dossier) =>
    dossier.steps.flatMap((step) => (step.status === 'completed' ? ofResult(dossier, step, hits, runs) : [])),
  );
  return [...given, ...ofCalls(evidence, runs)];
}

function ofResult(
  dossier: Dossier,
  step: Line<StepDump>,
  hits: ReadonlyMap<number, Line<Hit>>,
  runs: ReadonlyMap<string, Dossier>,
): Breach[] {
  const { cacheMs = 0 } = tools[step.name as ToolName] ?? {};
  const isKept = step.note === 'cache';
  if (cacheMs === 0) {
    if (!isKept) return [];
    return [
      breachOf(name, dossier, `step ${step.seq} was given a result that ${step.name} never keeps`, see('steps', step)),
    ];
  }
  if (step.error_code !== null) return [];
  const said = dossier.messages.find(({ seq, pos }) => seq === step.turn_seq && pos === step.position);
  const wrong = (text: string, ...where: string[]) => [
    breachOf(name, dossier, `step ${step.seq} ${text}`, see('steps', step), ...where),
  ];
  const hit = hits.get(hitIn(contentOf(said?.body)) ?? 0);
  if (hit === undefined) return wrong('was given a result of no hit');
  const where = see('ledger', hit);
  const token = dossier.expected?.calls.find(({ seq }) => seq === step.seq)?.token;
  if (hit.answer !== 'ok' || hit.token !== token)
    return wrong(`was given what hit ${hit.n} did not answer to it`, where);
  const isOwn = hit.runId === dossier.run.id && hit.seq === step.seq;
  if (!isKept) return isOwn ? [] : wrong(`was given the result of hit ${hit.n} as its own`, where);
  const other = runs.get(hit.runId);
  if (other?.run.agent !== dossier.run.agent) return wrong(`was given a result of another agent, hit ${hit.n}`, where);
  const claim = claimOf(dossier, step.claim_token);
  const called = claimAt(other, hit.seq, hit.attempt, hit.at);
  const keptBy = called === null ? null : returnedAt(other, called.line.token);
  // Of a call that never came back nobody knows when its result was kept.
  if (claim === null || keptBy === null || claim.to <= keptBy + cacheMs + clockSlackMs) return [];
  const late = Math.round(claim.to - keptBy);
  return wrong(`was given the result of hit ${hit.n}, which was kept ${late} ms before, and for ${cacheMs}`, where);
}

function contentOf(body: string | undefined): string {
  return body === undefined ? '' : (JSON.parse(body) as { content: string }).content;
}

/** A result that was surely kept when another call was claimed, and not yet expired when that was made. */
function ofCalls(evidence: Evidence, runs: ReadonlyMap<string, Dossier>): Breach[] {
  const troubles = byKey(
    evidence.workers.filter((line) => line.what === 'log' && troublesWithKept.has(line.msg)),
    ({ pid }) => pid,
  );
  const calls = numbered(evidence.ledger).flatMap((hit) => {
    const dossier = runs.get(hit.runId);
    const { cacheMs = 0 } = tools[hit.tool as ToolName] ?? {};
    if (dossier === undefined || cacheMs === 0) return [];
    const claim = claimAt(dossier, hit.seq, hit.attempt, hit.at);
    if (claim === null) return [];
    const { token, pid } = claim.line;
    const until = returnedAt(dossier, token) ?? Number.POSITIVE_INFINITY;
    // Whoever could not look a result up, or could not keep it, says so.
    const hadTrouble = (troubles.get(pid) ?? []).some(({ at }) => at >= claim.to && at <= until);
    // A call that was answered and cut short, or too late for its worker, has no result.
    const step = dossier.steps.find(({ seq }) => seq === hit.seq);
    const isResult = step?.status === 'completed' && step.claim_token === token && step.error_code === null;
    const keptBy = isResult && hit.answer === 'ok' && !hadTrouble ? until : null;
    return [{ hit, dossier, cacheMs, claimedAt: claim.to, keptBy, hadTrouble }];
  });
  const found: Breach[] = [];
  for (const alike of byKey(calls, ({ hit, dossier }) => `${dossier.run.agent} ${hit.tool} ${hit.token}`).values()) {
    for (const { hit, dossier, claimedAt, cacheMs, hadTrouble } of alike) {
      const kept = alike.find(
        (one) => one.keptBy !== null && one.keptBy < claimedAt && hit.at < one.hit.at + cacheMs - clockSlackMs,
      );
      if (kept === undefined || hadTrouble) continue;
      const text = `step ${hit.seq} called ${hit.tool} though the result of hit ${kept.hit.n} was kept`;
      found.push(breachOf(name, dossier, text, see('ledger', kept.hit, hit)));
    }
  }
  return found;
}

const troublesWithKept: ReadonlySet<string> = new Set([
  'the kept results do not answer; the tool is called',
  'the result could not be kept for other calls',
]);
