/** A Redis of the campaign's own that can be killed, and come back empty or as it was some time ago. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { Guard } from './guard.js';
import { freePort } from './ports.js';

export interface RedisService {
  url: string;
  port: number;
  version: string;
  /** For faults: a connection that goes round the proxy. */
  client: Redis;
  /** Keeps a copy of what it holds now. */
  keepCopy(): Promise<void>;
  /** Kills it and starts it again `afterMs` later; `from`: with nothing, or with the copy. */
  restart(from: 'empty' | 'copy', afterMs: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startRedis(folder: string, guard: Guard): Promise<RedisService> {
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  const [dump, copy] = [join(folder, 'dump.rdb'), join(folder, 'copy.rdb')];
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--appendonly', 'no', '--save', ''];
  let child: ChildProcess;
  let hasCopy = false;
  const client = new Redis(url, {
    maxRetriesPerRequest: null,
    retryStrategy: () => 50,
    reconnectOnError: () => true,
    connectionName: 'campaign',
  });
  client.on('error', () => {}); // while it is down

  async function start(): Promise<void> {
    child = spawn('redis-server', [...settings, '--maxmemory-policy', 'noeviction'], { stdio: 'ignore' });
    if (child.pid !== undefined) guard.watch(child.pid);
    await client.ping();
  }

  async function kill(): Promise<void> {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  await start();
  const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown';
  return {
    url,
    port,
    version,
    client,
    async keepCopy() {
      await client.save();
      await copyFile(dump, copy);
      hasCopy = true;
    },
    async restart(from, afterMs) {
      await kill();
      await rm(dump, { force: true });
      if (from === 'copy' && hasCopy) await copyFile(copy, dump);
      await new Promise((resolve) => setTimeout(resolve, afterMs));
      await start();
    },
    async stop() {
      client.disconnect();
      await kill();
    },
  };
}
