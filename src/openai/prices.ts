/**
 * Prices of well-known OpenAI models, in USD per million tokens, cached input apart, from the public price list. A price
 * in the configuration goes before this table; a model in neither costs `null`, never 0.
 */

import type { Price } from '../core/run.js';

const prices: Readonly<Record<string, Price>> = {
  'gpt-5.1': { input: 1.25, cachedInput: 0.125, output: 10 },
  'gpt-5': { input: 1.25, cachedInput: 0.125, output: 10 },
  'gpt-5-chat-latest': { input: 1.25, cachedInput: 0.125, output: 10 },
  'gpt-5-mini': { input: 0.25, cachedInput: 0.025, output: 2 },
  'gpt-5-nano': { input: 0.05, cachedInput: 0.005, output: 0.4 },
  'gpt-4.1': { input: 2, cachedInput: 0.5, output: 8 },
  'gpt-4.1-mini': { input: 0.4, cachedInput: 0.1, output: 1.6 },
  'gpt-4.1-nano': { input: 0.1, cachedInput: 0.025, output: 0.4 },
  'gpt-4o': { input: 2.5, cachedInput: 1.25, output: 10 },
  'gpt-4o-mini': { input: 0.15, cachedInput: 0.075, output: 0.6 },
  o1: { input: 15, cachedInput: 7.5, output: 60 },
  o3: { input: 2, cachedInput: 0.5, output: 8 },
  'o3-mini': { input: 1.1, cachedInput: 0.55, output: 4.4 },
  'o4-mini': { input: 1.1, cachedInput: 0.275, output: 4.4 },
  'gpt-4-turbo': { input: 10, cachedInput: 10, output: 30 },
  'gpt-4': { input: 30, cachedInput: 30, output: 60 },
  'gpt-3.5-turbo': { input: 0.5, cachedInput: 0.5, output: 1.5 },
  'text-embedding-3-small': { input: 0.02, cachedInput: 0.02, output: 0 },
  'text-embedding-3-large': { input: 0.13, cachedInput: 0.13, output: 0 },
  'text-embedding-ada-002': { input: 0.1, cachedInput: 0.1, output: 0 },
};

/** The name without a dated snapshot's suffix: `gpt-4o-mini-2024-07-18` is `gpt-4o-mini`. */
export function familyOf(model: string): string {
  return model.replace(/-\d{4}-\d{2}-\d{2}$/, '');
}

export function priceOf(model: string): Price | null {
  return Object.hasOwn(prices, familyOf(model)) ? (prices[familyOf(model)] ?? null) : null;
}
