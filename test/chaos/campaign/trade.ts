/**
 * The tools and agents of a campaign, as data: plans draw from them and workers define them (crew.ts). One tool for each
 * effect and each way of settling an unknown fate, one with a pool of its own, one whose calls run in order, one that says
 * facts, one whose results are kept, one that an operator withdraws, one whose results are long. One agent for each way that
 * a run's end or beginning is not its own alone, and one whose runs outgrow their window.
 */
import type { Effect } from '../../../src/core/step.js';
import type { BusyThread } from '../../../src/core/thread.js';

export type ToolName =
  | 'look'
  | 'put'
  | 'ship'
  | 'stack'
  | 'note'
  | 'quote'
  | 'lend'
  | 'dig'
  | 'charge'
  | 'post'
  | 'tell';

export interface Trade {
  effect: Effect;
  /** Who settles the fate of a `once` call: an operator, the tool by a look at the ledger, or nobody. */
  onUnknown: 'ask' | 'look' | 'tell' | null;
  pool: string | null;
  sequential: boolean;
  /** A call that succeeds says one fact: its ref, and the token of its result. */
  saysFact: boolean;
  /** For so long a result is given again; then its calls are of things that several runs ask for. 0: it never is. */
  cacheMs: number;
  /** An operator withdraws it now and then, so that nobody knows beforehand which of its calls are executed. */
  isWithdrawn: boolean;
  /** Characters of a result that the model sees, where results are longer; null: they are short. */
  shownChars: number | null;
}

const plain = {
  onUnknown: null,
  pool: null,
  sequential: false,
  saysFact: false,
  cacheMs: 0,
  isWithdrawn: false,
  shownChars: null,
};

export const tools: Record<ToolName, Trade> = {
  look: { ...plain, effect: 'none' },
  put: { ...plain, effect: 'idempotent' },
  ship: { ...plain, effect: 'idempotent', pool: 'dock' },
  stack: { ...plain, effect: 'idempotent', sequential: true },
  note: { ...plain, effect: 'idempotent', saysFact: true },
  quote: { ...plain, effect: 'none', cacheMs: 10_000 },
  lend: { ...plain, effect: 'idempotent', isWithdrawn: true },
  // A line would not halve what is shown, so it is not shortened: the turns themselves have to go.
  dig: { ...plain, effect: 'idempotent', shownChars: 530 },
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
  /** Its runs are long, and turns are summed up before a window of so many tokens is full. */
  windowTokens?: number;
  /** It makes a plan before its first turn, or has its answers judged, the first of which is objected to now and then. */
  mode?: 'plan' | 'reflect';
  /** How often it is drawn, beside the others' 1. */
  weight?: number;
}

export const crews: Record<string, Crew> = {
  clerk: { tools: ['look', 'put', 'charge', 'lend'] },
  courier: { tools: ['look', 'put', 'ship', 'post'] },
  teller: { tools: ['put', 'stack', 'tell', 'charge'] },
  auditor: { tools: ['look', 'put', 'stack'], objects: 'output' },
  assessor: { tools: ['look', 'put', 'note'], objects: 'verify' },
  broker: { tools: ['look', 'put', 'quote'], models: ['scripted-first', 'scripted'] },
  buyer: { tools: ['put', 'ship', 'quote'] },
  lender: { tools: ['look', 'put', 'lend'] },
  archivist: { tools: ['dig'], windowTokens: 2_200, weight: 0.5 },
  planner: { tools: ['look', 'put'], mode: 'plan' },
  editor: { tools: ['look', 'put'], mode: 'reflect' },
  caller: { tools: ['put', 'note'], thread: 'wait' },
  soloist: { tools: ['look', 'put'], thread: 'refuse' },
};

/** The agents that have the tool. */
export function ownersOf(tool: ToolName): string[] {
  return Object.keys(crews).filter((name) => crews[name]?.tools.includes(tool));
}

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
