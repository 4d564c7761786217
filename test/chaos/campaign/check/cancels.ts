/**
 * I11: no claim commits after a cancel does, and a call in flight is aborted within 3 s while its worker lives. Both times
 * are the database's, read under the run's lock.
 */
import { silenceMs } from '../../../../src/postgres/pool.js';
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, type Dossier, eventsOf, isRunFinal, ms, see, tracesOf } from './dossier.js';
import { disturbedSpans, overlaps, type Span } from './spans.js';

const abortedWithinMs = 3_000;
/** The record of what was aborted. */
const slackMs = 1_000;

export function checkCancels(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const disturbed = [...disturbedSpans(evidence), ...silentSpans(evidence)];
  return dossiers.flatMap((dossier) => {
    const [cancel] = eventsOf(dossier, 'run.cancel_requested');
    const found = ofAnswers(dossier);
    if (cancel === undefined) return found;
    const at = ms(cancel.at);
    const isCalm = !overlaps(disturbed, { from: at - 2_000, to: at + abortedWithinMs + slackMs });
    for (const step of dossier.steps) {
      for (const { startedAt, ended, where } of tracesOf(dossier, step)) {
        if (startedAt > at) {
          const text = `step ${step.seq} was claimed ${startedAt - at} ms after the run was cancelled`;
          found.push(breachOf('I11', dossier, text, see('events', cancel), where));
        }
        const endedAt = ended?.at ?? (step.finished_at === null ? null : ms(step.finished_at));
        if (step.effect === 'once' || endedAt === null || endedAt <= at + abortedWithinMs + slackMs) continue;
        if (!isCalm || startedAt > at) continue;
        const text = `step ${step.seq} went on for ${endedAt - at} ms after the run was cancelled`;
        found.push(breachOf('I11', dossier, text, see('events', cancel), where));
      }
    }
    return found;
  });
}

/** What a worker sent on a half-open connection is under way until it is given up: nothing says sooner that it is lost. */
function silentSpans({ nemesis }: Evidence): Span[] {
  return nemesis
    .filter(({ kind, target }) => kind === 'net_half_open' && target === 'postgres')
    .map(({ beganAt, endedAt }) => ({ from: beganAt, to: endedAt + silenceMs }));
}

function ofAnswers(dossier: Dossier): Breach[] {
  const { run } = dossier;
  const accepted = dossier.clients.filter((call) => call.op === 'cancel' && call.answer.ok);
  if (accepted.length === 0 || !isRunFinal(run) || run.status === 'cancelled') return [];
  const where = [see('clients', ...accepted), see('runs', run)];
  return [breachOf('I11', dossier, `is ${run.status} though its cancel was accepted`, ...where)];
}
