/** Two thousand runs that failed at a provider, brought back by two commands at once that are both cut short, and a third. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import { scriptedLlm } from '../../src/testing/index.js';
import { queueBackends } from '../support/services.js';
import { agentsOf, openWorld, type World } from '../support/worlds.js';
import { makeProject, type Project, type Running } from './command.js';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const runCount = 2_000;
const patience = { timeout: 240_000, interval: 100 };

describe.each(queueBackends())('on the %s queue', (backend) => {
  let world: World;
  let project: Project;
  afterEach(async () => {
    await project.close();
    await world.stopAll();
  });

  async function countOf(status: string): Promise<number> {
    let count = 0;
    let cursor: string | undefined;
    do {
      const page = await world.client.runs.list({ status: status as 'failed', limit: 500, ...(cursor && { cursor }) });
      count += page.data.length;
      cursor = page.page.next ?? undefined;
    } while (cursor !== undefined);
    return count;
  }

  it('each of 2,000 dead runs is redriven once, and the command after an interrupt does what is left', async () => {
    world = await openWorld(backend);
    const { databaseUrl, redisUrl, client } = world;
    const services = { DATABASE_URL: databaseUrl, ...(redisUrl === null ? {} : { REDIS_URL: redisUrl }) };
    // The inputs alone are 120 MB: a command that held them all would not live.
    project = makeProject({}, { ...services, NODE_OPTIONS: '--max-old-space-size=100' });
    let refuses = true;
    const llm = scriptedLlm(() => (refuses ? { fault: 'status', status: 400 } : 'accepted'));
    const agents = agentsOf(defineAgent({ name: 'a', instructions: 'x' }));
    const refused = await world.startWorker({ llm, agents, concurrency: 100 });
    const input = 'a long task '.repeat(5_000);
    const started = await client.runs.startMany(Array.from({ length: runCount }, () => ({ agent: 'a', input })));
    await expect.poll(() => countOf('failed'), { ...patience, interval: 1_000 }).toBe(runCount);
    await refused.stop(5_000);

    const redrive = ['runs', 'redrive', '--agent', 'a', '--yes', '-o', 'id'];
    const both = [project.start(redrive), project.start(redrive)];
    await Promise.all(both.map((command) => interruptAfter(command, 300)));
    const cut = await Promise.all(both.map(({ ended }) => ended));
    for (const { exit, out, err } of cut) {
      expect(exit).toBe(130);
      const done = out.split('\n').length - 1;
      expect(err).toMatch(
        new RegExp(`^${done.toLocaleString('en')} runs redriven(, \\d+ not)?, the rest not tried; `, 'm'),
      );
    }
    const rest = await project.pawl(redrive);
    expect(rest).toMatchObject({ exit: 0 });
    const redriven = [...cut, rest].flatMap(({ out }) => out.split('\n').filter(Boolean));
    expect(redriven).toHaveLength(runCount);
    expect(new Set(redriven)).toEqual(new Set(started.map(({ id }) => id)));
    expect(await project.pawl(redrive)).toMatchObject({ exit: 0, out: '', err: 'there is no run to redrive\n' });

    refuses = false;
    await world.startWorker({ llm, agents, concurrency: 100 });
    await expect.poll(() => countOf('completed'), { ...patience, interval: 1_000 }).toBe(runCount);
    expect(llm.requests).toHaveLength(2 * runCount);
  });
});

/** Presses Ctrl-C once the command has told of that many runs, be it that the other one was faster. */
async function interruptAfter({ child, ended }: Running, runs: number): Promise<void> {
  let told = 0;
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      const before = told;
      told += chunk.toString().split('\n').length - 1;
      if (before < runs && told >= runs) child.kill('SIGINT');
    });
  }
  await ended;
}
