/**
 * Reading JSON of unknown shape: what a provider sent may be anything, so nothing here throws and nothing is believed.
 * Each reader answers null for what is not there or is of another kind. Used by read-reply.ts, read-fault.ts and usage.ts.
 */

export type JsonObject = Record<string, unknown>;

export function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

/** A string that is not empty. */
export function asText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Parses JSON text; `undefined` when it is none (`null` is JSON). */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const loneSurrogates = /\p{Surrogate}/gu;

/** The text with U+FFFD in place of each lone surrogate, which no provider accepts. */
export function wellFormed(text: string): string {
  return text.replace(loneSurrogates, '\uFFFD');
}
