/**
 * Tools at their worst, in real worker processes: what they return or throw is an observation, whatever it is, and what
 * takes its process down dies by itself while everybody else goes on.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { StepView } from '../../src/core/view.js';
import type { Script } from '../../src/testing/index.js';
import { queueBackends } from '../support/services.js';
import { type Fleet, openFleet } from './fleet.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const patience = { timeout: 60_000, interval: 100 };

/** Each tool is one expression: what `execute` is. */
const returning = {
  nothing: `() => undefined`,
  plain_text: `() => 'just text'`,
  itself: `() => { const loop = { name: 'loop' }; loop.self = loop; return loop; }`,
  nul: `() => ({ text: 'a\\0b' })`,
  half_characters: `() => ['\\ud83d', 'ok\\ude00']`,
  twenty_megabytes: `() => 'x'.repeat(20_000_000)`,
  twenty_megabytes_of_items: `() => Array.from({ length: 2_000_000 }, () => 'abcdefg')`,
  depth: `() => { let deep = 'end'; for (let at = 0; at < 100_000; at++) deep = [deep]; return deep; }`,
  bigint: `() => ({ count: 12345678901234567890n })`,
  trap: `() => new Proxy({}, { ownKeys() { throw new Error('no keys'); } })`,
  getter: `() => ({ get value() { throw new Error('no value'); } })`,
  too_late: `() => { setTimeout(() => Promise.reject(new Error('nobody waits for me')), 20); return 'in time'; }`,
  much_too_late: `() => { setTimeout(() => Promise.reject(undefined), 20); return 'in time'; }`,
} as const;

const throwing = {
  throws_nothing: `() => { throw undefined; }`,
  throws_text: `() => { throw 'just text'; }`,
  throws_itself: `() => { const loop = {}; loop.self = loop; throw loop; }`,
  throws_bigint: `() => { throw 12n; }`,
  throws_nul: `() => { throw new Error('a\\0b \\ud83d'); }`,
  throws_twenty_megabytes: `() => { throw new Error('x'.repeat(20_000_000)); }`,
  throws_odd_name: `() => { throw Object.assign(new Error(''), { name: { odd: true } }); }`,
  throws_trap: `() => { throw new Proxy({}, { getPrototypeOf() { throw new Error('trap'); } }); }`,
  ...Object.fromEntries(
    ['UnrecoverableError', 'DelayedError', 'WaitingChildrenError', 'WaitingError', 'RateLimitError'].map((name) => [
      `throws_${name}`,
      `() => { throw Object.assign(new Error('bullmq:rateLimitExceeded'), { name: '${name}' }); }`,
    ]),
  ),
} as const;

const configOf = (tools: Record<string, string>, effect = 'idempotent') => `
import { defineAgent, defineConfig, defineTool } from 'pawl';
const tool = (name, execute) => defineTool({ name, description: 'Acts', effect: '${effect}', attempts: ${effect === 'once' ? 1 : 2}, execute });
export default defineConfig({ agents: [defineAgent({ name: 'hostile', instructions: 'Act.',
  retry: { attempts: 3, baseMs: 50, capMs: 100 },
  tools: [${Object.entries(tools).map(([name, execute]) => `tool('${name}', ${execute})`)}] })] });`;

/** Calls the tool that its task names, then ends. */
const once: Script = ({ messages }) =>
  messages.at(-1)?.role === 'tool' ? 'heard' : { calls: [{ name: String(messages[0]?.content), arguments: {} }] };

