/**
 * Reads what a model answered to the wish for a summary. Whatever it did instead, the run goes on: what is no summary leaves
 * the turns it was to stand for out of the prompt, and a failure that may pass is tried again first. The rules are
 * core/compact.ts; perform-llm.ts makes the call.
 */
import { type Compaction, judgeSummary } from '../core/compact.js';
import type { WindowRule } from '../core/context.js';
import type { LlmFailure, LlmReply, Outcome } from '../core/outcome.js';
import type { Reserve } from '../core/run.js';
import { cleanText } from '../core/storable.js';
import type { Claimed } from './gaps.js';

export interface AskedSummary {
  claim: Claimed;
  compaction: Compaction;
  rule: WindowRule;
  /** What a prompt of that many tokens reserves. */
  reserveOf(promptTokens: number): Reserve;
}

export type Answered = { failure: LlmFailure } | { reply: LlmReply };

/** What another try would bring again. */
const lasting: ReadonlySet<string> = new Set(['truncated', 'invalid_response']);

/** Null: the call failed, and is to be tried again like any other. */
export function readSummary({ claim, compaction, rule, reserveOf }: AskedSummary, answered: Answered): Outcome | null {
  const { after, calls, shown } = compaction;
  const failure = 'failure' in answered ? answered.failure : null;
  if (failure !== null && mayPass(failure, claim)) return null;
  const text = 'reply' in answered && answered.reply.content !== null ? cleanText(answered.reply.content) : null;
  const judged = judgeSummary(text, compaction, rule);
  const why = failure === null ? (judged.ok ? null : judged.why) : `${failure.code}: ${failure.message}`;
  const isKept = failure === null && judged.ok;
  const promptTokens = isKept ? judged.promptTokens : after.tokens;
  return {
    kind: 'summary',
    summary: isKept ? { content: judged.content, calls, tokens: judged.tokens } : null,
    why,
    window: {
      ...{ windowFrom: after.windowFrom, digestBefore: after.digestBefore },
      ...(after.plan === undefined ? {} : { plan: after.plan }),
    },
    tokens: { before: shown.tokens, after: promptTokens },
    usage: 'reply' in answered ? answered.reply.usage : answered.failure.usage,
    // The summary's own message is added to it when it is kept.
    reserve: reserveOf(after.tokens),
  };
}

function mayPass(failure: LlmFailure, { step }: Claimed): boolean {
  return failure.class === 'retryable' && !lasting.has(failure.code) && step.failures + 1 < step.maxAttempts;
}
