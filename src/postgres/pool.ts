/**
 * Connections. Every client has an error listener, since a backend that dies while its client is checked out would end the
 * process; every wait for a connection is bounded. Transactions go through `inTransaction`, which gives the slot back
 * whatever fails.
 */
import type pg from 'pg';
import { PawlError } from '../core/errors.js';
import { isSilence, Route } from './route.js';

export interface PoolOptions {
  url: string;
  /** Of the process, which its pools share; absent: the pool has its own. */
  route?: Route;
  max: number;
  applicationName: string;
  /** Server settings of each connection, such as `search_path`. */
  settings?: Record<string, string>;
  /** A statement not answered for this long was sent into a connection that is dead. */
  silenceMs?: number;
}

/**
 * The server gives up a statement that waits for a lock before its client takes the connection for dead, and does not let a
 * transaction keep its locks whose client is stopped, or gone without a word: its run would be nobody's until TCP notices.
 */
export const silenceMs = 12_000;
const sessionSettings = { statement_timeout: '10s', idle_in_transaction_session_timeout: '5s' };

export function createPool(options: PoolOptions): pg.Pool {
  const { route = new Route() } = options;
  const pool = route.createPool({
    connectionString: options.url,
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    silenceMs: options.silenceMs ?? silenceMs,
    options: Object.entries({ ...sessionSettings, ...options.settings })
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
  });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/**
 * Connections of a worker's pool beside its two lanes, which carry the hot statements: those of its steps, and also at a
 * concurrency of one those of the runs that maintenance changes side by side, while it goes on to breathe.
 */
export function workerPoolSize(concurrency: number): number {
  return Math.min(10, 6 + concurrency);
}

/**
 * One connection for one hot statement. Its plans are by the primary keys whatever the tables' statistics say: a plan made
 * while the tables were empty would be kept when they are not.
 */
export function createLane(url: string, name: string, route?: Route): pg.Pool {
  const settings = {
    enable_seqscan: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
    plan_cache_mode: 'force_generic_plan',
    jit: 'off',
  };
  return createPool({ url, route, max: 1, applicationName: `pawl ${name}`, settings });
}

export async function inTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('begin');
    const value = await work(client);
    await client.query('commit');
    return value;
  } catch (error) {
    broken = error instanceof Error ? error : new Error(String(error));
    // A dead connection answers no rollback either.
    if (!isSilence(error)) {
      await client.query('rollback').then(
        () => {
          broken = undefined;
        },
        () => {},
      );
    }
    throw error;
  } finally {
    client.release(broken);
  }
}

const connectionStates = new Set(['57P01', '57P02', '57P03', '53300', '25006', '25P03', '57014', '55P03']);
const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENOENT',
  'EHOSTUNREACH',
]);

/** What a failed statement means for its caller: ask again as it is, ask again later, or give up. */
export function classifyFault(error: unknown): 'repeat' | 'unreachable' | 'guilty' | 'bug' {
  const code = codeOf(error);
  if (code === '40001' || code === '40P01' || code === '0A000' || code === '26000') return 'repeat';
  if (code !== null && /^(22|23|54)/.test(code) && code.length === 5) return 'guilty';
  if (
    code !== null &&
    (connectionStates.has(code) || code.startsWith('08') || code.startsWith('53') || code.startsWith('58'))
  ) {
    return 'unreachable';
  }
  if (code !== null && connectionCodes.has(code)) return 'unreachable';
  if (isSilence(error)) return 'unreachable';
  const message = error instanceof Error ? error.message : '';
  if (
    /connection terminated|timeout exceeded when trying to connect|client was closed|not queryable|Connection ended/i.test(
      message,
    )
  ) {
    return 'unreachable';
  }
  return 'bug';
}

/** At most one run has a thread: of two that take it at once one does not. */
export function isThreadTaken(error: unknown): boolean {
  return (
    codeOf(error) === '23505' && error instanceof Error && 'constraint' in error && error.constraint === 'runs_thread'
  );
}

function codeOf(error: unknown): string | null {
  if (typeof error !== 'object' || error === null) return null;
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  // drizzle wraps what the driver threw.
  return typeof code === 'string' ? code : cause === undefined ? null : codeOf(cause);
}

/** Turns a fault into the error a person sees; PawlErrors pass as they are. */
export function asPawlError(error: unknown): PawlError {
  if (error instanceof PawlError) return error;
  const message = error instanceof Error && error.message !== '' ? error.message : (codeOf(error) ?? String(error));
  switch (classifyFault(error)) {
    case 'repeat':
    case 'unreachable':
      return new PawlError(
        'database_unreachable',
        `Postgres does not answer: ${message}. Check DATABASE_URL and that the server runs.`,
        {
          cause: error,
        },
      );
    default: {
      const code = codeOf(error);
      if (code === '28P01' || code === '28000' || code === '3D000' || code === '42501') {
        return new PawlError('database_unreachable', `Postgres refuses the connection of DATABASE_URL: ${message}`, {
          cause: error,
        });
      }
      if (code === '42P01' || code === '3F000' || code === '42703') {
        return new PawlError(
          'schema_mismatch',
          `The database is not migrated for this version (${message}): run pawl migrate.`,
          { cause: error },
        );
      }
      // Without a code of Postgres's it was thrown by our own code.
      return new PawlError('internal', code === null ? message : `Postgres answered: ${message}`, { cause: error });
    }
  }
}
