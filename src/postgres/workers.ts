/**
 * Workers: the registration of a process, and its heartbeat. Tokens in hand stand in shared memory, written before a claim
 * is sent, so that the beat lists each claim even while the main loop is blocked. The thread is in beat-thread.mjs.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type pg from 'pg';
import { PawlError } from '../core/errors.js';
import type { Heart, Log, WorkerRegistration, Workers } from '../ports.js';
import { knownMigrations } from './migrate.js';
import { asPawlError, inTransaction } from './pool.js';

export interface BeatOptions {
  url: string;
  everyMs: number;
  /** Claims the process may hold at once. */
  slots: number;
  log: Log;
}

/** Without a confirmed beat for this long a worker claims nothing new. */
const unconfirmedMs = 6_000;
/** A main loop blocked for this long ends its own process. */
const blockedMs = 60_000;

export function createWorkers(pool: pg.Pool, options: BeatOptions): Workers {
  return {
    async register(registration) {
      try {
        await insertWorker(pool, registration);
      } catch (error) {
        throw asPawlError(error);
      }
      return startHeart(pool, registration.id, options);
    },
  };
}

async function insertWorker(pool: pg.Pool, worker: WorkerRegistration): Promise<void> {
  await inTransaction(pool, async (client) => {
    for (const agent of worker.agents) {
      await client.query(
        `insert into pawl.agents (name, version, listing) values ($1, $2, $3)
         on conflict (name, version) do update set listing = excluded.listing`,
        [agent.name, agent.version, JSON.stringify(agent)],
      );
    }
    await client.query(
      `insert into pawl.workers (id, host, pid, role, serves, knows) values ($1, $2, $3, $4, $5, $6)`,
      [
        worker.id,
        worker.host,
        worker.pid,
        worker.role,
        worker.agents.map((agent) => `${agent.name}@${agent.version}`),
        knownMigrations(),
      ],
    );
  });
}

interface Beat {
  type: 'beat' | 'missed' | 'dead';
  message?: string;
  /** When the beat read its list, by the process's monotonic clock. */
  beganAtMs?: number;
  aborts?: { token: string; ending: boolean }[];
}

function startHeart(pool: pg.Pool, workerId: string, options: BeatOptions): Heart {
  const memory = new SharedArrayBuffer(32 + options.slots * 16);
  const lastTurn = new BigInt64Array(memory, 0, 2);
  const held = new HeldTokens(memory, options.slots);
  const aborted: ((abort: { token: string; cause: 'ending' | 'lost' }) => void)[] = [];
  const died: (() => void)[] = [];
  const claimedAt = new Map<string, number>();
  let confirmedAt = performance.now();
  let stopped = false;

  const turn = () => Atomics.store(lastTurn, 0, BigInt(monotonicMs()));
  turn();
  const turning = setInterval(turn, 500).unref();

  const hear = (beat: Beat) => {
    // A beat that met the goodbye found no live worker any more: that is no verdict.
    if (stopped) return;
    if (beat.type === 'dead') for (const listener of died) listener();
    if (beat.type === 'missed') options.log.warn({ workerId, cause: beat.message }, 'heartbeat missed');
    if (beat.type !== 'beat') return;
    confirmedAt = performance.now();
    for (const { token, ending } of beat.aborts ?? []) {
      // A token may have been let go, or its claim answered, while the beat was under way: then the beat says nothing of it.
      const since = claimedAt.get(token);
      if (since !== undefined && since < (beat.beganAtMs ?? 0))
        for (const listener of aborted) listener({ token, cause: ending ? 'ending' : 'lost' });
    }
  };

  let thread = spawn();
  function spawn(): Worker {
    const started = new Worker(new URL('./beat-thread.mjs', import.meta.url), {
      workerData: { url: options.url, workerId, everyMs: options.everyMs, blockedMs, memory, slots: options.slots },
    });
    started.unref();
    started.on('message', hear);
    started.on('error', (error) => options.log.warn({ workerId, cause: error.message }, 'heartbeat thread failed'));
    started.on('exit', () => {
      if (stopped) return;
      setTimeout(() => {
        if (!stopped) thread = spawn();
      }, 200).unref();
    });
    return started;
  }

  return {
    hold: (token) => held.add(token),
    claimed: (token) => void claimedAt.set(token, monotonicMs()),
    drop: (token) => {
      claimedAt.delete(token);
      held.remove(token);
    },
    isConfirmed: () => performance.now() - confirmedAt < unconfirmedMs,
    onAbort: (listener) => void aborted.push(listener),
    onDeclaredDead: (listener) => void died.push(listener),
    async stop(withinMs) {
      stopped = true;
      clearInterval(turning);
      const goodbye = pool
        .query(`update pawl.workers set state = 'stopped', ended_at = now() where id = $1 and state = 'live'`, [
          workerId,
        ])
        .catch(() => {});
      await within(withinMs, goodbye);
      thread.postMessage('stop');
      await within(500, new Promise((resolve) => thread.once('exit', resolve)));
      await thread.terminate();
    },
  };
}

/** The timer keeps the process, which may have no connection left that does. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, delay(ms, undefined, { signal: over.signal }).catch(() => {})]);
  over.abort();
}

/** One clock for the threads of a process: `performance.now()` has a zero of its own in each. */
function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Tokens as 16 bytes a slot; the version is odd while a slot is being written. */
class HeldTokens {
  private readonly version: Int32Array;
  private readonly bytes: Uint8Array;
  private readonly slotOf = new Map<string, number>();
  private readonly free: number[];

  constructor(memory: SharedArrayBuffer, slots: number) {
    this.version = new Int32Array(memory, 16, 1);
    this.bytes = new Uint8Array(memory, 32);
    this.free = Array.from({ length: slots }, (_, slot) => slots - 1 - slot);
  }

  add(token: string): void {
    if (this.slotOf.has(token)) return;
    const slot = this.free.pop();
    if (slot === undefined) throw new PawlError('internal', 'a worker holds more claims than its concurrency allows');
    this.slotOf.set(token, slot);
    this.write(slot, Buffer.from(token.replaceAll('-', ''), 'hex'));
  }

  remove(token: string): void {
    const slot = this.slotOf.get(token);
    if (slot === undefined) return;
    this.slotOf.delete(token);
    this.write(slot, Buffer.alloc(16));
    this.free.push(slot);
  }

  private write(slot: number, token: Buffer): void {
    Atomics.add(this.version, 0, 1);
    this.bytes.set(token, slot * 16);
    Atomics.add(this.version, 0, 1);
  }
}
