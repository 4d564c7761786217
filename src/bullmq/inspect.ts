/** What `pawl doctor` asks of Redis, over one connection of its own. It changes nothing. */
import { Redis } from 'ioredis';
import type { RedisFacts } from '../core/checkup.js';
import { answered } from './quiet.js';

const answerWithinMs = 5_000;

/** Throws `queue_unreachable`. */
export async function inspectRedis(url: string): Promise<RedisFacts> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: answerWithinMs,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    connectionName: 'pawl-doctor',
  });
  // What fails is heard where it is awaited, but for its text, which only comes here.
  let fault: Error | null = null;
  client.on('error', (error) => {
    fault = error;
  });
  try {
    return await answered(answerWithinMs, 'Redis (REDIS_URL) does not answer', async () => {
      await client.connect().catch((error: unknown) => Promise.reject(fault ?? error));
      const info = await client.info();
      // Hosted servers refuse CONFIG; then only what INFO tells is known.
      const save = await client.config('GET', 'save').catch(() => null);
      const read = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? null;
      const snapshots = Array.isArray(save) ? String(save[1] ?? '') !== '' : null;
      return {
        version: read('redis_version') ?? '0',
        policy: read('maxmemory_policy'),
        persistence: read('aof_enabled') === '1' ? 'aof' : snapshots === null ? null : snapshots ? 'rdb' : 'none',
      };
    });
  } finally {
    client.disconnect();
  }
}