describe.each(queueBackends())('on the %s queue', (backend) => {
  let fleet: Fleet;
  afterEach(() => fleet.close());

  /** Runs each tool once, in one worker; answers the tool's step of each run. */
  async function play(tools: Record<string, string>): Promise<Record<string, StepView & { dispatchedAs: string }>> {
    const names = Object.keys(tools);
    const worker = await fleet.startWorker();
    const started = await fleet.client.runs.startMany(names.map((name) => ({ agent: 'hostile', input: name })));
    const ids = started.map(({ id }) => id ?? '');
    await Promise.all(ids.map((id) => fleet.settled(id)));
    const found = await Promise.all(
      ids.map(async (id, at) => {
        expect(await fleet.client.runs.get(id), names[at]).toMatchObject({ status: 'completed', output: 'heard' });
        const [, step] = await fleet.client.runs.steps(id);
        return [names[at], { ...step, dispatchedAs: id }];
      }),
    );
    expect(worker.child.exitCode, 'the worker lives').toBeNull();
    return Object.fromEntries(found);
  }

  /** Waits until the queue, too, is done with each job: those that ended well have left it. */
  async function jobsAreDone(steps: Record<string, { dispatchedAs: string }>): Promise<void> {
    const jobs = Object.values(steps).map(({ dispatchedAs }) => ({
      ...{ queue: 'tool', runId: dispatchedAs, seq: 2, dispatch: 1 },
    }));
    await expect.poll(() => fleet.dashboard.describe(jobs), patience).toEqual([]);
  }

  it('whatever a tool returns is recorded as text, bounded and storable, and its run goes on', async () => {
    fleet = await openFleet({ backend, config: configOf(returning), script: once });
    const steps = await play(returning);
    const outputs = Object.fromEntries(Object.entries(steps).map(([name, { output }]) => [name, String(output)]));
    expect(outputs).toMatchObject({
      nothing: '(done; the tool returned nothing)',
      plain_text: 'just text',
      itself: '{"name":"loop","self":"[circular]"}',
      nul: '{"text":"a\ufffdb"}',
      half_characters: '["\ufffd","ok\ufffd"]',
      bigint: '{"count":"12345678901234567890"}',
      trap: '{}',
      getter: '{"value":"[unreadable: no value]"}',
      too_late: 'in time',
      much_too_late: 'in time',
    });
    expect(outputs.depth).toContain('"[nested too deep]"');
    for (const name of ['twenty_megabytes', 'twenty_megabytes_of_items']) {
      expect(outputs[name]?.length, name).toBeLessThanOrEqual(4_000);
      expect(outputs[name], name).toMatch(/\d characters|left out|cut/);
    }
    for (const [name, step] of Object.entries(steps))
      expect(step, name).toMatchObject({ status: 'completed', attempt: 1, error: null });
    await jobsAreDone(steps);
  });

  it('whatever a tool throws is tried again and then told to the model, and no job ends by it', async () => {
    fleet = await openFleet({ backend, config: configOf(throwing), script: once });
    const steps = await play(throwing);
    for (const [name, step] of Object.entries(steps)) {
      expect(step, name).toMatchObject({ status: 'completed', attempt: 2, error: { code: 'threw' } });
      expect(step.output, name).toMatch(new RegExp(`^${name} failed: .`));
      expect(String(step.output).length, name).toBeLessThan(2_500);
    }
    expect(steps.throws_nothing?.output).toContain('threw undefined');
    expect(steps.throws_nul?.output).toContain('a\ufffdb \ufffd');
    expect(steps.throws_itself?.output).toContain('threw an unprintable object');
    await jobsAreDone(steps);
  });

  it('a once call that throws what Postgres refuses is asked about like any other', async () => {
    const tools = { throws_nul: throwing.throws_nul };
    fleet = await openFleet({ backend, config: configOf(tools, 'once'), script: once });
    await fleet.startWorker();
    const { id } = await fleet.client.runs.start({ agent: 'hostile', input: 'throws_nul' });
    await fleet.settled(id);
    expect(await fleet.client.runs.get(id)).toMatchObject({ status: 'suspended', waitingFor: { kind: 'outcome' } });
  });

  it('a tool that takes its process down again and again dies alone, with its evidence', async () => {
    const counted = await openCounter();
    try {
      fleet = await openFleet({
        backend,
        config: fleetConfig,
        script: workload,
        env: { COUNTER_URL: counted.url, PAWL_HEARTBEAT_MS: '200', PAWL_DEATH_MS: '3000' },
      });
      await Promise.all([fleet.keepWorker(), fleet.keepWorker()]);
      const { runs } = fleet.client;
      const poison: string[] = [];
      let poisonIsDead = false;
      // One after the other: two would keep two workers down for most of the time.
      const poisoning = async () => {
        for (const input of ['leave', 'kill']) {
          const { id } = await runs.start({ agent: 'poison', input });
          poison.push(id);
          await fleet.settled(id);
        }
        poisonIsDead = true;
      };
      // Others are under way all the time, so that each death takes some with it.
      const healthy: string[] = [];
      const oneAfterTheOther = async () => {
        do {
          const { id } = await runs.start({ agent: 'healthy', input: 'go' });
          healthy.push(id);
          await fleet.settled(id);
        } while (!poisonIsDead);
      };
      await Promise.all([poisoning(), ...Array.from({ length: 4 }, oneAfterTheOther)]);

      for (const id of poison) {
        expect(await runs.get(id)).toMatchObject({ status: 'failed', reason: 'crash_loop', error: { code: 'crash' } });
        const evidence = await runs.attempts(id);
        expect(evidence.map(({ seq, endedBy }) => [seq, endedBy])).toEqual(
          Array.from({ length: 4 }, () => [2, 'crash']),
        );
        expect((await runs.steps(id))[1]).toMatchObject({ status: 'dead', crashes: 3 });
      }
      const ended = await Promise.all(healthy.map((id) => runs.get(id)));
      expect(ended.filter(({ status, output }) => status !== 'completed' || output !== 'all done')).toEqual([]);
      const { rows: marked } = await fleet.pool.query(
        `select s.run_id, s.seq from pawl.steps s join pawl.runs r on r.id = s.run_id
         where r.agent = 'healthy' and (s.status <> 'completed' or s.crashes > 1)`,
      );
      expect(marked).toEqual([]);

      // A step is hit while nobody is suspect yet, or beside one; then it is a suspect itself, and no other comes near it.
      const counts = [...counted.calls.values()];
      const planned = healthy.length * workPerRun;
      expect(counts).toHaveLength(planned);
      expect(Math.max(...counts)).toBeLessThanOrEqual(3);
      const extra = counts.reduce((sum, count) => sum + count, 0) - planned;
      expect(fleet.deaths).toBe(8);
      expect(extra).toBeLessThanOrEqual(fleet.deaths * concurrency);
    } finally {
      await counted.close();
    }
  });
});

