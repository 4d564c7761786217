/**
 * Asks the agent's `verify` about a final answer, within the LLM step that gave it: what it says is part of the step's
 * outcome. An answer that could not be judged is not given out: the step fails and is tried again, as one without an answer.
 */
import { describeThrown } from '../core/errors.js';
import type { StoredMessage } from '../core/message.js';
import type { LlmFailure } from '../core/outcome.js';
import { cleanText, cutMiddle } from '../core/storable.js';
import { knownTexts } from '../core/thread.js';
import type { StoredResult } from '../ports.js';
import { raceCall } from './calls.js';
import { asValue, type Look } from './guard-turns.js';

export type Verdict =
  | { is: 'known'; objection: string | null }
  | { is: 'unknown'; failure: LlmFailure }
  /** The claim ended, or the worker stops, before there was one. */
  | { is: 'aborted' };

export const accepted: Verdict & { is: 'known' } = { is: 'known', objection: null };

/** At most, and where the model took the time of the step, or the database was away meanwhile: the answer is paid for. */
const verifyTimeoutMs = { most: 30_000, least: 5_000 };
/** Characters of results that are shown, the newest. */
const shownChars = 2_000_000;

export interface Judgement extends Pick<Look, 'agent' | 'claim' | 'call'> {
  /** What the run's calls came to; null: the worker stops before the database answers. */
  toolResults(maxChars: number): Promise<StoredResult[] | null>;
  /** What the run began with, also what its window has left behind; null: as above. */
  openingMessages(): Promise<StoredMessage[] | null>;
}

/** `brought`: what the request brought along, which no row holds yet. */
export async function verifyAnswer(
  judgement: Judgement,
  answer: unknown,
  brought: readonly StoredMessage[] | null,
): Promise<Verdict> {
  const { agent, claim, call } = judgement;
  const { verify, words, language } = agent;
  if (verify === null) return accepted;
  const stored = await judgement.toolResults(shownChars);
  if (stored === null) return { is: 'aborted' };
  const toolResults = stored.map(({ arguments: given, ...result }) => {
    return { ...result, arguments: asValue(given), value: asValue(result.text) };
  });
  // A run without a thread is always shown all that it began with.
  const began = brought ?? (claim.run.threadId === null ? claim.messages : await judgement.openingMessages());
  if (began === null) return { is: 'aborted' };
  const known = knownTexts(began);
  const task = claim.messages.find(({ seq }) => seq === 0)?.message.content ?? '';
  const timeoutMs = Math.max(verifyTimeoutMs.least, Math.min(verifyTimeoutMs.most, call.remainingMs()));
  const raced = await raceCall(call, timeoutMs, () => verify(answer, { task, toolResults, known, language }));
  switch (raced.ended) {
    case 'returned':
      if (raced.value === undefined || raced.value === null) return accepted;
      return { is: 'known', objection: words.answerRefused(said(raced.value)) };
    case 'threw':
      return unjudged(`verify threw: ${said(raced.thrown)}`);
    case 'timeout':
      return unjudged(`verify did not answer within ${Math.round(timeoutMs)} ms`);
    case 'not_started':
    case 'aborted':
      return { is: 'aborted' };
  }
}

function unjudged(message: string): Verdict {
  const failure = { class: 'retryable', code: 'unverified', reason: 'invalid_output', retryAfterMs: null } as const;
  return { is: 'unknown', failure: { ...failure, message, usage: null } };
}

function said(value: unknown): string {
  return cutMiddle(cleanText(describeThrown(value)), 2_000);
}
