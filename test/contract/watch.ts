/**
 * What maintenance finds, and how hearts beat: the suite of Watch and Workers, on Postgres and in memory alike. Questions
 * are asked of a whole database, so each answer is looked at for the runs of one test.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { cancelRun, resumeRun } from '../../src/core/commands.js';
import { answerDeadDelivery, deferStep, meetDeadline, releaseClaim, wakeServed } from '../../src/core/recover.js';
import type { Limits } from '../../src/core/run.js';
import type { Dispatch, DueStep, HeldClaim } from '../../src/ports.js';
import { asks, call, listing, llmFails, says, value } from '../support/scenario.js';
import { Bench, type StoreWorld } from './store-world.js';

const all = 10_000;

export function watchContract(name: string, makeWorld: () => Promise<StoreWorld>): void {
  describe(`the watch on ${name}`, () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await Bench.open(await makeWorld());
    });
    afterEach(() => bench.check());
    afterAll(() => bench.close());

    const of = <T extends { runId: string }>(runId: string, found: readonly T[]) =>
      found.filter((each) => each.runId === runId);
    const due = async (runId: string, overdueMs = 2_000) => of(runId, await bench.watch.dueSteps(overdueMs, null, all));

    async function declareDead(workerId: string): Promise<void> {
      await bench.until(async () => {
        const row = (await bench.watch.liveWorkers()).find(({ id }) => id === workerId);
        return row === undefined || (await bench.watch.declareDead(workerId, row.beat));
      });
    }

    it('breathes the database’s time', async () => {
      const runId = await bench.start();
      const { run } = await bench.rows(runId);
      const now = await bench.watch.breathe();
      expect(now.getTime()).toBeGreaterThanOrEqual(run.createdAt.getTime());
      expect(now.getTime() - run.createdAt.getTime()).toBeLessThan(60_000);
    });

    describe('workers', () => {
      it('live from their registration, beat, and are live no more when they stop', async () => {
        const { id, heart } = await bench.register([listing]);
        const beat = async () => (await bench.watch.liveWorkers()).find((row) => row.id === id)?.beat;
        expect(await beat()).toBeDefined();
        await bench.until(async () => ((await beat()) ?? 0) > 1);
        expect(heart.isConfirmed()).toBe(true);
        await heart.stop(2_000);
        expect(await beat()).toBe(undefined);
      });

      it('are declared dead only if they have not beaten since, once, and hear of it', async () => {
        const { id, heart } = await bench.register([listing]);
        let heard = 0;
        heart.onDeclaredDead(() => {
          heard += 1;
        });
        expect(await bench.watch.declareDead(id, 1_000_000)).toBe(false);
        expect(await bench.watch.declareDead('worker_none', 0)).toBe(false);
        await declareDead(id);
        expect(await bench.watch.declareDead(id, 0)).toBe(false);
        await bench.until(() => heard > 0);
      });

      it('are forgotten a day after their end, but not while a claim of theirs is unsettled', async () => {
        const [idle, busy] = [await bench.register([listing]), await bench.register([listing])];
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1, { workerId: busy.id });
        for (const { id } of [idle, busy]) await declareDead(id);
        await bench.world.pass(25 * 3_600_000);
        await bench.watch.sweepWorkers();
        expect(of(runId, await bench.watch.claimsOfDeadWorkers(all))).toMatchObject([{ token, workerId: busy.id }]);
      });
    });

    describe('claims', () => {
      it('of a dead worker are found, and of one that stopped in good order, who is not to blame', async () => {
        const [dead, stopped] = [await bench.register([listing]), await bench.register([listing])];
        const [one, two, three] = [await bench.start(), await bench.start(), await bench.start()];
        const lost = await bench.claim(one, 1, { workerId: dead.id });
        await bench.claim(two, 1, { workerId: stopped.id });
        await bench.claim(three, 1);
        await declareDead(dead.id);
        await stopped.heart.stop(2_000);
        const found = await bench.watch.claimsOfDeadWorkers(all);
        expect(of(one, found)).toEqual([{ runId: one, seq: 1, token: lost.token, workerId: dead.id, stopped: false }]);
        expect(of(two, found)).toMatchObject([{ workerId: stopped.id, stopped: true }]);
        expect(of(three, found)).toEqual([]);
        expect(await bench.watch.claimsOfDeadWorkers(1)).toHaveLength(1);
        await bench.change(one, (draft) => releaseClaim(draft, 1, lost.token, 'crash'));
        expect(of(one, await bench.watch.claimsOfDeadWorkers(all))).toEqual([]);
      });

      it('that two beats of their living worker did not list are dropped; listed ones are not', async () => {
        const { id, heart } = await bench.register([listing]);
        const [dropped, held, recorded] = [await bench.start(), await bench.start(), await bench.start()];
        const keep = '00000000-0000-4000-8000-00000000000a';
        heart.hold(keep);
        await bench.claim(held, 1, { workerId: id, token: keep });
        const lost = await bench.claim(dropped, 1, { workerId: id });
        expect(of(dropped, await bench.watch.droppedClaims(all))).toEqual([]);
        const done = await bench.claim(recorded, 1, { workerId: id });
        await bench.record(recorded, 1, done.token, says('done'));
        let found: HeldClaim[] = [];
        await bench.until(async () => {
          found = await bench.watch.droppedClaims(all);
          return of(dropped, found).length > 0;
        });
        expect(of(dropped, found)).toMatchObject([{ seq: 1, token: lost.token, workerId: id }]);
        expect(of(held, found)).toEqual([]);
        expect(of(recorded, found)).toEqual([]);
      });

      it('are overdue when their deadline passed longer ago than the grace', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        const overdue = async () => of(runId, await bench.watch.overdueClaims(10_000, all));
        await bench.world.pass(listing.llmTimeoutMs + 9_000);
        expect(await overdue()).toEqual([]);
        await bench.world.pass(1_500);
        expect(await overdue()).toMatchObject([{ seq: 1, token }]);
      });
    });

    describe('due steps', () => {
      it('are the pending ones, due for longer than asked', async () => {
        const [soon, later, claimed, done] = [
          await bench.start(),
          await bench.start({ delayMs: 60_000 }),
          await bench.start(),
          await bench.start(),
        ];
        await bench.claim(claimed, 1);
        await bench.perform(done, 1, says('done'));
        expect(await due(soon)).toEqual([]);
        await bench.world.pass(2_500);
        const { dueAt } = await bench.step(soon, 1);
        expect(await due(soon)).toEqual([{ queue: 'llm', runId: soon, seq: 1, dispatch: 1, dueAt }]);
        for (const runId of [later, claimed, done]) expect(await due(runId)).toEqual([]);
        await bench.world.pass(60_000);
        expect(await due(later)).toHaveLength(1);
      });

      it('are paged through, oldest first, without a gap or a repetition', async () => {
        const runIds: string[] = [];
        for (let n = 0; n < 4; n++) {
          const runId = await bench.start();
          await bench.perform(runId, 1, asks(call('a'), call('b'), call('c')));
          runIds.push(runId);
          await bench.world.pass(n === 2 ? 0 : 1_000);
        }
        await bench.world.pass(10_000);
        const paged: DueStep[] = [];
        for (let after: DueStep | null = null; ; ) {
          const page: DueStep[] = await bench.watch.dueSteps(2_000, after, 5);
          paged.push(...page);
          after = page.at(-1) ?? null;
          if (page.length < 5) break;
        }
        expect(paged).toEqual(await bench.watch.dueSteps(2_000, null, all));
        const ours = paged.filter(({ runId }) => runIds.includes(runId));
        expect(ours).toHaveLength(12);
        const times = paged.map(({ dueAt }) => dueAt.getTime());
        expect(times).toEqual([...times].sort((a, b) => a - b));
      });
    });

    describe('raiseDispatch', () => {
      it('raises each step that still is at the given dispatch, for one of many who ask', async () => {
        const runId = await bench.start();
        await bench.perform(runId, 1, asks(call('a'), call('b'), call('c')));
        await bench.claim(runId, 4);
        const asked: Dispatch[] = [2, 3, 4, 9].map((seq) => ({
          queue: 'tool',
          runId,
          seq,
          dispatch: seq === 3 ? 7 : 1,
        }));
        const answers = await Promise.all(Array.from({ length: 5 }, () => bench.watch.raiseDispatch(asked)));
        expect(answers.flat()).toEqual([{ queue: 'tool', runId, seq: 2, dispatch: 2 }]);
        expect(await bench.tryClaim(runId, 2, { dispatch: 1 })).toMatchObject({ refusal: 'stale' });
        expect(await bench.tryClaim(runId, 2, { dispatch: 2 })).toMatchObject({ claimed: true });
        expect(await bench.watch.raiseDispatch([])).toEqual([]);
      });

      it('raises many at once', async () => {
        const runIds = await Promise.all(Array.from({ length: 20 }, () => bench.start()));
        const raised = await bench.watch.raiseDispatch(
          runIds.map((runId) => ({ queue: 'llm', runId, seq: 1, dispatch: 1 })),
        );
        expect(raised.map(({ runId }) => runId).sort()).toEqual([...runIds].sort());
        expect(raised.every(({ dispatch }) => dispatch === 2)).toBe(true);
      });
    });

    describe('deaths', () => {
      async function dead(): Promise<string> {
        const runId = await bench.start();
        for (let crash = 0; crash < 4; crash++) {
          const { token } = await bench.claim(runId, 1);
          await bench.change(runId, (draft) => releaseClaim(draft, 1, token, 'crash'), { seqs: [1] });
        }
        return runId;
      }
      const unshown = async (runId: string) => of(runId, await bench.watch.unshownDeaths(all));

      it('outside a worker are unshown until a delivery has shown them', async () => {
        const runId = await dead();
        expect(await unshown(runId)).toEqual([]);
        await bench.world.pass(3_000);
        const { dispatch } = await bench.step(runId, 1);
        expect(await unshown(runId)).toEqual([{ queue: 'llm', runId, seq: 1, dispatch }]);
        expect(await bench.watch.raiseDispatch(await unshown(runId))).toMatchObject([{ dispatch: dispatch + 1 }]);
        const delivery = { seq: 1, dispatch: dispatch + 1, attemptsMade: 0 };
        await bench.change(runId, (draft) => answerDeadDelivery(draft, delivery), 'revivable');
        expect(await unshown(runId)).toEqual([]);
        expect(await bench.watch.raiseDispatch([{ queue: 'llm', runId, ...delivery }])).toEqual([]);
      });

      it('that a worker recorded are shown by its own delivery', async () => {
        const runId = await bench.start();
        await bench.perform(runId, 1, llmFails({ class: 'terminal', reason: 'refused' }));
        await bench.world.pass(3_000);
        expect(await unshown(runId)).toEqual([]);
      });
    });

    describe('runs past their deadline', () => {
      const deadlineMs = 100_000;
      const start = (limits: Partial<Limits>) => bench.start({ limits: { deadlineMs, ...limits } });
      const isFound = async (runId: string) => (await bench.watch.runsPastDeadline(all)).includes(runId);
      const meet = (runId: string) => bench.change(runId, meetDeadline);

      it('under finish are found when it acts, and again at the deadline itself', async () => {
        const runId = await start({ onLimit: 'finish' });
        await bench.world.pass(79_000);
        expect(await isFound(runId)).toBe(false);
        await bench.world.pass(1_500);
        expect(await isFound(runId)).toBe(true);
        await meet(runId);
        expect(await isFound(runId)).toBe(false);
        await bench.world.pass(20_000);
        expect(await isFound(runId)).toBe(true);
        await meet(runId);
        expect((await bench.rows(runId)).run).toMatchObject({ status: 'failed', reason: 'deadline' });
        expect(await isFound(runId)).toBe(false);
      });

      it('under fail are found at the deadline, once, also while they are ending', async () => {
        const runId = await start({ onLimit: 'fail' });
        const { token } = await bench.claim(runId, 1);
        await bench.world.pass(99_000);
        expect(await isFound(runId)).toBe(false);
        await bench.world.pass(1_500);
        expect(await isFound(runId)).toBe(true);
        await meet(runId);
        expect(await isFound(runId)).toBe(false);
        await bench.record(runId, 1, token, says('late'));
        expect(await isFound(runId)).toBe(false);
      });

      it('under suspend are found while something could still move', async () => {
        const runId = await start({ onLimit: 'suspend' });
        await bench.world.pass(100_500);
        expect(await isFound(runId)).toBe(true);
        await meet(runId);
        expect(await isFound(runId)).toBe(false);
        await bench.change(runId, (draft) => resumeRun(draft, { deadlineMs }));
        expect(await isFound(runId)).toBe(false);
      });

      it('under suspend are not found again and again for a call in flight, of which there is nothing to hold', async () => {
        const runId = await start({ onLimit: 'suspend' });
        await bench.claim(runId, 1);
        await bench.world.pass(100_500);
        expect(await isFound(runId)).toBe(false);
      });

      it('are not those without one, nor those that are final', async () => {
        const [none, done] = [await bench.start(), await start({ onLimit: 'fail' })];
        await bench.change(done, cancelRun);
        await bench.world.pass(1_000_000);
        expect(await isFound(none)).toBe(false);
        expect(await isFound(done)).toBe(false);
      });
    });

    it('finds the runs that a worker able to serve them has come for', async () => {
      const rare = { ...listing, name: `rare_${process.pid}`, version: 'v2' };
      const first = await bench.register([rare]);
      const [pinned, unpinned] = [await bench.start({ agent: rare.name }), await bench.start({ agent: rare.name })];
      const serves = new Map([[rare.name, 'v1']]);
      const { token } = await bench.claim(pinned, 1, { serves });
      await bench.record(pinned, 1, token, asks(call('look')));
      expect(await bench.watch.isServed(rare.name, null)).toBe(true);
      expect(await bench.watch.isServed(rare.name, 'v2')).toBe(true);
      expect(await bench.watch.isServed(rare.name, 'v1')).toBe(false);
      await first.heart.stop(2_000);
      expect(await bench.watch.isServed(rare.name, null)).toBe(false);
      await bench.change(pinned, (draft) => deferStep(draft, 2, 1, false));
      await bench.change(unpinned, (draft) => deferStep(draft, 1, 1, false));
      const again = async () =>
        (await bench.watch.runsServedAgain(all)).filter((id) => [pinned, unpinned].includes(id));
      expect(await again()).toEqual([]);
      await bench.register([rare]);
      expect(await again()).toEqual([unpinned]);
      await bench.register([{ ...rare, version: 'v1' }]);
      expect((await again()).sort()).toEqual([pinned, unpinned].sort());
      for (const runId of [pinned, unpinned]) await bench.change(runId, wakeServed);
      expect(await again()).toEqual([]);
    });

    it('counts the queue’s epochs, each raised by one of many', async () => {
      const from = await bench.watch.queueEpoch();
      const raised = await Promise.all(Array.from({ length: 5 }, () => bench.watch.raiseQueueEpoch(from)));
      expect(raised.filter(Boolean)).toHaveLength(1);
      expect(await bench.watch.queueEpoch()).toBe(from + 1);
    });

    describe('a heart', () => {
      it('says which of the claims in hand are ending and which are lost, and nothing of the others', async () => {
        const { id, heart } = await bench.register([listing]);
        const aborts: string[] = [];
        heart.onAbort(({ token, cause }) => void aborts.push(`${token.at(-1)} ${cause}`));
        const [ending, lost, kept] = [await bench.start(), await bench.start(), await bench.start()];
        const tokenOf = (last: string) => `00000000-0000-4000-8000-00000000000${last}`;
        for (const [runId, last] of [
          [ending, 'e'],
          [lost, 'f'],
          [kept, 'a'],
        ] as const) {
          heart.hold(tokenOf(last));
          await bench.claim(runId, 1, { workerId: id, token: tokenOf(last) });
          heart.claimed(tokenOf(last));
        }
        heart.hold(tokenOf('b'));
        await bench.change(ending, cancelRun);
        await bench.change(lost, (draft) => releaseClaim(draft, 1, tokenOf('f'), 'dropped'));
        await bench.until(() => new Set(aborts).size >= 2);
        expect(new Set(aborts)).toEqual(new Set(['e ending', 'f lost']));
        heart.drop(tokenOf('f'));
      });

      it('says so when the tools of a run in hand have closed', async () => {
        const { id, heart } = await bench.register([listing]);
        const aborts = new Set<string>();
        heart.onAbort(({ token, cause }) => void aborts.add(`${token.at(-1)} ${cause}`));
        const runId = await bench.start({ limits: { deadlineMs: 100_000, onLimit: 'finish' } });
        await bench.perform(runId, 1, asks(call('look')));
        const token = '00000000-0000-4000-8000-00000000000c';
        heart.hold(token);
        await bench.claim(runId, 2, { workerId: id, token });
        heart.claimed(token);
        await bench.world.pass(85_000);
        await bench.change(runId, meetDeadline);
        await bench.until(() => aborts.size > 0);
        expect([...aborts]).toEqual(['c ending']);
        await bench.record(runId, 2, token, value('in time'));
      });
    });
  });
}
