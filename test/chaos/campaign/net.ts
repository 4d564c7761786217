/** The net of one process, or of the clients: a proxy before each service. */
import type { Swallowed } from './evidence.js';
import type { Wanted } from './pg-wire.js';
import { type NetProxy, openProxy } from './proxy.js';

export interface Net {
  name: string;
  postgres: NetProxy;
  /** Null on the Postgres backend. */
  redis: NetProxy | null;
}

export async function openNet(name: string, postgresUrl: string, redisUrl: string | null): Promise<Net> {
  const postgres = await openProxy(postgresUrl);
  return { name, postgres, redis: redisUrl === null ? null : await openProxy(redisUrl) };
}

export function proxiesOf(nets: readonly Net[]): NetProxy[] {
  return nets.flatMap(({ postgres, redis }) => (redis === null ? [postgres] : [postgres, redis]));
}

/** Loses the reply to the next such statement of anybody. Null when none came in time. */
export async function swallowOne(nets: readonly Net[], what: Swallowed, withinMs: number): Promise<Wanted | null> {
  const stops: (() => void)[] = [];
  const caught = nets.map(({ postgres }) => {
    const { lost, stop } = postgres.swallow(what);
    stops.push(stop);
    return lost;
  });
  const timer = new AbortController();
  const late = new Promise<null>((resolve) => {
    const timeout = setTimeout(() => resolve(null), withinMs);
    timer.signal.addEventListener('abort', () => clearTimeout(timeout));
  });
  try {
    return await Promise.race([...caught, late]);
  } finally {
    timer.abort();
    for (const stop of stops) stop();
  }
}
