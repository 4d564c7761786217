/**
 * The scripted model's embeddings: each word of a text points in a direction of its own, so that texts are as near to one
 * another as the words they share. Deterministic. A script may answer with vectors of its own instead.
 */
import { wordsIn } from '../core/fact.js';
import { hash } from '../core/hash.js';

const dimensions = 256;

export function vectorOfWords(text: string): number[] {
  const vector = Array.from({ length: dimensions }, () => 0);
  for (const word of wordsIn(text)) {
    const at = Number.parseInt(hash([word]).slice(0, 6), 16) % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  return vector;
}
