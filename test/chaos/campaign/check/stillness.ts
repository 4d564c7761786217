/**
 * I3 and I8: a run that is able to move does so within 20 s, whatever was killed or forgotten meanwhile. A move is anything
 * that was written of it: an event, a delivery, a call that reached the model or the world outside. The time counts from
 * the last move, or from when services and workers were there again.
 */
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, type Dossier, ms, see } from './dossier.js';
import { losesQueue, type Span, unableSpans } from './spans.js';

const movesWithinMs = 20_000;
/** A busy machine, and the pages of a sweep. */
const slackMs = 2_000;

export function checkStillness(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const unable = unableSpans(evidence);
  const losses = evidence.nemesis.filter((fault) => losesQueue.has(fault.kind));
  // What never moved again is for liveness to say; here the end of the campaign is no move.
  return dossiers.flatMap((dossier) => {
    const longest = stillSpans(dossier, unable).find((span) => span.to - span.from > movesWithinMs + slackMs);
    if (longest === undefined) return [];
    const loss = losses.find((fault) => fault.endedAt >= longest.from - slackMs && fault.endedAt <= longest.to);
    const seconds = Math.round((longest.to - longest.from) / 100) / 10;
    const from = new Date(longest.from).toISOString();
    const text = `stood still for ${seconds} s from ${from}, able to move`;
    if (loss === undefined) return [breachOf('I3', dossier, text, see('runs', dossier.run))];
    return [breachOf('I8', dossier, `${text}, after ${loss.kind}`, see('runs', dossier.run), `nemesis ${loss.id}`)];
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
  const told = events.map((event) => {
    if (event.type === 'run.suspended' || /^run\.(completed|failed|cancelled)$/.test(event.type)) rests = true;
    if (event.type === 'run.resumed' || event.type === 'run.redriven') rests = false;
    return { at: ms(event.at), rests };
  });
  const restsAt = (at: number) => told.findLast((event) => event.at <= at)?.rests ?? false;
  const others = [...deliveries, ...hits, ...modelCalls].map(({ at }) => ({ at, rests: restsAt(at) }));
  const created = { at: ms(run.created_at), rests: false };
  return [created, ...told, ...others].sort((a, b) => a.at - b.at);
}
