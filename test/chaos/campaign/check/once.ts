/**
 * I6: a `once` call starts at most once without an explicit "did not happen"; an unknown fate is shown and settled, by an
 * operator's answer or by what the tool's definition says, and never guessed.
 */
import type { StepDump } from '../evidence.js';
import { type Trade, tools } from '../trade.js';
import { type Breach, breachOf, type Dossier, dataOf, eventsOf, type Line, see, tracesOf } from './dossier.js';

export function checkOnce(dossier: Dossier): Breach[] {
  return dossier.steps.flatMap((step) =>
    step.effect === 'once'
      ? [...ofStarts(dossier, step), ...ofLostStarts(dossier, step), ...ofSettling(dossier, step)]
      : [],
  );
}

function ofStarts(dossier: Dossier, step: Line<StepDump>): Breach[] {
  const hits = dossier.hits.filter((hit) => hit.seq === step.seq);
  const denied = eventsOf(dossier, 'step.did_not_happen', step.seq);
  if (hits.length <= 1 + denied.length) return [];
  const text = `once step ${step.seq} started ${hits.length} times, and ${denied.length} did not happen`;
  return [breachOf('I6', dossier, text, see('ledger', ...hits), see('events', ...denied))];
}

/** An attempt that reached the world outside ends with its outcome or as unknown: nothing else may come after it. */
function ofLostStarts(dossier: Dossier, step: Line<StepDump>): Breach[] {
  const traces = tracesOf(dossier, step);
  const found = dossier.hits.flatMap((hit) => {
    if (hit.seq !== step.seq) return [];
    const ofAttempt = traces.filter((trace) => trace.attempt === hit.attempt);
    if (ofAttempt.some(({ ended }) => ended === null || ended.by === 'unknown')) return [];
    const ends = ofAttempt.map(({ ended }) => ended?.by).join(', ') || 'nothing';
    const text = `once step ${step.seq} started as attempt ${hit.attempt}, which ended by ${ends} and not as unknown`;
    return [breachOf('I6', dossier, text, see('ledger', hit), ...ofAttempt.map(({ where }) => where))];
  });
  const lost = new Set(traces.flatMap(({ ended, attempt }) => (ended?.by === 'unknown' ? [attempt] : [])));
  const shown = eventsOf(dossier, 'step.unknown', step.seq);
  if (shown.length >= lost.size) return found;
  const text = `once step ${step.seq} had ${lost.size} unknown fates, and ${shown.length} were shown`;
  return [...found, breachOf('I6', dossier, text, see('steps', step), ...traces.map(({ where }) => where))];
}

function ofSettling(dossier: Dossier, step: Line<StepDump>): Breach[] {
  const found: Breach[] = [];
  if (step.unknown && (step.status === 'completed' || step.status === 'cancelled'))
    found.push(breachOf('I6', dossier, `once step ${step.seq} is ${step.status} and unknown`, see('steps', step)));
  const unknown = eventsOf(dossier, 'step.unknown', step.seq).at(-1);
  if (step.status !== 'completed' || unknown === undefined) return found;
  const answers = eventsOf(dossier, 'step.resolved', step.seq).filter((event) => event.id > unknown.id);
  const asked = eventsOf(dossier, 'step.suspended', step.seq).filter(
    (event) => event.id > unknown.id && dataOf(event).waitingFor === 'outcome',
  );
  if (answers.length > 0) {
    if (asked.length > 0) return found;
    const text = `the unknown fate of once step ${step.seq} was answered, and nobody had been asked`;
    return [...found, breachOf('I6', dossier, text, see('events', unknown, ...answers))];
  }
  if (isSettledByTool(step)) return found;
  const text = `the unknown fate of once step ${step.seq} (${step.name}) was settled by nobody`;
  return [...found, breachOf('I6', dossier, text, see('events', unknown), see('steps', step))];
}

/** What the tool's definition may say without an operator: a look at the ledger, or that nobody knows. */
function isSettledByTool(step: StepDump): boolean {
  const byClaim = step.claim_token !== null;
  switch ((tools as Record<string, Trade>)[step.name]?.onUnknown) {
    case 'look':
      return byClaim && step.error_code === null;
    case 'tell':
      return byClaim && step.error_code === 'unknown_outcome';
    default:
      return false;
  }
}
