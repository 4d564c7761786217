/**
 * I3 and I8: a run that is able to move does so within 20 s, whatever was killed or forgotten meanwhile, and within 10 s where
 * nothing was done to it but that the queue forgot its job. A move is anything that was written of it: an event, a delivery,
 * a call that reached the model or the world outside. The time counts from the last move, or from when services and workers
 * were there again.
 */
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, type Dossier, ms, see } from './dossier.js';
import { disturbedSpans, losesQueue, overlaps, type Span, unableSpans } from './spans.js';

const movesWithinMs = 20_000;
const dispatchedWithinMs = 10_000;
/** A busy machine, and the pages of a sweep. */
const slackMs = 2_000;

interface Loss {
  id: number;
  kind: string;
  at: number;
  /** Nothing else was broken around it. */
  isAlone: boolean;
}

export function checkStillness(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const unable = unableSpans(evidence);
  const losses = lossesOf(evidence);
  // What never moved again is for liveness to say; here the end of the campaign is no move.
  return dossiers.flatMap((dossier) => {
    for (const span of stillSpans(dossier, unable)) {
      const loss = losses.find(({ at }) => at >= span.from - slackMs && at <= span.to);
      const isForgotten = loss?.isAlone === true && span.to - loss.at > dispatchedWithinMs + slackMs;
      if (!isForgotten && span.to - span.from <= movesWithinMs + slackMs) continue;
      const seconds = Math.round((span.to - span.from) / 100) / 10;
      const text = `stood still for ${seconds} s from ${new Date(span.from).toISOString()}, able to move`;
      if (loss === undefined) return [breachOf('I3', dossier, text, see('runs', dossier.run))];
      return [breachOf('I8', dossier, `${text}, after ${loss.kind}`, see('runs', dossier.run), `nemesis ${loss.id}`)];
    }
    return [];
  });
}

function lossesOf(evidence: Evidence): Loss[] {
  const disturbed = disturbedSpans(evidence, losesQueue);
  // A worker that died just before is still to be declared dead.
  const before = evidence.meta.settings.deathMs + 2 * slackMs;
  return evidence.nemesis.flatMap(({ id, kind, endedAt: at }) => {
    if (!losesQueue.has(kind)) return [];
    const around = { from: at - before, to: at + dispatchedWithinMs + slackMs };
    return [{ id, kind, at, isAlone: !overlaps(disturbed, around) }];
  });
}

/** The times between two moves of a run that was not suspended, without those in which nothing could move. */
function stillSpans(dossier: Dossier, unable: readonly Span[]): Span[] {
  const found: Span[] = [];
  const moves = movesOf(dossier);
  for (const [index, move] of moves.entries()) {
    const next = moves[index + 1];
    if (next === undefined || move.rests) continue;
    let from = move.at;
    for (const span of unable) {
      if (span.to <= from || span.from >= next.at) continue;
      if (span.from > from) found.push({ from, to: span.from });
      from = span.to;
    }
    if (from < next.at) found.push({ from, to: next.at });
  }
  return found;
}

/** `rests`: from then on the run is suspended or final. */
function movesOf({ run, events, deliveries, hits, modelCalls }: Dossier): { at: number; rests: boolean }[] {
  let rests = false;
  // An outcome that was undone has no time any more; that it has not is for I1 to say.
  const dated = events.filter(({ at }) => !Number.isNaN(ms(at)));
  const told = dated.map((event) => {
    if (event.type === 'run.suspended' || /^run\.(completed|failed|cancelled)$/.test(event.type)) rests = true;
    if (event.type === 'run.resumed' || event.type === 'run.redriven') rests = false;
    return { at: ms(event.at), rests };
  });
  const restsAt = (at: number) => told.findLast((event) => event.at <= at)?.rests ?? false;
  const others = [...deliveries, ...hits, ...modelCalls].map(({ at }) => ({ at, rests: restsAt(at) }));
  const created = { at: ms(run.created_at), rests: false };
  return [created, ...told, ...others].sort((a, b) => a.at - b.at);
}
