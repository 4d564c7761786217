/** Pawl: a worker of role "all" on Postgres and Redis, and an agent with ordinary options. */
import { setTimeout as sleep } from 'node:timers/promises';
import { migrate, startWorkerProcess } from '../../../src/app.js';
import { createPawl, defineAgent, defineTool } from '../../../src/index.js';
import { createOpenAiLlm } from '../../../src/openai/llm.js';
import type { Log } from '../../../src/ports.js';
import { instructions, modelName, type Side } from '../side.js';
import { listDescription, listInput, queryDescription, queryInput, toolTimeoutMs, type Warehouse } from '../tools.js';

const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
/** Rarely enough not to weigh on the worker; the times are the database's. */
const lookEveryMs = 100;

export const pawl: Side = {
  title: 'Pawl',
  packages: [],
  how: 'a worker on Postgres and Redis, which records each step; an agent with default options but the time of a tool, two tries of a call, 200 ms between them, and listings cut to 3,000 characters',
  async open({ modelUrl, warehouse, databaseUrl, redisUrl }) {
    await migrate(databaseUrl);
    const worker = await startWorkerProcess({
      databaseUrl,
      redisUrl,
      log: silent,
      role: 'all',
      agents: [agentOf(warehouse)],
      llm: createOpenAiLlm({ baseUrl: modelUrl, apiKey: 'key', log: silent }),
      concurrency: 50,
      queues: null,
      heartbeatMs: 2_000,
      deathMs: 8_000,
    });
    const client = createPawl({ databaseUrl, redisUrl });
    return {
      async play(task) {
        const { id } = await client.runs.start({ agent: 'analyst', input: task });
        for (;;) {
          const run = await client.runs.get(id);
          if (run.finishedAt === null) {
            await sleep(lookEveryMs);
            continue;
          }
          const steps = await client.runs.steps(id);
          const ended = run.reason === null ? run.status : `${run.status}: ${run.reason}`;
          return {
            answer: run.status === 'completed' ? String(run.output) : null,
            ended,
            endedAtLimit: ['max_turns', 'max_steps', 'loop_detected'].includes(run.reason ?? ''),
            calls: steps.filter(({ kind }) => kind === 'tool').map(({ error }) => error === null),
            ms: Date.parse(run.finishedAt) - Date.parse(run.createdAt),
          };
        }
      },
      async close() {
        await client.close();
        await worker.stop(5_000);
      },
    };
  },
};

function agentOf(warehouse: Warehouse) {
  const queryOrders = defineTool({
    name: 'query_orders',
    description: queryDescription,
    input: queryInput,
    effect: 'none',
    timeoutMs: toolTimeoutMs,
    attempts: 2,
    execute: (args, { signal }) => warehouse.query(args, signal),
  });
  const listOrders = defineTool({
    name: 'list_orders',
    description: listDescription,
    input: listInput,
    effect: 'none',
    timeoutMs: toolTimeoutMs,
    attempts: 2,
    maxOutputChars: 3_000,
    execute: (args, { signal }) => warehouse.list(args, signal),
  });
  return defineAgent({
    name: 'analyst',
    instructions,
    model: modelName,
    tools: [queryOrders, listOrders],
    retry: { baseMs: 200 },
  });
}
