/**
 * Pawl itself, worker and client, with a model adapter that answers in process. Everything else is as in a deployment:
 * claim, window, tokenizer, events, heartbeat, maintenance, fsync. Twenty steps are ten model calls and ten tool calls; the
 * model asks for two tools in its first turn.
 */
import pg from 'pg';
import { z } from 'zod';
import { migrate, startWorkerProcess, type WorkerProcess } from '../../src/app.js';
import type { Message } from '../../src/core/message.js';
import { type Agent, createPawl, defineAgent, defineTool } from '../../src/index.js';
import { countTokens } from '../../src/openai/tokens.js';
import type { Llm, LlmRequest, Log } from '../../src/ports.js';
import type { Peer, Session, Setting } from '../peer.js';
import { readPayload, type Work } from '../work.js';

export const pawl: Peer = {
  title: 'Pawl',
  packages: ['bullmq', 'ioredis', 'pg'],
  how: 'a worker of role "all"; ten model calls and ten tool calls a run',
  open: (setting) => openPawl(setting, setting.redisUrl),
};

export const pawlPostgres: Peer = {
  title: 'Pawl on the Postgres queue',
  packages: ['bullmq', 'pg'],
  how: 'the same without Redis',
  share: 0.5,
  open: (setting) => openPawl(setting, null),
};

const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
const endless = { maxSteps: 100_000, maxTurns: 100_000 };
/** Small enough that a long run's window is full by its fiftieth step: what is compared is the step, not the prompt. */
export const windowTokens = 4_000;

export async function openPawl(setting: Setting, redisUrl: string | null): Promise<Session> {
  await migrate(setting.databaseUrl);
  return openMigrated(setting, redisUrl);
}

/** For a database that is migrated already. */
export async function openMigrated(setting: Setting, redisUrl: string | null): Promise<Session> {
  const { databaseUrl, work } = setting;
  const worker = await startPawlWorker(setting, redisUrl);
  const client = createPawl({ databaseUrl, redisUrl });
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  const ids = new Map<string, string>();
  return {
    async play(runs, steps) {
      const performed = work.performed(work.calls + runs.length * steps);
      await startRuns(client, runs, steps, ids);
      await performed;
      await untilEnded(pool);
    },
    async outputs(run) {
      const messages = await client.runs.messages(ids.get(run) ?? '');
      return messages.slice(1).map(({ message }) => saidIn(message));
    },
    async recorded() {
      const { rows } = await pool.query<{ n: number }>(
        "select count(*)::int as n from pawl.steps where status = 'completed'",
      );
      return rows[0]?.n ?? 0;
    },
    async close() {
      await client.close();
      await worker.stop(5_000);
      await pool.end();
    },
  };
}

export async function startRuns(
  client: ReturnType<typeof createPawl>,
  runs: readonly string[],
  steps: number,
  ids = new Map<string, string>(),
): Promise<void> {
  const started = await client.runs.startMany(runs.map((run) => ({ agent: 'bench', input: `${run} ${steps}` })));
  for (const [n, one] of started.entries()) {
    if (one.error !== null) throw one.error;
    ids.set(runs[n] ?? '', one.id);
  }
}

export function startPawlWorker(
  { databaseUrl, concurrency, work }: Pick<Setting, 'databaseUrl' | 'concurrency' | 'work'>,
  redisUrl: string | null,
): Promise<WorkerProcess> {
  return startWorkerProcess({
    databaseUrl,
    redisUrl,
    log: silent,
    role: 'all',
    agents: [agentOf(work)],
    llm: modelOf(work),
    concurrency,
    queues: null,
    heartbeatMs: 2_000,
    deathMs: 8_000,
  });
}

function agentOf(work: Work): Agent {
  const look = defineTool({
    name: 'look',
    description: 'Looks something up',
    input: z.object({ run: z.string(), note: z.string() }),
    effect: 'none',
    execute: ({ run }, { stepSeq }) => work.perform(run, stepSeq),
  });
  const agent = defineAgent({
    name: 'bench',
    instructions: 'Look things up, then answer.',
    model: 'gpt-4o-mini',
    tools: [look],
    limits: endless,
    // A summary would be a step more, for a model that knows no other than the work's.
    context: { windowTokens, summary: false },
  });
  return agent;
}

/** Knows where a run is from the last message alone, so any process can answer for any step. */
function modelOf(work: Work): Llm {
  return {
    async complete(request) {
      const { run, steps, step } = askedOf(request);
      const said = await work.perform(run, step);
      const usage = { inputTokens: 500, cachedInputTokens: 0, outputTokens: 100, costUsd: null, estimated: false };
      const call = (note: string) => ({ name: 'look', arguments: JSON.stringify({ run, note }) });
      const calls = step === 1 ? [call(said.slice(0, 200)), call(said.slice(200))] : [call(said)];
      const isLast = step >= steps;
      const reply = { content: isLast ? said : null, calls: isLast ? [] : calls, usage, model: request.model };
      return { ok: true, reply };
    },
    countTokens,
    price: () => null,
    contextTokens: () => 128_000,
  };
}

function askedOf({ messages }: LlmRequest): { run: string; steps: number; step: number } {
  const task = messages.find((message) => message.role === 'user')?.content ?? '';
  // Once a long run leaves turns out, a word of Pawl's on that stands behind the task.
  const [, run = '', steps = '0'] = /^(\S+) (\d+)/.exec(task) ?? [];
  const last = messages.at(-1);
  return { run, steps: Number(steps), step: last?.role === 'tool' ? readPayload(last.content ?? '').step + 1 : 1 };
}

function saidIn(message: Message): string {
  if (message.role !== 'assistant' || message.toolCalls.length === 0) return message.content ?? '';
  return message.toolCalls.map((call) => (JSON.parse(call.arguments) as { note: string }).note).join('');
}

async function untilEnded(pool: pg.Pool): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ status: string; n: number }>(
      "select status, count(*)::int as n from pawl.runs where status <> 'completed' group by status",
    );
    if (rows.length === 0) return;
    const wrong = rows.find(({ status }) => status !== 'running' && status !== 'pending');
    if (wrong !== undefined) throw new Error(`${wrong.n} runs are ${wrong.status}`);
  }
}
