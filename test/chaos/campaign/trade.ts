/**
 * The tools and agents of a campaign, as data: plans draw from them and workers define them (crew.ts). One tool for each
 * effect and each way of settling an unknown fate, one with a pool of its own, one whose calls run in order, one that says
 * facts. One agent for each way that a run's end or beginning is not its own alone.
 */
import type { Effect } from '../../../src/core/step.js';
import type { BusyThread } from '../../../src/core/thread.js';

export type ToolName = 'look' | 'put' | 'ship' | 'stack' | 'note' | 'charge' | 'post' | 'tell';

export interface Trade {
  effect: Effect;
  /** Who settles the fate of a `once` call: an operator, the tool by a look at the ledger, or nobody. */
  onUnknown: 'ask' | 'look' | 'tell' | null;
  pool: string | null;
  sequential: boolean;
  /** A call that succeeds says one fact: its ref, and the token of its result. */
  saysFact: boolean;
}

const plain = { onUnknown: null, pool: null, sequential: false, saysFact: false };

export const tools: Record<ToolName, Trade> = {
  look: { ...plain, effect: 'none' },
  put: { ...plain, effect: 'idempotent' },
  ship: { ...plain, effect: 'idempotent', pool: 'dock' },
  stack: { ...plain, effect: 'idempotent', sequential: true },
  note: { ...plain, effect: 'idempotent', saysFact: true },
  charge: { ...plain, effect: 'once', onUnknown: 'ask' },
  post: { ...plain, effect: 'once', onUnknown: 'look' },
  tell: { ...plain, effect: 'once', onUnknown: 'tell' },
};

export interface Crew {
  tools: readonly ToolName[];
  /** What its first answer does not satisfy now and then: its output schema, or its own judge. */
  objects?: 'output' | 'verify';
  /** Its runs belong to threads, and one that is started while another of its thread goes on waits or is refused. */
  thread?: BusyThread;
  /** Its models, the preferred one first, which now and then answers no more in a run. */
  models?: readonly [string, string];
}

export const crews: Record<string, Crew> = {
  clerk: { tools: ['look', 'put', 'charge'] },
  courier: { tools: ['look', 'put', 'ship', 'post'] },
  teller: { tools: ['put', 'stack', 'tell', 'charge'] },
  auditor: { tools: ['look', 'put', 'stack'], objects: 'output' },
  assessor: { tools: ['look', 'put', 'note'], objects: 'verify' },
  broker: { tools: ['look', 'put', 'ship'], models: ['scripted-first', 'scripted'] },
  caller: { tools: ['put', 'note'], thread: 'wait' },
  soloist: { tools: ['look', 'put'], thread: 'refuse' },
};

export function crewNamed(agent: string): Crew {
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
