/**
 * Whatever befalls workers, queue and database, in whatever order: once they are back, every run comes to its end or to a
 * question it names, and no once call was made twice. On a clock by hand; fast-check prints the seed of a failure.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import { cancelRun, pauseRun, redriveRun, resolveStep, resumeRun } from '../../src/core/commands.js';
import { PawlError } from '../../src/core/errors.js';
import { isFinal } from '../../src/core/run.js';
import { defineTool } from '../../src/core/tool.js';
import { type Gap, gaps } from '../../src/engine/gaps.js';
import { scriptedLlm } from '../../src/testing/scripted-llm.js';
import { Town, type TownWorker } from '../support/town.js';

const weights = {
  start: 4,
  advance: 10,
  kill: 2,
  killInGap: 4,
  wipe: 2,
  databaseAway: 2,
  databaseBack: 3,
  queueAway: 2,
  queueBack: 3,
  cancel: 1,
  pause: 1,
  resume: 1,
  retry: 2,
  redrive: 1,
} as const;
type Kind = keyof typeof weights;

const move = fc.record({
  kind: fc.oneof(
    ...Object.entries(weights).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind as Kind) })),
  ),
  pick: fc.nat(100),
  ms: fc.constantFrom(50, 300, 1_000, 3_000, 9_000, 20_000),
});
type Move = typeof move extends fc.Arbitrary<infer T> ? T : never;

class Chaos {
  readonly town = new Town();
  readonly runIds: string[] = [];
  /** How often each once call was made, by its key, and how often an operator said that it did not happen. */
  readonly made = new Map<string, number>();
  readonly reruns = new Map<string, number>();
  private workers: TownWorker[] = [];
  private killAt: { gap: Gap; in: number } | null = null;

  private readonly agent = defineAgent({
    name: 'helper',
    instructions: 'Help.',
    model: 'scripted',
    retry: { attempts: 3, baseMs: 500, capMs: 2_000 },
    limits: { maxTurns: 4, deadlineMs: 3_600_000 },
    tools: [
      defineTool({
        name: 'look',
        description: 'takes a moment',
        effect: 'idempotent',
        execute: (_, { signal }) => this.town.clock.sleep(700, signal),
      }),
      defineTool({
        name: 'step',
        description: 'one after another',
        effect: 'idempotent',
        sequential: true,
        execute: (_, { signal }) => this.town.clock.sleep(400, signal),
      }),
      defineTool({
        name: 'pay',
        description: 'not twice',
        effect: 'once',
        timeoutMs: 5_000,
        onUnknown: 'ask',
        execute: async (_, { idempotencyKey, signal }) => {
          this.made.set(idempotencyKey, (this.made.get(idempotencyKey) ?? 0) + 1);
          await this.town.clock.sleep(900, signal);
          return 'paid';
        },
      }),
    ],
  });

  private readonly llm = scriptedLlm(
    async ({ messages, tools }) => {
      if (tools.length === 0 || messages.length > 8) return 'done';
      const asked = [['look', 'pay'], ['step', 'step', 'look'], ['pay']][messages.length % 3] ?? [];
      return { calls: asked.map((name) => ({ name, arguments: {} })), delayMs: 600 };
    },
    { sleep: (ms, signal) => this.town.clock.sleep(ms, signal) },
  );

  async startWorker(): Promise<void> {
    // A process that finds no database at its start ends, and whatever runs it tries again.
    this.town.world.setReachable(true);
    const worker: TownWorker = await this.town.startWorker({
      agents: [this.agent],
      llm: this.llm,
      concurrency: 3,
      onGap: async (gap) => {
        if (this.killAt?.gap !== gap || --this.killAt.in > 0) return;
        this.killAt = null;
        await this.kill(worker);
        await new Promise(() => {});
      },
    });
    this.workers.push(worker);
  }

  private async kill(worker: TownWorker): Promise<void> {
    worker.kill();
    this.workers = this.workers.filter((other) => other !== worker);
    await this.startWorker();
  }

  async play({ kind, pick, ms }: Move): Promise<void> {
    const { town } = this;
    const runId = this.runIds[pick % Math.max(1, this.runIds.length)];
    switch (kind) {
      case 'start':
        this.runIds.push(await town.start({ agent: 'helper' }));
        return;
      case 'advance':
        return town.clock.advance(ms);
      case 'kill': {
        const worker = this.workers[pick % this.workers.length];
        if (worker !== undefined) await this.kill(worker);
        return;
      }
      case 'killInGap':
        this.killAt = { gap: gaps[pick % gaps.length] ?? 'after_call', in: 1 + (pick % 3) };
        return;
      case 'wipe':
        return town.queue.wipe();
      case 'databaseAway':
        return town.world.setReachable(false);
      case 'databaseBack':
        return town.world.setReachable(true);
      case 'queueAway':
        return town.queue.setReachable(false);
      case 'queueBack':
        return town.queue.setReachable(true);
      case 'retry': {
        const failed = town.queue.jobs().filter((job) => job.state === 'failed');
        const job = failed[pick % failed.length];
        if (job !== undefined) town.queue.retryFailed(job);
        return;
      }
      case 'cancel':
        if (runId !== undefined) await town.command(runId, cancelRun);
        return;
      case 'pause':
        if (runId !== undefined) await town.command(runId, pauseRun);
        return;
      case 'resume':
        if (runId !== undefined) await town.command(runId, (draft) => resumeRun(draft, {}));
        return;
      case 'redrive':
        if (runId !== undefined) await town.command(runId, (draft) => redriveRun(draft, 'command'), 'revivable');
        return;
    }
  }

  /** Everything is back: operators answer what runs ask, and each run comes to its end. */
  async settle(): Promise<void> {
    const { town } = this;
    this.killAt = null;
    town.world.setReachable(true);
    town.queue.setReachable(true);
    for (let rounds = 0; this.runIds.some((id) => !isFinal(town.run(id).status)); rounds++) {
      if (rounds > 20) {
        throw new Error(`stuck: ${this.runIds.map((id) => `${town.run(id).status} ${town.statuses(id)}`)}`);
      }
      // Long enough for a death, a rescue and a backed-off sweep; I3 wants a move in 20 s once it can move.
      await town.clock.advance(30_000);
      for (const id of this.runIds) await this.answer(id);
    }
  }

  private async answer(runId: string): Promise<void> {
    const { town } = this;
    if (town.run(runId).status !== 'suspended') return;
    for (const step of town.rows(runId).steps.values()) {
      if (step.waitingFor === 'operator' && step.waitDetail === 'paused') {
        return town.command(runId, (draft) => resumeRun(draft, {}));
      }
      if (step.waitingFor === 'outcome' || step.waitingFor === 'operator') {
        const key = step.idempotencyKey ?? '';
        if (step.unknown) this.reruns.set(key, (this.reruns.get(key) ?? 0) + 1);
        return town.command(runId, (draft) => resolveStep(draft, step.seq, { as: 'rerun' }));
      }
    }
  }

  check(): void {
    for (const id of this.runIds) this.town.check(id);
    for (const [key, times] of this.made) {
      expect(times, 'I6: a once call is made once for each "did not happen"').toBeLessThanOrEqual(
        1 + (this.reruns.get(key) ?? 0),
      );
    }
  }
}

it('every run ends, whatever happened to what carries it', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 5, maxLength: 40 }), async (moves) => {
      const chaos = new Chaos();
      try {
        await chaos.startWorker();
        await chaos.startWorker();
        await chaos.play({ kind: 'start', pick: 0, ms: 50 });
        for (const move of moves) {
          await chaos.play(move).catch((error: unknown) => {
            const expected = ['conflict', 'database_unreachable', 'queue_unreachable'];
            if (!(error instanceof PawlError && expected.includes(error.code))) throw error;
          });
        }
        await chaos.settle();
        chaos.check();
      } finally {
        await chaos.town.close();
      }
    }),
    { numRuns: 10 },
  );
});
