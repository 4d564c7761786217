/** What the supervisor may tell a worker process while it works. */
import type { Effect } from '../../../src/core/step.js';
import type { Gap } from '../../../src/engine/gaps.js';

export type WorkerCommand =
  /** Kill yourself when a delivery next passes this gap; `effect`: only that of such a step (null: of any). */
  | { do: 'die_at'; gap: Gap; effect: Effect | 'llm' | null }
  /** Stop yourself (SIGSTOP) when a delivery next passes this gap. */
  | { do: 'stop_at'; gap: Gap }
  /** Forget that. */
  | { do: 'live' }
  /** Let the event loop stand still. */
  | { do: 'block'; ms: number };
