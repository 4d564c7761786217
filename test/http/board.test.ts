/** The buttons of the queue dashboard, pressed through its own API: none of them harms a run. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import type { RunView } from '../../src/core/view.js';
import { scriptedLlm } from '../../src/testing/index.js';
import { until } from '../chaos/until.js';
import { queueBackends } from '../support/services.js';
import { type BoardJob, type BoardWorld, openBoardWorld } from './board-world.js';

const agent = defineAgent({ name: 'a', instructions: 'x', retry: { attempts: 2, baseMs: 3_000, capMs: 3_000 } });
const withinMs = 40_000;

describe.each(queueBackends())('the board of the %s queue', { timeout: 60_000 }, (backend) => {
  let world: BoardWorld;
  let isBroken = false;
  const refusals = new Map<string, number>();

  beforeAll(async () => {
    world = await openBoardWorld(backend);
    // `refuse` is refused for good while the model is broken; `again` fails once and is tried again.
    const llm = scriptedLlm(({ messages }) => {
      const task = String(messages[0]?.content);
      if (task.startsWith('refuse') && isBroken) return { fault: 'status', status: 400, message: 'no' };
      const before = refusals.get(task) ?? 0;
      refusals.set(task, before + 1);
      return task.startsWith('again') && before === 0 ? { fault: 'status', status: 500 } : `done: ${task}`;
    });
    await world.startWorkerOf(llm, agent);
  });
  afterAll(() => world.close());

  const start = async (input: string) => (await world.client.runs.start({ agent: 'a', input })).id;
  const job = (status: string, id: string) =>
    until(`a ${status} job of ${id}`, withinMs, async () =>
      (await world.jobs(status)).find(({ data }) => data.runId === id),
    );
  const settled = (id: string, status: RunView['status']) =>
    until(`${id} to be ${status}`, withinMs, async () => (await world.client.runs.get(id)).status === status);
  const press = async (button: string, { id }: BoardJob) =>
    expect([200, 204]).toContain(await world.press('PUT', `/pawl-llm/${encodeURIComponent(id)}/${button}`));
  const pausing = async (work: () => Promise<void>) => {
    expect(await world.press('PUT', '/pawl-llm/pause')).toBe(200);
    await work();
    expect(await world.press('PUT', '/pawl-llm/resume')).toBe(200);
  };

  it('shows a failed job with its run, and Retry redrives the run', async () => {
    isBroken = true;
    const id = await start('refuse this');
    await settled(id, 'failed');
    const dead = await job('failed', id);
    expect(dead).toMatchObject({
      data: { runId: id, seq: 1 },
      externalUrl: { displayText: 'Run', href: `/v1/runs/${id}` },
    });
    expect(await (await fetch(world.url + dead.externalUrl?.href)).json()).toMatchObject({ id, status: 'failed' });
    isBroken = false;
    await press('retry', dead);
    await settled(id, 'completed');
    const redriven = (await world.client.runs.events(id)).filter(({ type }) => type === 'run.redriven');
    expect(redriven).toMatchObject([{ data: { by: 'dashboard' } }]);
  });

  it('retries all failed jobs, and each of their runs goes on', async () => {
    isBroken = true;
    const ids = await Promise.all(['refuse a', 'refuse b', 'refuse c'].map(start));
    for (const id of ids) await job('failed', id);
    isBroken = false;
    expect(await world.press('PUT', '/pawl-llm/retry/failed')).toBe(200);
    for (const id of ids) await settled(id, 'completed');
  });

  it('a job added for a step that is done is refused, and shows why; its Retry changes nothing', async () => {
    const id = await start('complete this');
    await settled(id, 'completed');
    const before = await world.client.runs.events(id);
    const again = { data: { runId: id, seq: 1, dispatch: 1 }, options: { jobId: `${id}.1.1` } };
    expect(await world.press('POST', '/pawl-llm/add', { name: 'step', ...again })).toBe(200);
    const refused = await job('completed', id);
    expect(refused.returnValue).toMatch(/done/);
    await press('retry', refused);
    await until('the job to be completed again', withinMs, async () =>
      /done/.test(String((await world.jobs('completed')).find(({ data }) => data.runId === id)?.returnValue)),
    );
    expect(await world.client.runs.events(id)).toEqual(before);
  });

  it('a removed job, and one removed by clean or empty, is dispatched again', async () => {
    const ids: string[] = [];
    await pausing(async () => {
      ids.push(await start('remove me'), await start('empty me'));
      await press('clean', await job('waiting', ids[0] ?? ''));
      expect(await world.press('PUT', '/pawl-llm/empty')).toBe(200);
    });
    for (const id of ids) await settled(id, 'completed');
  });

  it('an obliterated queue is filled again', async () => {
    const ids: string[] = [];
    await pausing(async () => {
      ids.push(await start('obliterate me'), await start('and me'));
      expect(await world.press('PUT', '/pawl-llm/obliterate', { force: true })).toBe(200);
    });
    for (const id of ids) await settled(id, 'completed');
  });

  it('a promoted retry neither comes too early nor is lost', async () => {
    const id = await start('again, please');
    await press('promote', await job('delayed', id));
    await settled(id, 'completed');
    const [step] = await world.client.runs.steps(id);
    expect(step).toMatchObject({ attempt: 2 });
  });

  it('a job whose data or delay was changed by hand leaves its run unharmed', async () => {
    const garbled = await pausedRun('garble me');
    const put = `/pawl-llm/${encodeURIComponent(garbled.job.id)}/update-data`;
    expect(await world.press('PATCH', put, { jobData: { runId: 'run_other', seq: 1, secret: 'hunter2' } })).toBe(200);
    expect(await world.press('PUT', '/pawl-llm/resume')).toBe(200);
    await settled(garbled.id, 'completed');
    const parked = await start('again, much later');
    const delayed = await job('delayed', parked);
    const path = `/pawl-llm/${encodeURIComponent(delayed.id)}/delay`;
    expect(await world.press('PATCH', path, { runAt: Date.now() + 86_400_000 })).toBe(200);
    await settled(parked, 'completed');
  });

  async function pausedRun(input: string) {
    expect(await world.press('PUT', '/pawl-llm/pause')).toBe(200);
    const id = await start(input);
    return { id, job: await job('waiting', id) };
  }

  it('a job added by hand runs nothing, and what it holds is not shown', async () => {
    const before = await world.client.runs.list();
    const body = {
      name: 'step',
      data: { runId: 'run_x', password: 'hunter2', nested: { token: 'hunter2' } },
      options: {},
    };
    expect(await world.press('POST', '/pawl-llm/add', body)).toBe(200);
    const added = await job('failed', 'run_x');
    expect(added.data).toEqual({ runId: 'run_x', password: '[not shown]', nested: '[not shown]' });
    const page = await (await fetch(`${world.url}/queues/api/queues/pawl-llm/${added.id}`)).text();
    expect(page).not.toContain('hunter2');
    expect(await world.client.runs.list()).toEqual(before);
  });
});
