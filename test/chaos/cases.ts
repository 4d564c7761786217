/**
 * The kill matrix as a list: which step is hit, in which gap of the protocol, by what, and what must be left in the end.
 * The numbers follow from PROTOCOL.md and from nothing that was measured. play.ts plays a case, kill-matrix.test.ts all.
 */
import { type Gap, gaps } from '../../src/engine/gaps.js';
import type { QueueBackend } from '../support/services.js';

/** Which step of its run is hit: the LLM step that asks for tools, a tool step of either effect, the step that answers. */
export const kinds = ['llm', 'idempotent', 'once', 'last'] as const;
export type Kind = (typeof kinds)[number];

/** The gaps of a step that lives, and the one between a death's record and the failure of its job. */
export const places = [...gaps, 'after_death'] as const;
export type Place = (typeof places)[number];

/** The process is killed, its queue is wiped while it lives, or both at once. */
export const blows = ['kill', 'wipe', 'kill and wipe'] as const;
export type Blow = (typeof blows)[number];

export interface Case {
  id: string;
  backend: QueueBackend;
  kind: Kind;
  place: Place;
  blow: Blow;
}

export function casesOn(backend: QueueBackend): Case[] {
  return kinds.flatMap((kind) =>
    places.flatMap((place) =>
      blows.map((blow) => ({ id: [backend, kind, place, blow].join('/'), backend, kind, place, blow })),
    ),
  );
}

/** The step that is hit. The turn of `llm` asks for two tool calls, that of the others for one. */
export function targetSeq(kind: Kind): number {
  return kind === 'llm' ? 1 : kind === 'last' ? 3 : 2;
}

/** What is left in the end. `asked`: the model was asked this often for the step that was hit. */
export interface Expected {
  outcome: string;
  attempts: number;
  asked: number | null;
  raw: number;
  applied: number;
}

export function expectedOf({ kind, place, blow }: Case): Expected {
  const isLlm = kind === 'llm' || kind === 'last';
  const isKilled = blow !== 'wipe';
  const applied = kind === 'llm' ? 2 : 1;
  if (place === 'after_death') {
    const revived = canPressRetry({ kind, blow }) ? 'failed, Retry, ' : 'failed, redrive, ';
    if (isLlm) return { outcome: `${revived}completed`, attempts: 2, asked: 2, raw: applied, applied };
    // A tool step dies of four crashes: one makes it a suspect, three more end it.
    if (kind === 'idempotent') {
      return { outcome: `${revived}completed`, attempts: 5, asked: null, raw: crashesToDeath + 1, applied };
    }
    return { outcome: `${revived}asked, done, completed`, attempts: 1, asked: null, raw: 1, applied };
  }
  const isRepeated = isKilled && (place === 'after_claim' || place === 'after_call');
  if (kind !== 'once' || !isRepeated) {
    const attempts = isRepeated ? 2 : 1;
    const isCalledTwice = isKilled && place === 'after_call';
    return {
      outcome: 'completed',
      attempts,
      asked: isLlm ? (isCalledTwice ? 2 : 1) : null,
      raw: isCalledTwice && !isLlm ? 2 : applied,
      applied,
    };
  }
  return place === 'after_claim'
    ? { outcome: 'asked, rerun, completed', attempts: 2, asked: null, raw: 1, applied: 1 }
    : { outcome: 'asked, done, completed', attempts: 1, asked: null, raw: 1, applied: 1 };
}

/** Crashes that kill a step: the first makes it a suspect, and three are counted. */
export const crashesToDeath = 4;

/**
 * Whether the dashboard shows the death in the end. A wiped queue has forgotten it, unless nobody had told the queue yet:
 * a death recorded by maintenance is shown again, one that its own worker recorded needs the command.
 */
export function canPressRetry({ kind, blow }: Pick<Case, 'kind' | 'blow'>): boolean {
  return blow === 'kill' || (blow === 'kill and wipe' && (kind === 'idempotent' || kind === 'once'));
}

/** A gap that lies in the life of a step, for the hook of a worker. */
export function isGap(place: Place): place is Gap {
  return place !== 'after_death';
}
