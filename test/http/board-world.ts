/** A world with its queue dashboard served over HTTP, and the buttons of bull-board as its page presses them. */
import type { Agent } from '../../src/core/agent.js';
import { queuesPath, startServer } from '../../src/http/server.js';
import type { Llm } from '../../src/ports.js';
import { quietLog } from '../support/quiet-log.js';
import type { QueueBackend } from '../support/services.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';

export interface BoardJob {
  id: string;
  data: Record<string, unknown>;
  returnValue: unknown;
  isFailed: boolean;
  externalUrl?: { displayText?: string; href: string };
}

export interface BoardWorld extends World {
  url: string;
  /** What a button sends; the status it is answered with. */
  press(method: string, path: string, body?: unknown): Promise<number>;
  /** Jobs of the queue `pawl-llm` in a state of BullMQ's. */
  jobs(status: string): Promise<BoardJob[]>;
  counts(): Promise<Record<string, number>>;
  startWorkerOf(llm: Llm, ...agents: Agent[]): Promise<void>;
  close(): Promise<void>;
}

export async function openBoardWorld(backend: QueueBackend): Promise<BoardWorld> {
  const world = await openWorld(backend);
  const { client } = world;
  const linkOf = (runId: string) => `/v1/runs/${runId}`;
  const board = await client.board({ queues: ['llm', 'tool'], basePath: queuesPath, linkOf });
  const server = await startServer({
    ...{
      host: '127.0.0.1',
      port: 0,
      apiKey: null,
      runs: client.runs,
      board,
      ready: () => client.ping(),
      log: quietLog,
    },
  });

  async function look(status: string) {
    const path = `/queues/api/queues?activeQueue=pawl-llm&status=${status}&page=1&jobsPerPage=50`;
    const answer = await fetch(server.url + path);
    const { queues } = (await answer.json()) as {
      queues: { name: string; jobs: BoardJob[]; counts: Record<string, number> }[];
    };
    const queue = queues.find(({ name }) => name === 'pawl-llm');
    if (queue === undefined) throw new Error('the board shows no queue pawl-llm');
    return queue;
  }

  return {
    ...world,
    url: server.url,
    async press(method, path, body) {
      const answer = await fetch(`${server.url}/queues/api/queues${path}`, {
        method,
        ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      });
      return answer.status;
    },
    jobs: async (status) => (await look(status)).jobs,
    counts: async () => (await look('latest')).counts,
    async startWorkerOf(llm, ...agents) {
      await world.startWorker({ llm, agents: agentsOf(...agents) });
    },
    async close() {
      await server.close();
      await world.stopAll();
    },
  };
}
