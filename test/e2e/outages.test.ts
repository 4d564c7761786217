/**
 * Workers that are cut off, blocked or stopped, and what others make of it: a busy main loop and a Postgres that is away kill
 * nobody; a process that was stopped for too long is dead, and what it does later changes nothing. And a cancel reaches a
 * call in another process.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { queueBackends } from '../support/services.js';
import { openYard, type Yard } from './yard.js';

const times = { PAWL_HEARTBEAT_MS: '200', PAWL_DEATH_MS: '3000' };
const patience = { timeout: 60_000, interval: 50 };

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe.each(queueBackends())('on the %s queue', (backend) => {
  let yard: Yard;
  beforeEach(async () => {
    yard = await openYard(backend);
  });
  afterEach(() => yard.close());

  async function workers(): Promise<{ pid: number; state: string; beat: number }[]> {
    const { rows } = await yard.pool.query('select pid, state, beat from pawl.workers order by started_at');
    return rows;
  }

  async function statesOf(pid: number | undefined): Promise<string[]> {
    return (await workers()).flatMap((worker) => (worker.pid === pid ? [worker.state] : []));
  }

  it('a cancel from another process aborts the call in flight within three seconds', async () => {
    await yard.startWorker();
    const id = await yard.startRun('hold');
    const call = await yard.callOf(id);
    const cancelledAtMs = performance.now();
    await yard.client.runs.cancel(id);
    await expect.poll(() => call.goneAtMs, { timeout: 10_000, interval: 20 }).not.toBeNull();
    expect((call.goneAtMs ?? 0) - cancelledAtMs).toBeLessThan(3_000);
    await expect.poll(async () => (await yard.client.runs.get(id)).status, patience).toBe('cancelled');
    expect(yard.calls).toHaveLength(1);
  });

  it('a worker whose main loop is blocked for five seconds is not declared dead', async () => {
    await yard.startWorker(times);
    await yard.startWorker(times);
    const id = await yard.startRun('block');
    await yard.ended(id);
    expect(await workers()).toMatchObject([{ state: 'live' }, { state: 'live' }]);
    expect(await yard.client.runs.attempts(id)).toEqual([]);
  });

  it('a worker that is stopped for longer is; awake again it registers anew, and its late record is a note', async () => {
    const stopped = await yard.startWorker(times);
    const id = await yard.startRun('hold');
    stopped.child.kill('SIGSTOP');
    await yard.startWorker(times);
    await expect.poll(() => statesOf(stopped.child.pid), patience).toEqual(['dead']);
    (await yard.callOf(id, 2)).answer('of the second');
    await yard.ended(id);
    const steps = await yard.client.runs.steps(id);
    const events = await yard.client.runs.events(id);

    (await yard.callOf(id, 1)).answer('of the first');
    stopped.child.kill('SIGCONT');
    const note = async () => {
      const { rows } = await yard.pool.query('select ended_by, recorded, late_note from pawl.attempts');
      return rows;
    };
    await expect.poll(async () => (await note())[0]?.late_note, patience).toMatch(/^(returned late|aborted)/);
    expect(await note()).toMatchObject([{ ended_by: 'crash', recorded: false }]);
    await expect.poll(() => statesOf(stopped.child.pid), patience).toEqual(['dead', 'live']);
    expect(await yard.client.runs.steps(id)).toEqual(steps);
    expect(await yard.client.runs.events(id)).toEqual(events);
    expect(await yard.client.runs.get(id)).toMatchObject({ output: 'the answer was: of the second' });
  });

  it('a Postgres that is away for longer than it takes to die kills nobody, and work goes on afterwards', async () => {
    const patient = { ...times, PAWL_DEATH_MS: '5000' };
    await yard.startWorker(patient, 'steps');
    const judge = await yard.startWorker({ ...patient, DATABASE_URL: yard.elsewhere.url }, 'maintenance');
    const id = await yard.startRun('hold');
    const call = await yard.callOf(id);
    await Promise.all([yard.postgres.cut(), yard.elsewhere.cut()]);
    call.answer('while nobody could record it');
    const before = await workers();
    await delay(8_000);
    expect((await workers()).map(({ beat }) => beat)).toEqual(before.map(({ beat }) => beat));
    // Who judges is back first, and sees a beat that has stood still for longer than a death takes.
    await yard.elsewhere.restore();
    await judge.says('the services answer again');
    await yard.postgres.restore();
    await yard.ended(id);
    const next = await yard.startRun('hold');
    (await yard.callOf(next)).answer('soon');
    await yard.ended(next);
    expect((await workers()).map(({ state }) => state)).toEqual(before.map(() => 'live'));
    expect([await yard.client.runs.attempts(id), await yard.client.runs.attempts(next)]).toEqual([[], []]);
    expect(yard.calls).toHaveLength(2);
  });
});
