/**
 * Classifies what went wrong with a call: the error's code and type first, its HTTP status next, its words last, since
 * words differ by provider and lie ("Too many tokens, please wait" is a rate limit). Pure; read-fault.ts builds the Fault.
 * Retries by default: only what is known to stay wrong is terminal.
 */
import type { LlmFailure } from '../core/outcome.js';
import type { Reason } from '../core/run.js';
import * as words from './fault-words.js';

/** An error answer, reduced to what decides. Every member but `message` may be absent (null). */
export interface Fault {
  /** HTTP status; for an error inside a 200, the status its `code` names, if any. */
  status: number | null;
  code: string | null;
  type: string | null;
  param: string | null;
  message: string;
  /** The body is a page, so it comes from a proxy or a wrong address and not from the provider's API. */
  html: boolean;
  retryAfterMs: number | null;
}

type Verdict = Pick<LlmFailure, 'class' | 'code' | 'reason'>;

const retryable = (code: string, reason: Reason = 'attempts_exhausted'): Verdict => ({
  class: 'retryable',
  code,
  reason,
});
const terminal = (code: string, reason: Reason): Verdict => ({ class: 'terminal', code, reason });

const verdicts = {
  rateLimited: retryable('rate_limited'),
  overloaded: retryable('overloaded'),
  serverError: retryable('server_error'),
  timeout: retryable('timeout'),
  invalidResponse: retryable('invalid_response', 'invalid_response'),
  overflow: { class: 'overflow', code: 'context_overflow', reason: 'context_overflow' },
  quota: terminal('quota_exhausted', 'quota_exhausted'),
  filtered: terminal('content_filter', 'content_filter'),
  badKey: terminal('invalid_api_key', 'invalid_request'),
  forbidden: terminal('permission_denied', 'invalid_request'),
  noModel: terminal('model_not_found', 'invalid_request'),
  notFound: terminal('not_found', 'invalid_request'),
  invalid: terminal('invalid_request', 'invalid_request'),
} as const satisfies Record<string, Verdict>;

/** Codes and types that name one thing only. `invalid_request_error` is not among them: providers put it on everything. */
const named: readonly [readonly string[], Verdict][] = [
  [words.quotaCodes, verdicts.quota],
  [words.rateCodes, verdicts.rateLimited],
  [words.overloadCodes, verdicts.overloaded],
  [words.overflowCodes, verdicts.overflow],
  [words.filterCodes, verdicts.filtered],
  [words.keyCodes, verdicts.badKey],
  [words.modelCodes, verdicts.noModel],
  [words.timeoutCodes, verdicts.timeout],
];
const byName = new Map(named.flatMap(([names, verdict]) => names.map((name) => [name, verdict] as const)));

function verdictOf(fault: Fault): Verdict {
  // A request larger than the whole allowance per minute is refused as a rate limit for ever; a shorter one passes.
  if (words.largerThanAllowance.test(fault.message)) return verdicts.overflow;
  for (const name of [fault.code, fault.type]) {
    const verdict = name === null ? undefined : byName.get(name.toLowerCase());
    if (verdict !== undefined) return verdict;
  }
  return byStatus(fault) ?? byWords(fault) ?? byRange(fault);
}

function byStatus({ status, message, html }: Fault): Verdict | null {
  switch (status) {
    case 401:
      return verdicts.badKey;
    case 402:
      return verdicts.quota;
    case 403:
      if (html) return verdicts.serverError;
      if (words.filter.test(message)) return verdicts.filtered;
      return words.quota.test(message) ? verdicts.quota : verdicts.forbidden;
    case 404:
      return words.noModel.test(message) && !html ? verdicts.noModel : verdicts.notFound;
    case 408:
    case 504:
    case 524:
      return verdicts.timeout;
    case 409:
    case 425:
      return verdicts.serverError;
    case 429:
      return words.balance.test(message) ? verdicts.quota : verdicts.rateLimited;
    case 503:
    case 529:
      return words.overflow.test(message) ? verdicts.overflow : verdicts.overloaded;
    default:
      return null;
  }
}

function byWords({ message }: Fault): Verdict | null {
  if (words.rate.test(message)) return verdicts.rateLimited;
  if (words.overflow.test(message)) return verdicts.overflow;
  if (words.balance.test(message)) return verdicts.quota;
  if (words.filter.test(message)) return verdicts.filtered;
  if (words.key.test(message)) return verdicts.badKey;
  if (words.noModel.test(message)) return verdicts.noModel;
  if (words.overload.test(message)) return verdicts.overloaded;
  return null;
}

function byRange({ status, code, type, html }: Fault): Verdict {
  if (status === null || status < 300) {
    const broke = [code, type].some((name) => name !== null && words.serverCodes.includes(name.toLowerCase()));
    return broke ? verdicts.serverError : verdicts.invalidResponse;
  }
  if (status >= 500) return verdicts.serverError;
  if (status === 413) return verdicts.overflow;
  return html && status >= 400 ? verdicts.invalidResponse : verdicts.invalid;
}

/** The failure to record for an error answer; its message is the fault's, which is redacted already. */
export function classify(fault: Fault): LlmFailure {
  const verdict = verdictOf(fault);
  return {
    ...verdict,
    message: fault.message,
    retryAfterMs: verdict.class === 'retryable' ? fault.retryAfterMs : null,
    usage: null,
  };
}
