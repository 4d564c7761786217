/**
 * How many tokens the prompt of a well-known model may hold. `contextTokens` in the configuration goes before this table;
 * a model in neither is taken to hold `defaultContextTokens`.
 */
import { familyOf } from './prices.js';

export const defaultContextTokens = 128_000;

const contexts: Readonly<Record<string, number>> = {
  // 400,000 in all, of which the prompt may take 272,000.
  'gpt-5.1': 272_000,
  'gpt-5': 272_000,
  'gpt-5-mini': 272_000,
  'gpt-5-nano': 272_000,
  'gpt-4.1': 1_047_576,
  'gpt-4.1-mini': 1_047_576,
  'gpt-4.1-nano': 1_047_576,
  o1: 200_000,
  o3: 200_000,
  'o3-mini': 200_000,
  'o4-mini': 200_000,
  'gpt-4': 8_192,
  'gpt-3.5-turbo': 16_385,
};

export function contextTokensOf(model: string): number {
  const family = familyOf(model);
  return Object.hasOwn(contexts, family) ? (contexts[family] ?? defaultContextTokens) : defaultContextTokens;
}
