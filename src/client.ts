/**
 * createPawl: the client for other services. It connects at its first call, starts runs, shows them and commands them; the
 * agents themselves live with the workers. What the documented surface names and this version lacks is refused by name.
 */
import type { Client } from './app.js';
import { type Config, isConfig } from './core/config.js';
import { PawlError } from './core/errors.js';
import type { Runs } from './engine/runs.js';
import type { Log } from './ports.js';

export interface PawlOptions {
  /** A Postgres that `pawl migrate` has prepared. */
  databaseUrl: string;
  /** As the workers have it: set for Redis, left out for the queue in Postgres. */
  redisUrl?: string | null | undefined;
  /** Only checked for now: workers register their agents in the database. */
  config?: Config | undefined;
  /** Where warnings go; left out: nowhere. */
  log?: Log | undefined;
}

const notBuilt = ['rerun', 'fork', 'signal', 'approve', 'deny', 'export', 'delete'] as const;
const schedulesNotBuilt = ['list', 'set', 'pause', 'resume', 'trigger', 'delete', 'next'] as const;

type NotBuilt<Names extends readonly string[]> = { [Name in Names[number]]: (...args: unknown[]) => Promise<never> };

export interface Pawl {
  readonly runs: Runs & NotBuilt<typeof notBuilt>;
  readonly schedules: NotBuilt<typeof schedulesNotBuilt>;
  /** Ends the connections. A client that was never used has none. */
  close(): Promise<void>;
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };

/** Checks its options at once; each call throws a PawlError (`database_unreachable`, `not_found`, `conflict`, …). */
export function createPawl(options: PawlOptions): Pawl {
  const { databaseUrl, redisUrl, log } = readOptions(options);
  let opened: Promise<Client> | null = null;
  let closed = false;

  async function runs(): Promise<Runs> {
    if (closed) throw new PawlError('usage', 'this client was closed; make another with createPawl');
    opened ??= import('./app.js').then(({ openClient }) => openClient({ databaseUrl, redisUrl, log }));
    try {
      return (await opened).runs;
    } catch (error) {
      // The next call tries again.
      opened = null;
      throw error;
    }
  }

  return {
    runs: {
      start: async (run) => (await runs()).start(run),
      startMany: async (many) => (await runs()).startMany(many),
      get: async (id) => (await runs()).get(id),
      list: async (filter) => (await runs()).list(filter),
      steps: async (id) => (await runs()).steps(id),
      attempts: async (id) => (await runs()).attempts(id),
      messages: async (id) => (await runs()).messages(id),
      events: async (id, after, limit) => (await runs()).events(id, after, limit),
      async *watch(id, watching) {
        yield* (await runs()).watch(id, watching);
      },
      cancel: async (id) => (await runs()).cancel(id),
      pause: async (id) => (await runs()).pause(id),
      resume: async (id, raised) => (await runs()).resume(id, raised),
      resolve: async (id, resolution) => (await runs()).resolve(id, resolution),
      redrive: async (id) => (await runs()).redrive(id),
      agents: async () => (await runs()).agents(),
      tools: async () => (await runs()).tools(),
      disableTool: async (tool, options) => (await runs()).disableTool(tool, options),
      enableTool: async (tool, options) => (await runs()).enableTool(tool, options),
      ...refuseAll('runs', notBuilt),
    },
    schedules: refuseAll('schedules', schedulesNotBuilt),
    async close() {
      closed = true;
      const client = await opened?.catch(() => null);
      await client?.close();
    },
  };
}

function refuseAll<Names extends readonly string[]>(group: string, names: Names): NotBuilt<Names> {
  const refusals = names.map((name) => [
    name,
    () => Promise.reject(new PawlError('not_built', `${group}.${name} is not built in this version`)),
  ]);
  return Object.fromEntries(refusals) as NotBuilt<Names>;
}

function readOptions(options: PawlOptions): { databaseUrl: string; redisUrl: string | null; log: Log } {
  const { databaseUrl, redisUrl, config } = options ?? {};
  if (!isUrl(databaseUrl, /^postgres(ql)?:$/))
    refuse('databaseUrl', 'a URL such as postgres://user:password@host:5432/name');
  if (redisUrl && !isUrl(redisUrl, /^rediss?:$/)) refuse('redisUrl', 'a URL such as redis://host:6379');
  if (config !== undefined && !isConfig(config)) refuse('config', 'what defineConfig returned');
  return { databaseUrl, redisUrl: redisUrl || null, log: options.log ?? silent };
}

function isUrl(value: unknown, protocol: RegExp): value is string {
  return typeof value === 'string' && URL.canParse(value) && protocol.test(new URL(value).protocol);
}

/** The value given is not shown: it may hold a password. */
function refuse(field: string, wanted: string): never {
  throw new PawlError('config_invalid', `createPawl: ${field} must be ${wanted}`);
}
