/** Usage as reported, as estimated, and what it costs. A count that cannot be believed is never a zero. */
import { describe, expect, it } from 'vitest';
import { contextTokensOf } from '../../../src/openai/contexts.js';
import { priceOf } from '../../../src/openai/prices.js';
import { isComplete, readUsage, settleUsage } from '../../../src/openai/usage.js';

describe('Usage', () => {
  it('is read in both spellings, cached tokens included', () => {
    const openAi = { prompt_tokens: 100, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 60 } };
    expect(readUsage(openAi)).toEqual({ inputTokens: 100, cachedInputTokens: 60, outputTokens: 20 });
    const deepSeek = { prompt_tokens: 100, completion_tokens: 20, prompt_cache_hit_tokens: 60 };
    expect(readUsage(deepSeek)).toEqual({ inputTokens: 100, cachedInputTokens: 60, outputTokens: 20 });
  });

  it.each([
    undefined,
    null,
    'many',
    [],
    {},
    { prompt_tokens: '100', completion_tokens: null },
    { prompt_tokens: -1, completion_tokens: -1 },
    { prompt_tokens: 1e300, completion_tokens: Number.NaN },
  ])('of %j is not reported, so it is estimated and flagged', (value) => {
    const reported = readUsage(value);
    expect(isComplete(reported, true)).toBe(false);
    expect(settleUsage(reported, { input: 12, output: 3 }, null)).toEqual({
      inputTokens: 12,
      cachedInputTokens: 0,
      outputTokens: 3,
      costUsd: null,
      estimated: true,
    });
  });

  it('of zero is believed only where nothing was produced, and never of the prompt', () => {
    expect(isComplete(readUsage({ prompt_tokens: 10, completion_tokens: 0 }), true)).toBe(false);
    expect(isComplete(readUsage({ prompt_tokens: 10, completion_tokens: 0 }), false)).toBe(true);
    expect(isComplete(readUsage({ prompt_tokens: 0, completion_tokens: 5 }), true)).toBe(false);
  });

  it('keeps the part that was reported beside an estimate of the other', () => {
    const reported = readUsage({ prompt_tokens: 50, completion_tokens: '?' });
    expect(settleUsage(reported, { input: 12, output: 3 }, null)).toMatchObject({
      inputTokens: 50,
      outputTokens: 3,
      estimated: true,
    });
  });

  it('counts no more cached tokens than the prompt has', () => {
    const reported = readUsage({
      prompt_tokens: 10,
      completion_tokens: 1,
      prompt_tokens_details: { cached_tokens: 99 },
    });
    expect(settleUsage(reported, null, null).cachedInputTokens).toBe(10);
  });

  it('costs what the tokens cost, cached ones at their own price', () => {
    const reported = { inputTokens: 1_000_000, cachedInputTokens: 400_000, outputTokens: 100_000 };
    expect(settleUsage(reported, null, { input: 1, cachedInput: 0.5, output: 10 }).costUsd).toBeCloseTo(
      0.6 + 0.2 + 1,
      9,
    );
  });
});

describe('Prices and contexts', () => {
  it('know a dated snapshot by its family and nothing of strangers', () => {
    expect(priceOf('gpt-4o-mini-2024-07-18')).toEqual(priceOf('gpt-4o-mini'));
    expect(priceOf('gpt-4o-mini')).not.toBeNull();
    expect(priceOf('llama-3')).toBeNull();
    expect(priceOf('constructor')).toBeNull();
    expect(contextTokensOf('gpt-4.1-2025-04-14')).toBe(1_047_576);
    expect(contextTokensOf('toString')).toBe(128_000);
  });
});