const workPerRun = 3;
const concurrency = 5;

const fleetConfig = `
import { defineAgent, defineConfig, defineTool } from 'pawl';
const rest = { description: 'Acts', effect: 'idempotent' };
const work = async (_, { runId, stepSeq }) =>
  (await fetch(process.env.COUNTER_URL, { method: 'POST', body: runId + ' ' + stepSeq })).text();
const never = () => new Promise(() => {});
export default defineConfig({ agents: [
  defineAgent({ name: 'healthy', instructions: 'Work.', tools: [defineTool({ ...rest, name: 'work', execute: work })] }),
  defineAgent({ name: 'poison', instructions: 'Die.', tools: [
    defineTool({ ...rest, name: 'leave', execute: () => process.exit(0) }),
    defineTool({ ...rest, name: 'kill', execute: () => (process.kill(process.pid, 'SIGKILL'), never()) }),
  ] }),
] });`;

const workload: Script = ({ messages }) => {
  const task = String(messages[0]?.content);
  if (task !== 'go') return { calls: [{ name: task, arguments: {} }] };
  const made = messages.filter(({ role }) => role === 'tool').length;
  return made === workPerRun ? 'all done' : { calls: [{ name: 'work', arguments: {} }] };
};

/** Counts how often each step was executed, from outside the processes that execute it. */
async function openCounter(): Promise<{ url: string; calls: Map<string, number>; close(): Promise<void> }> {
  const calls = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const step = await text(request);
    calls.set(step, (calls.get(step) ?? 0) + 1);
    response.end('worked');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
