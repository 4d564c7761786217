/**
 * A yard to wreck workers in: `pawl worker` processes that reach Postgres and Redis through proxies which can be cut, tools
 * whose calls the test holds in its hand, and a client and a pool that go straight to the servers and see what is left.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { expect } from 'vitest';
import { type Client, openClient } from '../../src/app.js';
import { startScriptedModel } from '../../src/testing/index.js';
import { type Cuttable, cuttable } from '../bullmq/cuttable.js';
import { quietLog } from '../support/quiet-log.js';
import { createTestDatabase, createTestRedis, type QueueBackend } from '../support/services.js';
import { makeProject, type Running } from './command.js';

/** `hold` waits for the test to answer it; `block` keeps the main loop of its process busy for five seconds. */
const config = `
import { defineAgent, defineConfig, defineTool } from 'pawl';
const ask = (tool) => async (_, { runId, stepSeq, attempt, idempotencyKey, signal }) => {
  const body = JSON.stringify({ tool, runId, seq: stepSeq, attempt, key: idempotencyKey });
  return (await fetch(process.env.HAND_URL, { method: 'POST', body, signal })).text();
};
const rest = { description: 'Acts', timeoutMs: 90_000 };
const block = () => { const until = performance.now() + 5_000; while (performance.now() < until); return 'went on'; };
export default defineConfig({ agents: [defineAgent({ name: 'hand', instructions: 'Act.', tools: [
  defineTool({ ...rest, name: 'hold', effect: 'idempotent', execute: ask('hold') }),
  defineTool({ ...rest, name: 'charge', effect: 'once', timeoutMs: 6_000, execute: ask('charge') }),
  defineTool({ ...rest, name: 'block', effect: 'none', execute: block }),
] })] });`;

/** A call that a tool of some worker is in the middle of. */
export interface HeldCall {
  tool: string;
  runId: string;
  seq: number;
  attempt: number;
  key: string;
  answer(result: string): void;
  /** When its caller gave up, by `performance.now()`; null while it waits. */
  goneAtMs: number | null;
}

export interface Yard {
  client: Client;
  pool: pg.Pool;
  postgres: Cuttable;
  redis: Cuttable | null;
  /** Another way to the same Postgres, for a process that is cut off by itself: give it as DATABASE_URL. */
  elsewhere: Cuttable;
  calls: HeldCall[];
  startWorker(env?: Record<string, string>, role?: 'all' | 'steps' | 'maintenance'): Promise<Running>;
  /** Starts a run of one call of the tool, and waits until the call is in hand (a `block` call is not). */
  startRun(tool: 'hold' | 'charge' | 'block'): Promise<string>;
  callOf(runId: string, attempt?: number): Promise<HeldCall>;
  ended(runId: string): Promise<void>;
  close(): Promise<void>;
}

const patience = { timeout: 60_000, interval: 50 };

export async function openYard(backend: QueueBackend): Promise<Yard> {
  const database = await createTestDatabase();
  const queue = backend === 'redis' ? await createTestRedis() : null;
  const postgres = await cuttable(database.url, 5432);
  const elsewhere = await cuttable(database.url, 5432);
  const redis = queue === null ? null : await cuttable(queue.url, 6379);
  const pool = new pg.Pool({ connectionString: database.url, max: 2, application_name: 'the test' });
  pool.on('error', () => {});
  const client = await openClient({ databaseUrl: database.url, redisUrl: queue?.url ?? null, log: quietLog });
  const calls: HeldCall[] = [];
  const hand = await openHand(calls);
  const model = await startScriptedModel({
    script({ messages }) {
      const last = messages.at(-1);
      if (last?.role === 'tool') return `the answer was: ${last.content}`;
      return { calls: [{ name: String(messages[0]?.content), arguments: {} }] };
    },
  });
  const project = makeProject(
    { 'pawl.config.ts': config },
    {
      DATABASE_URL: postgres.url,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: 'sk-test',
      HAND_URL: hand.url,
    },
  );

  const callOf = async (runId: string, attempt = 1): Promise<HeldCall> => {
    const find = () => calls.find((call) => call.runId === runId && call.attempt === attempt);
    await expect.poll(find, patience).toBeDefined();
    return find() as HeldCall;
  };

  return {
    client,
    pool,
    postgres,
    redis,
    elsewhere,
    calls,
    callOf,
    async startWorker(env = {}, role = 'all') {
      const worker = project.start(['worker', '--role', role], { env });
      await worker.says('worker ready');
      return worker;
    },
    async startRun(tool) {
      const { id } = await client.runs.start({ agent: 'hand', input: tool });
      if (tool !== 'block') await callOf(id);
      return id;
    },
    async ended(runId) {
      await expect.poll(async () => (await client.runs.get(runId)).status, patience).toBe('completed');
    },
    async close() {
      await project.close();
      await client.close();
      await pool.end();
      await postgres.close();
      await elsewhere.close();
      await redis?.close();
      await model.close();
      await hand.close();
      expect(model.breaches).toEqual([]);
    },
  };
}

async function openHand(calls: HeldCall[]): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer(async (request, response) => {
    const asked = JSON.parse(await text(request)) as Omit<HeldCall, 'answer' | 'goneAtMs'>;
    const call: HeldCall = { ...asked, answer: (result) => void response.end(result), goneAtMs: null };
    response.on('close', () => {
      if (!response.writableEnded) call.goneAtMs = performance.now();
    });
    calls.push(call);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
