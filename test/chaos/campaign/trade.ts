/**
 * The tools and agents of a campaign, as data: plans draw from them and workers define them (crew.ts). One tool for each
 * effect and each way of settling an unknown fate, one with a pool of its own, one whose calls run in order.
 */
import type { Effect } from '../../../src/core/step.js';

export type ToolName = 'look' | 'put' | 'ship' | 'stack' | 'charge' | 'post' | 'tell';

export interface Trade {
  effect: Effect;
  /** Who settles the fate of a `once` call: an operator, the tool by a look at the ledger, or nobody. */
  onUnknown: 'ask' | 'look' | 'tell' | null;
  pool: string | null;
  sequential: boolean;
}

const plain = { onUnknown: null, pool: null, sequential: false };

export const tools: Record<ToolName, Trade> = {
  look: { ...plain, effect: 'none' },
  put: { ...plain, effect: 'idempotent' },
  ship: { ...plain, effect: 'idempotent', pool: 'dock' },
  stack: { ...plain, effect: 'idempotent', sequential: true },
  charge: { ...plain, effect: 'once', onUnknown: 'ask' },
  post: { ...plain, effect: 'once', onUnknown: 'look' },
  tell: { ...plain, effect: 'once', onUnknown: 'tell' },
};

export const crews: Record<string, readonly ToolName[]> = {
  clerk: ['look', 'put', 'charge'],
  courier: ['look', 'put', 'ship', 'post'],
  teller: ['put', 'stack', 'tell', 'charge'],
  auditor: ['look', 'put', 'stack'],
};

export function toolsOfAgent(agent: string): readonly ToolName[] {
  const crew = crews[agent];
  if (crew === undefined) throw new Error(`there is no agent ${agent}`);
  return crew;
}

/** Longer than any planned delay, shorter than the silence of an answer that is `late`. */
export const toolTimeoutMs = 4_000;
/** Beyond the failures that a plan asks for: as many by timeouts of a net that is broken, and the outcome is as planned. */
export const toolAttempts = 6;
export const llmTimeoutMs = 6_000;
export const lateMs = 20_000;
