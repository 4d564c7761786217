/**
 * The end of a worker in good order: told by SIGTERM it claims nothing more, ends or hands back what is in flight, and exits
 * with 0 when its time is over, whatever it is cut off from. What it handed back is nobody's failure.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { queueBackends } from '../support/services.js';
import type { Running } from './command.js';
import { openYard, type Yard } from './yard.js';

const shutdownMs = 4_000;
const times = { PAWL_SHUTDOWN_MS: String(shutdownMs), PAWL_HEARTBEAT_MS: '200', PAWL_DEATH_MS: '3000' };
/** The process's own end, and a machine that is busy. */
const slackMs = 3_000;

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe.each(queueBackends())('a worker on the %s queue that is told to end', (backend) => {
  let yard: Yard;
  beforeEach(async () => {
    yard = await openYard(backend);
  });
  afterEach(() => yard.close());

  /** Sends SIGTERM and waits for the exit: 0, and in time. */
  async function endInGoodOrder(worker: Running): Promise<void> {
    const began = performance.now();
    worker.child.kill('SIGTERM');
    const { exit, err } = await worker.ended;
    expect({ exit, err }).toMatchObject({ exit: 0 });
    expect(performance.now() - began).toBeLessThan(shutdownMs + slackMs);
  }

  async function workerStates(): Promise<string[]> {
    const { rows } = await yard.pool.query<{ state: string }>('select state from pawl.workers order by started_at');
    return rows.map(({ state }) => state);
  }

  it('lets a call end that ends in time, and leaves what follows to others', async () => {
    const worker = await yard.startWorker(times);
    const id = await yard.startRun('hold');
    const ending = endInGoodOrder(worker);
    (await yard.callOf(id)).answer('in time');
    await ending;
    expect(await workerStates()).toEqual(['stopped']);
    expect((await yard.client.runs.steps(id)).map(({ seq, status }) => [seq, status])).toEqual([
      [1, 'completed'],
      [2, 'completed'],
      [3, 'pending'],
    ]);
    await yard.startWorker(times);
    await yard.ended(id);
    expect(await yard.client.runs.attempts(id)).toEqual([]);
  });

  it('hands back a call that takes longer, as a claim and not as a failure or a crash', async () => {
    const worker = await yard.startWorker(times);
    const id = await yard.startRun('hold');
    await endInGoodOrder(worker);
    expect((await yard.callOf(id)).goneAtMs).not.toBeNull();
    expect(await yard.client.runs.attempts(id)).toMatchObject([
      { seq: 2, attempt: 1, endedBy: 'claim', recorded: true },
    ]);
    const { rows } = await yard.pool.query(
      'select status, failures, crashes, claims, suspect from pawl.steps where seq = 2',
    );
    expect(rows).toEqual([{ status: 'pending', failures: 0, crashes: 0, claims: 1, suspect: false }]);
    await yard.startWorker(times);
    (await yard.callOf(id, 2)).answer('at last');
    await yard.ended(id);
    const [first, second] = yard.calls;
    expect(second?.key).toBe(first?.key);
  });

  it('leaves a once call that was cut short to an operator, and never repeats it', async () => {
    const worker = await yard.startWorker(times);
    const id = await yard.startRun('charge');
    await endInGoodOrder(worker);
    await yard.startWorker(times);
    await expect
      .poll(async () => (await yard.client.runs.get(id)).waitingFor?.kind, { timeout: 30_000 })
      .toBe('outcome');
    await yard.client.runs.resolve(id, { step: 2, as: 'done', result: 'charged' });
    await yard.ended(id);
    expect(yard.calls).toHaveLength(1);
  });

  const lost = ['postgres', ...(backend === 'redis' ? (['redis'] as const) : [])] as const;
  const ways = lost.flatMap((service) => [[service, 'cut'] as const, [service, 'freeze'] as const]);
  it.each(ways)('ends in time when %s is gone (%s), and what it held is rescued', async (service, way) => {
    const worker = await yard.startWorker(times);
    const id = await yard.startRun('hold');
    const lostService = service === 'postgres' ? yard.postgres : yard.redis;
    await lostService?.[way]();
    await endInGoodOrder(worker);
    await lostService?.cut();
    await lostService?.restore();
    await yard.startWorker(times);
    (await yard.callOf(id, 2)).answer('at last');
    await yard.ended(id);
  });
});
