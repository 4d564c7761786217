/**
 * A Redis Cluster of three nodes. All keys of a deployment carry one hash tag, so they lie in one slot and on one node; Pawl's
 * client is a standalone one, so it has to be pointed at that node.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { freePort } from '../free-port.js';
import { openMigrated } from '../peers/pawl.js';
import type { Stage } from './trial.js';

const slots = 16_384;

export async function tryRedisCluster({ databaseUrl, play, say }: Stage): Promise<void> {
  const cluster = await startCluster();
  try {
    await migrate(databaseUrl);
    const { owner, others } = await cluster.ownerOf(`{pawl:${await instanceOf(databaseUrl)}}`);
    const rate = await play((work) =>
      openMigrated({ databaseUrl, redisUrl: owner.url, concurrency: 50, work }, owner.url),
    );
    say(`works with REDIS_URL at the node that owns the deployment's slot: ${rate} steps/s`);
    const strays = await Promise.all(others.map(({ client }) => client.dbsize()));
    if (strays.some((keys) => keys > 0)) throw new Error(`keys lie on other nodes: ${strays.join(', ')}`);
    say('all keys lie on that node: the hash tag holds them together');
    const other = others[0];
    if (other === undefined) throw new Error('a cluster of three has two other nodes');
    const refused = await play((work) =>
      openMigrated({ databaseUrl, redisUrl: other.url, concurrency: 50, work }, other.url),
    ).then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    say(refused === null ? 'works at another node, too' : `does not work at another node: ${refused}`);
  } finally {
    await cluster.stop();
  }
}

async function instanceOf(databaseUrl: string): Promise<string> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const { rows } = await client.query<{ id: string }>('select id from pawl.instance');
  await client.end();
  return rows[0]?.id ?? '';
}

async function startCluster() {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-cluster-'));
  const nodes = await Promise.all([0, 1, 2].map((n) => startNode(join(folder, String(n)))));
  const share = Math.ceil(slots / nodes.length);
  const [first] = nodes;
  for (const [n, { client }] of nodes.entries()) {
    await client.call('CLUSTER', 'ADDSLOTSRANGE', String(n * share), String(Math.min(slots, (n + 1) * share) - 1));
    if (n > 0) await client.call('CLUSTER', 'MEET', '127.0.0.1', String(first?.port), String(first?.busPort));
  }
  const isWhole = async () => {
    const infos = await Promise.all(nodes.map(({ client }) => client.call('CLUSTER', 'INFO')));
    return infos.every((info) => /cluster_state:ok/.test(String(info)) && /cluster_known_nodes:3/.test(String(info)));
  };
  while (!(await isWhole())) await delay(50);
  return {
    async ownerOf(tag: string) {
      const slot = Number(await nodes[0]?.client.call('CLUSTER', 'KEYSLOT', tag));
      const at = Math.floor(slot / share);
      const owner = nodes[at];
      if (owner === undefined) throw new Error(`nobody owns slot ${slot}`);
      return { owner, others: nodes.filter((node) => node !== owner) };
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startNode(folder: string) {
  await mkdir(folder);
  const port = await freePort();
  const busPort = await freePort();
  const settings = ['--cluster-enabled', 'yes', '--cluster-port', String(busPort), '--appendonly', 'yes', '--save', ''];
  const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, ...settings], {
    stdio: 'ignore',
  });
  const gone = once(child, 'exit');
  const end = () => child.kill('SIGKILL');
  process.on('exit', end);
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
  client.on('error', () => {});
  await client.ping();
  return {
    url,
    port,
    busPort,
    client,
    async stop() {
      client.disconnect();
      end();
      await gone;
      process.off('exit', end);
    },
  };
}
