/** What a fault is made of and made on. The faults themselves stand in the files named after what they break. */
import type { QueuesByHand } from './by-hand.js';
import type { Backend, FaultKind } from './evidence.js';
import type { Fleet } from './fleet.js';
import type { Net } from './net.js';
import type { PostgresService } from './postgres-service.js';
import type { Random } from './random.js';
import type { RedisService } from './redis-service.js';

export interface Scene {
  backend: Backend;
  postgres: PostgresService;
  /** Null on the Postgres backend. */
  redis: RedisService | null;
  /** Each place of the fleet has a net of its own, and so have the clients. */
  nets: readonly Net[];
  fleet: Fleet;
  queues: QueuesByHand;
  times: Times;
}

/** How long the faults last that last; the long ones are as long as the issue of a fault is clear. */
export interface Times {
  /** So long a process that is to be killed in a gap is given for a delivery to pass it. */
  gapWithinMs: number;
  /** Long enough for a worker to be taken for dead. */
  frozenMs: number;
  /** A process is stopped for this long, from and to. */
  zombieMs: readonly [number, number];
  blockedMs: readonly [number, number];
  /** A service or the net is away. */
  awayMs: readonly [number, number];
  lockedMs: readonly [number, number];
  /** An operator has withdrawn a tool. */
  withdrawnMs: readonly [number, number];
}

/** What was done, once it is undone. */
export interface Made {
  target: string;
  details?: Record<string, unknown>;
  /** Process faults: the process that was hit, and when: what it held then is looked up afterwards. */
  hit?: { pid: number; at: number };
  inFlight?: { runId: string; seq: number | null; token: string | null }[];
  failed?: string;
}

export interface FaultMaker {
  kind: FaultKind;
  weight: number;
  /** It lasts long and leaves room for others: the lane goes on at once. */
  aside?: boolean;
  make(scene: Scene, random: Random): Promise<Made>;
}

/** Random milliseconds between the two. */
export function between(random: Random, [from, to]: readonly [number, number]): number {
  return random.int(from, to);
}
