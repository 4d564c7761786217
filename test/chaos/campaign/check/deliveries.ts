/** When a claim was made, by the clock that all files share: between the worker's two lines around it. */
import type { Dossier, GapLine, Line } from './dossier.js';
import type { Span } from './spans.js';

/** The line of a claim that was answered, and the time from its asking to its answer; null: no line tells of it. */
export interface Claimed extends Span {
  line: Line<GapLine>;
}

export function claimOf(dossier: Dossier, token: string | null): Claimed | null {
  const line = gapsOf(dossier).find(({ gap, token: of }) => gap === 'after_claim' && of === token);
  return token === null || line === undefined ? null : claimed(dossier, line);
}

/** The claim under which a step was performed, as that attempt, at that time. */
export function claimAt(dossier: Dossier, seq: number, attempt: number, at: number): Claimed | null {
  const line = gapsOf(dossier).findLast(
    (one) => one.gap === 'after_claim' && one.seq === seq && one.attempt === attempt && one.at <= at,
  );
  return line === undefined ? null : claimed(dossier, line);
}

/** When its call came back to the worker that made it; null: it did not. */
export function returnedAt(dossier: Dossier, token: string | null): number | null {
  return gapsOf(dossier).find(({ gap, token: of }) => gap === 'after_call' && of === token)?.at ?? null;
}

function claimed(dossier: Dossier, line: Line<GapLine>): Claimed {
  const asked = gapsOf(dossier).findLast(
    (one) => one.gap === 'before_claim' && one.pid === line.pid && one.seq === line.seq && one.line < line.line,
  );
  return { line, from: asked?.at ?? line.at, to: line.at };
}

function gapsOf({ deliveries }: Dossier): Line<GapLine>[] {
  return deliveries.flatMap((line) => (line.what === 'gap' ? [line] : []));
}
