/**
 * Usage: what the provider says a call used, and what stands in where it says nothing usable. Missing, null, textual and
 * negative counts all occur; each is replaced by an estimate and flagged, because a zero would disarm every limit.
 */
import type { Price, Usage } from '../core/run.js';
import { asObject } from './json.js';

/** Counts as reported; null: not reported, or not believable. */
export interface ReportedUsage {
  inputTokens: number | null;
  cachedInputTokens: number | null;
  outputTokens: number | null;
}

export const nothingReported: ReportedUsage = { inputTokens: null, cachedInputTokens: null, outputTokens: null };

const ceiling = 1e9;

function asCount(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= ceiling ? Math.ceil(value) : null;
}

/** Reads the `usage` member of a reply. Cached tokens have two spellings: OpenAI's detail and DeepSeek's cache hit. */
export function readUsage(value: unknown): ReportedUsage {
  const usage = asObject(value);
  if (usage === null) return nothingReported;
  const details = asObject(usage.prompt_tokens_details) ?? asObject(usage.input_tokens_details);
  return {
    inputTokens: asCount(usage.prompt_tokens ?? usage.input_tokens) || null,
    cachedInputTokens: asCount(details?.cached_tokens) ?? asCount(usage.prompt_cache_hit_tokens),
    outputTokens: asCount(usage.completion_tokens ?? usage.output_tokens),
  };
}

/** Tokens by our own count, for what was not reported. */
export interface EstimatedTokens {
  input: number;
  output: number;
}

/** Whether an estimate is needed: no call takes no input, and output of 0 is believed only when nothing was produced. */
export function isComplete(reported: ReportedUsage, produced: boolean): boolean {
  return reported.inputTokens !== null && reported.outputTokens !== null && (reported.outputTokens > 0 || !produced);
}

/** The usage to record. `estimate` is null exactly when the report is complete. Prices are USD per million tokens. */
export function settleUsage(reported: ReportedUsage, estimate: EstimatedTokens | null, price: Price | null): Usage {
  const inputTokens = reported.inputTokens ?? estimate?.input ?? 0;
  const cachedInputTokens = Math.min(reported.cachedInputTokens ?? 0, inputTokens);
  const outputTokens = (estimate === null ? reported.outputTokens : reported.outputTokens || estimate.output) ?? 0;
  return {
    inputTokens,
    cachedInputTokens,
    outputTokens,
    costUsd: price === null ? null : costOf({ inputTokens, cachedInputTokens, outputTokens }, price),
    estimated: estimate !== null,
  };
}

function costOf(tokens: Pick<Usage, 'inputTokens' | 'cachedInputTokens' | 'outputTokens'>, price: Price): number {
  const fresh = tokens.inputTokens - tokens.cachedInputTokens;
  return (
    (fresh * price.input + tokens.cachedInputTokens * price.cachedInput + tokens.outputTokens * price.output) / 1e6
  );
}
