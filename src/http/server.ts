/**
 * The HTTP server: health, the queue dashboard at /queues, and runs to be read. Everything but /healthz is behind the guard;
 * what is not built is answered 404, never half. Next: guard.ts.
 */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { describeThrown, PawlError } from '../core/errors.js';
import type { Log } from '../ports.js';
import { createGuard, isLoopback, refuseOpenDoor } from './guard.js';
import { problem, problemOf } from './problem.js';
import { type ReadRuns, runsApp } from './runs.js';

export const queuesPath = '/queues';

export interface ServerParts {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Null: none is asked for, and only loopback is listened on. */
  apiKey: string | null;
  runs: ReadRuns;
  /** The queue dashboard, made for `queuesPath`. */
  board: Hono;
  /** Throws what is not ready: the database, the queue. */
  ready(): Promise<void>;
  log: Log;
}

export interface HttpServer {
  url: string;
  close(): Promise<void>;
}

/** Throws `config_invalid` when others could reach it without a key, or its port is taken. */
export async function startServer(parts: ServerParts): Promise<HttpServer> {
  refuseOpenDoor(parts.host, parts.apiKey);
  const { fetch } = serverApp(parts);
  const server = serve({ fetch, hostname: parts.host, port: parts.port }) as Server;
  try {
    await once(server, 'listening');
  } catch (error) {
    throw await whyDeaf(parts, error);
  }
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : parts.port;
  return {
    url: `http://${parts.host.includes(':') ? `[${parts.host}]` : parts.host}:${port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

export function serverApp({ apiKey, runs, board, ready, log }: Omit<ServerParts, 'host' | 'port'>): Hono {
  const app = new Hono();
  const guard = createGuard(apiKey);
  app.get('/healthz', (c) => c.json(healthy));
  app.use('*', async (c, next) => guard(c.req.raw) ?? next());
  app.get('/readyz', async (c) => {
    await ready();
    return c.json({ status: 'ready' });
  });
  app.get('/', (c) => c.redirect(queuesPath));
  app.get(`${queuesPath}/`, (c) => c.redirect(queuesPath));
  app.route(queuesPath, board);
  app.route('/v1/runs', runsApp(runs));
  app.notFound((c) => {
    const detail = `there is no ${c.req.method} ${c.req.path} in this version`;
    return problem({ status: 404, code: 'not_found', detail });
  });
  app.onError((error) => {
    const told = problemOf(error);
    if (told.code === 'internal') log.error({ cause: describeThrown(error) }, 'a request failed');
    return problem(told);
  });
  return app;
}

const healthy = { status: 'ok', service: 'pawl' } as const;

async function whyDeaf({ host, port }: ServerParts, error: unknown): Promise<PawlError> {
  const code = (error as { code?: unknown }).code;
  const where = `port ${port} of ${host}`;
  const text =
    code === 'EADDRINUSE'
      ? `${where} is taken by ${(await isPawl(host, port)) ? 'another pawl' : 'another program'}: end it, or set PAWL_PORT to another port`
      : code === 'EACCES'
        ? `${where} may not be listened on by this user: set PAWL_PORT to 1024 or higher`
        : code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
          ? `PAWL_HOST is ${host}, which is no address of this machine`
          : `cannot listen on ${where}: ${describeThrown(error)}`;
  return new PawlError('config_invalid', text, { cause: error });
}

async function isPawl(host: string, port: number): Promise<boolean> {
  const local = isLoopback(host) ? host : '127.0.0.1';
  try {
    const answer = await fetch(`http://${local.includes(':') ? `[${local}]` : local}:${port}/healthz`, {
      signal: AbortSignal.timeout(1_000),
    });
    return ((await answer.json()) as { service?: unknown }).service === healthy.service;
  } catch {
    return false;
  }
}
