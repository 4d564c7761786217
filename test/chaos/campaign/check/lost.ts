/**
 * Nothing is lost (I3): each accepted start has exactly one run, by its key; a run is final, or waits for something that it
 * names, or has a step that will move. Whether it does move, stillness.ts says.
 */
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, breachOfAll, byKey, type Dossier, isRunFinal, numbered, see } from './dossier.js';

const isOpen = (status: string) => status === 'pending' || status === 'running' || status === 'suspended';

/** What somebody outside has to do; a run may wait for it for ever. */
const waitsOutside = ['approval', 'timer', 'signal', 'child', 'outcome', 'operator', 'limit', 'batch'];

export function checkStarts(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const runs = byKey(dossiers, ({ run }) => run.key);
  const starts = numbered(evidence.clients).flatMap((call) => (call.op === 'start' ? [call] : []));
  const found: Breach[] = [];
  for (const [key, calls] of byKey(starts, (call) => call.key)) {
    const accepted = calls.filter((call) => call.answer.ok);
    const ids = new Set([...accepted.map((call) => call.runId), ...(runs.get(key) ?? []).map(({ run }) => run.id)]);
    const where = see('clients', ...calls);
    if (ids.size > 1) found.push(breachOfAll('I3', `the key ${key} names ${[...ids].join(' and ')}`, where));
    if (accepted.length > 0 && !runs.has(key))
      found.push(breachOfAll('I3', `the start of ${key} was accepted and has no run`, where));
    const created = accepted.filter((call) => call.answer.ok && call.answer.created === true);
    if (created.length > 1)
      found.push(breachOfAll('I3', `${created.length} starts of ${key} were told that theirs is the new run`, where));
  }
  const asked = new Set(starts.map((call) => call.key));
  for (const dossier of dossiers) {
    const { run, expected } = dossier;
    if (run.key === null || !asked.has(run.key) || expected === null || expected.agent !== run.agent)
      found.push(breachOf('I3', dossier, `(key ${run.key}) was started by nobody`, see('runs', run)));
  }
  return found;
}

export function checkStanding(dossier: Dossier): Breach[] {
  const { run, steps } = dossier;
  const found: Breach[] = [];
  const open = steps.filter((step) => isOpen(step.status));
  const suspended = open.filter((step) => step.status === 'suspended');
  if (open.length !== run.open_steps || suspended.length !== run.suspended_steps) {
    const text = `counts ${run.open_steps} open and ${run.suspended_steps} suspended steps, of ${open.length} and ${suspended.length}`;
    found.push(breachOf('I3', dossier, text, see('runs', run), see('steps', ...open)));
  }
  if (isRunFinal(run) !== (open.length === 0))
    found.push(breachOf('I3', dossier, `is ${run.status} with ${open.length} open steps`, see('runs', run)));
  if (run.status === 'completed') {
    for (const step of steps.filter(({ status }) => status === 'dead' || status === 'cancelled'))
      found.push(breachOf('I3', dossier, `is completed, and its step ${step.seq} ${step.status}`, see('steps', step)));
  }
  for (const step of suspended)
    if (step.waiting_for === null)
      found.push(breachOf('I3', dossier, `step ${step.seq} waits for nothing`, see('steps', step)));
  return found;
}

/** Liveness: at the end of a campaign, long after its last fault, a run is final or waits for something outside. */
export function checkSettled(dossier: Dossier, { meta }: Pick<Evidence, 'meta'>): Breach[] {
  const { run, steps } = dossier;
  if (isRunFinal(run)) return [];
  const open = steps.filter((step) => isOpen(step.status));
  const waits = open.filter((step) => step.status === 'suspended');
  if (open.length > 0 && waits.length === open.length && waits.some((step) => waitsFor(step.waiting_for))) return [];
  const seconds = Math.round((meta.endedAt - meta.lastFaultAt) / 1_000);
  const names = open.map(
    (step) => `${step.seq} ${step.status}${step.waiting_for === null ? '' : ':'}${step.waiting_for ?? ''}`,
  );
  const text = `is ${run.status} ${seconds} s after the last fault, its open steps ${names.join(', ') || 'none'}`;
  return [breachOf('liveness', dossier, text, see('runs', run), see('steps', ...open))];
}

/** The clients themselves saw not all of their runs at an end, or were never told that a run was accepted. */
export function checkSettledAsAWhole({ meta }: Pick<Evidence, 'meta'>): Breach[] {
  if (meta.settledAt !== null) return [];
  return [breachOfAll('liveness', `not everything was over ${meta.livenessMs / 1_000} s after the last fault`)];
}

function waitsFor(kind: string | null): boolean {
  return kind !== null && waitsOutside.includes(kind);
}
