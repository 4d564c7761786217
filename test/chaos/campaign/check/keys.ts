/**
 * I5: every attempt of a tool call carries the same idempotency key, and different calls carry different ones; so a call
 * takes effect as often as its plan says, however often it was tried. Judged by the ledger, in a process never killed.
 */
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, breachOfAll, byKey, type Dossier, numbered, see } from './dossier.js';

export function checkKeys(dossier: Dossier): Breach[] {
  const found: Breach[] = [];
  for (const [seq, hits] of byKey(dossier.hits, (hit) => hit.seq)) {
    const step = dossier.steps.find((candidate) => candidate.seq === seq);
    const foreign = hits.filter((hit) => hit.key !== step?.idempotency_key);
    if (foreign.length === 0) continue;
    const keys = new Set(hits.map((hit) => hit.key));
    const text = `step ${seq} called with ${keys.size === 1 ? 'a key' : `${keys.size} keys`}, not with the step's alone`;
    found.push(
      breachOf('I5', dossier, text, see('ledger', ...hits), ...(step === undefined ? [] : [see('steps', step)])),
    );
  }
  return [...found, ...ofEffects(dossier)];
}

function ofEffects(dossier: Dossier): Breach[] {
  const { steps, expected } = dossier;
  return steps.flatMap((step) => {
    const call = expected?.calls.find((candidate) => candidate.seq === step.seq);
    if (call === undefined || step.kind !== 'tool') return [];
    const hits = dossier.hits.filter((hit) => hit.seq === step.seq);
    const applied = hits.filter((hit) => hit.applied);
    // Of a `once` call, a second start is what I6 speaks of.
    const most = call.applies === 0 ? 0 : step.effect === 'once' ? Number.POSITIVE_INFINITY : 1;
    const least = step.status === 'completed' && call.applies === 1 ? 1 : 0;
    if (applied.length >= least && applied.length <= most) return [];
    const text = `step ${step.seq} is ${step.status} and took effect ${applied.length} times`;
    return [breachOf('I5', dossier, text, see('steps', step), see('ledger', ...hits))];
  });
}

export function checkForeignKeys({ ledger }: Pick<Evidence, 'ledger'>): Breach[] {
  return [...byKey(numbered(ledger), (hit) => hit.key)].flatMap(([key, hits]) => {
    const calls = new Set(hits.map((hit) => `${hit.runId}.${hit.seq}`));
    if (calls.size === 1) return [];
    return [breachOfAll('I5', `the calls ${[...calls].join(', ')} carried one key, ${key}`, see('ledger', ...hits))];
  });
}
