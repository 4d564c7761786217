/**
 * What every Store must do, the one on Postgres and the one in memory alike: claim, change, accept runs. Races are run for
 * real; a store that has none passes all the same. Its Watch has a suite of its own (watch.ts).
 */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { cancelRun, pauseRun, redriveRun, resolveStep } from '../../src/core/commands.js';
import type { Draft } from '../../src/core/draft.js';
import { PawlError } from '../../src/core/errors.js';
import { type Fact, type FactReader, readFacts } from '../../src/core/fact.js';
import { recordOutcome } from '../../src/core/record.js';
import { releaseClaim } from '../../src/core/recover.js';
import { takeThread } from '../../src/core/thread.js';
import type { NewRun } from '../../src/core/view.js';
import {
  afterAsking,
  askOperator,
  asks,
  call,
  fails,
  happenedMaybe,
  listing,
  llmFails,
  says,
  sumsUp,
  text,
  usage,
  value,
} from '../support/scenario.js';
import { Bench, newRun, type StoreWorld } from './store-world.js';

export function storeContract(name: string, makeWorld: () => Promise<StoreWorld>): void {
  describe(`the store on ${name}`, () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await Bench.open(await makeWorld());
    });
    afterEach(() => bench.check());
    afterAll(() => bench.close());

    const look = call('look');
    const pay = call('pay', { effect: 'once' });

    /** A run whose model has asked for these calls: steps 2 and on. */
    async function asking(...calls: ReturnType<typeof call>[]): Promise<string> {
      const runId = await bench.start();
      await bench.perform(runId, 1, asks(...calls));
      return runId;
    }

    describe('claim', () => {
      it('takes the step over and returns what it needs', async () => {
        const runId = await bench.start({ input: 'add one and two' });
        const token = randomUUID();
        const claimed = await bench.claim(runId, 1, { token });
        expect(claimed.run).toMatchObject({ id: runId, status: 'running', agentVersion: 'v1', stepsUsed: 1 });
        expect(claimed.step).toMatchObject({ seq: 1, status: 'running', attempt: 1, claim: { token } });
        expect(claimed.step.claim?.workerId).toBe(bench.workerId);
        const { startedAt, deadlineAt } = claimed.step.claim ?? {};
        expect((deadlineAt?.getTime() ?? 0) - (startedAt?.getTime() ?? 0)).toBe(listing.llmTimeoutMs);
        expect(claimed.now.getTime()).toBeGreaterThanOrEqual(startedAt?.getTime() ?? Number.POSITIVE_INFINITY);
        expect(claimed.messages).toEqual([
          { seq: 0, pos: 0, tokens: null, message: { role: 'user', content: 'add one and two' } },
        ]);
        // What it returned is what is stored.
        const { run, steps, eventTypes } = await bench.rows(runId);
        expect({ ...claimed.run, lastEvent: run.lastEvent }).toEqual(run);
        expect(claimed.step).toEqual(steps[0]);
        expect(eventTypes).toEqual(['run.created', 'run.started']);
      });

      it('returns the history in order for an LLM step, from the window on, and none for a tool', async () => {
        const runId = await asking(call('a'), call('b'));
        expect((await bench.claim(runId, 2)).messages).toEqual([]);
        await bench.perform(runId, 3, value('result b'));
        await bench.record(runId, 2, (await bench.step(runId, 2)).claim?.token ?? '', value('result a'));
        const third = await bench.claim(runId, 4);
        expect(third.messages.map(({ seq, pos, message }) => [seq, pos, message.role, message.content])).toEqual([
          [0, 0, 'user', 'the task'],
          [1, 0, 'assistant', null],
          [1, 1, 'tool', 'result a'],
          [1, 2, 'tool', 'result b'],
        ]);
        await bench.record(runId, 4, third.token, { ...asks(look), window: { windowFrom: 4, digestBefore: 0 } });
        await bench.perform(runId, 5, value('seen'));
        expect((await bench.claim(runId, 6)).messages.map(({ seq, pos }) => [seq, pos])).toEqual([
          [0, 0],
          [4, 0],
          [4, 1],
        ]);
      });

      it('returns the newest summary, however far the window has moved beyond it', async () => {
        const runId = await asking(look);
        await bench.perform(runId, 2, value('seen'));
        await bench.perform(runId, 3, sumsUp(3, 'first'));
        await bench.perform(runId, 4, sumsUp(3, 'second'));
        await bench.perform(runId, 5, { ...asks(look), window: { windowFrom: 5, digestBefore: 3 } });
        await bench.perform(runId, 6, value('seen again'));
        const { run, messages } = await bench.claim(runId, 7);
        expect(run).toMatchObject({ windowFrom: 5, digestBefore: 3, summarySeq: 4 });
        expect(messages.map(({ seq, message }) => [seq, message.content])).toEqual([
          [0, 'the task'],
          [4, 'second'],
          [5, null],
          [5, 'seen again'],
        ]);
        expect(messages[1]?.message).toMatchObject({ summary: { before: 3, calls: ['look {}: seen'] } });
      });

      it('answers the same token again, as the same attempt', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        const again = await bench.claim(runId, 1, { token });
        expect(again.step).toMatchObject({ attempt: 1, claim: { token } });
        expect(again.messages).toHaveLength(1);
        expect((await bench.rows(runId)).eventTypes).toEqual(['run.created', 'run.started']);
      });

      it('is won by one of many', async () => {
        const runId = await bench.start();
        const answers = await Promise.all(Array.from({ length: 20 }, () => bench.tryClaim(runId, 1, { dispatch: 1 })));
        expect(answers.filter((answer) => answer.claimed)).toHaveLength(1);
        expect(answers.filter((answer) => !answer.claimed && answer.refusal === 'claimed')).toHaveLength(19);
        expect(await bench.step(runId, 1)).toMatchObject({ status: 'running', attempt: 1 });
      });

      it('pins the run to one version, also when workers of two race for its first step', async () => {
        for (let round = 0; round < 10; round++) {
          const runId = await bench.start();
          const serving = (version: string) => ({ dispatch: 1, serves: new Map([['helper', version]]) });
          const answers = await Promise.all(['v1', 'v2'].map((v) => bench.tryClaim(runId, 1, serving(v))));
          const { agentVersion } = (await bench.rows(runId)).run;
          const winner = answers.findIndex((answer) => answer.claimed);
          expect(agentVersion).toBe(['v1', 'v2'][winner]);
        }
      });

      it('does not count the question about an unknown fate as an attempt', async () => {
        const runId = await asking(pay);
        await bench.perform(runId, 2, happenedMaybe);
        expect((await bench.claim(runId, 2)).step).toMatchObject({ unknown: true, attempt: 1 });
      });
    });

    describe('a claim is refused', () => {
      it('as stale: for an old dispatch, a dispatch to come, a step or a run that is not there', async () => {
        const runId = await bench.start();
        for (const request of [
          { runId, seq: 1, dispatch: 0 },
          { runId, seq: 1, dispatch: 2 },
          { runId, seq: 2, dispatch: 1 },
          { runId: 'run_none', seq: 1, dispatch: 1 },
        ]) {
          expect(await bench.tryClaim(runId, 1, request)).toEqual({ claimed: false, refusal: 'stale' });
        }
      });

      it('as done, dead, suspended or claimed, by the state of its step', async () => {
        const done = await bench.start();
        await bench.perform(done, 1, says('done'));
        const dead = await bench.start();
        await bench.perform(dead, 1, llmFails({ class: 'terminal', reason: 'refused' }));
        const cancelled = await bench.start();
        await bench.change(cancelled, cancelRun);
        const suspended = await bench.start();
        await bench.change(suspended, pauseRun);
        const claimed = await bench.start();
        await bench.claim(claimed, 1);
        const refusals = await Promise.all(
          [done, dead, cancelled, suspended, claimed].map(async (runId) => {
            const answer = await bench.tryClaim(runId, 1);
            return answer.claimed ? 'claimed it' : answer.refusal;
          }),
        );
        expect(refusals).toEqual(['done', 'dead', 'done', 'suspended', 'claimed']);
      });

      it('as not due, until it is', async () => {
        const runId = await bench.start({ delayMs: 60_000 });
        expect(await bench.tryClaim(runId, 1)).toEqual({ claimed: false, refusal: 'not_due' });
        await bench.world.pass(60_000);
        expect(await bench.tryClaim(runId, 1)).toMatchObject({ claimed: true });
      });

      it('for a worker declared dead, stopped or never registered', async () => {
        const runId = await bench.start();
        const [dead, stopped] = [await bench.register([listing]), await bench.register([listing])];
        await bench.until(async () => {
          const row = (await bench.watch.liveWorkers()).find(({ id }) => id === dead.id);
          return row === undefined || (await bench.watch.declareDead(dead.id, row.beat));
        });
        await stopped.heart.stop(2_000);
        for (const workerId of [dead.id, stopped.id, 'worker_none']) {
          expect(await bench.tryClaim(runId, 1, { workerId })).toEqual({ claimed: false, refusal: 'worker_dead' });
        }
        expect(await bench.tryClaim(runId, 1)).toMatchObject({ claimed: true });
      });

      it('where the agent, or the version the run is pinned to, is not served', async () => {
        const runId = await bench.start();
        expect(await bench.tryClaim(runId, 1, { serves: new Map([['other', 'v1']]) })).toMatchObject({
          refusal: 'not_served',
        });
        expect(await bench.tryClaim(runId, 1, { serves: new Map() })).toMatchObject({ refusal: 'not_served' });
        await bench.perform(runId, 1, asks(look));
        expect(await bench.tryClaim(runId, 2, { serves: new Map([['helper', 'v2']]) })).toMatchObject({
          refusal: 'not_served',
        });
        expect(
          await bench.tryClaim(runId, 2, {
            serves: new Map([
              ['other', 'v2'],
              ['helper', 'v1'],
            ]),
          }),
        ).toMatchObject({ claimed: true });
      });

      it('for a suspect where the process has another', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        await bench.change(runId, (draft) => releaseClaim(draft, 1, token, 'crash'));
        expect(await bench.tryClaim(runId, 1, { takesSuspect: false })).toMatchObject({ refusal: 'suspect_slot' });
        expect(await bench.tryClaim(runId, 1, { takesSuspect: true })).toMatchObject({ claimed: true });
      });

      it('behind a cancel, whichever comes first (I11)', async () => {
        await Promise.all(
          Array.from({ length: 20 }, async () => {
            const runId = await bench.start();
            const token = randomUUID();
            const [claim] = await Promise.all([
              bench.tryClaim(runId, 1, { dispatch: 1, token }),
              bench.change(runId, cancelRun),
            ]);
            const { run, steps } = await bench.rows(runId);
            // Claimed before the cancel: the run waits for the call. Else the cancel was final at once.
            expect([run.status, steps[0]?.status]).toEqual(
              claim.claimed ? ['running', 'running'] : ['cancelled', 'cancelled'],
            );
            expect(await bench.tryClaim(runId, 1, { dispatch: 1, token })).toMatchObject({ claimed: false });
          }),
        );
      });
    });

    describe('change', () => {
      it('is null where there is no such run', async () => {
        expect(await bench.store.change('run_none', 'open', cancelRun)).toBe(null);
      });

      it('keeps what the rules remember of the turns', async () => {
        const runId = await asking(look, call('find'));
        await bench.perform(runId, 2, fails({ retry: false }));
        await bench.perform(runId, 3, value('found'));
        const alone = afterAsking([look, call('find')]);
        alone.perform(2, fails({ retry: false }));
        alone.perform(3, value('found'));
        const { run, messages } = await bench.rows(runId);
        expect(run.conduct).toEqual(alone.run.conduct);
        expect(run.conduct?.asked).toHaveLength(1);
        expect(messages[2]?.message).toMatchObject({ role: 'tool', error: 'threw' });
      });

      it('keeps everything a rule changed, and hands out what is to be dispatched', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        const asked = asks(call('a', { arguments: '{"n":1}', queue: 'slow' }), pay);
        const { dispatches } = await bench.record(runId, 1, token, { ...asked, reasoning: 'hm' });
        expect(dispatches).toEqual([
          { queue: 'slow', runId, seq: 2, dispatch: 1 },
          { queue: 'tool', runId, seq: 3, dispatch: 1 },
        ]);
        // The same moves on the rules alone give the same rows.
        const alone = afterAsking([call('a', { arguments: '{"n":1}', queue: 'slow' }), pay]);
        const { run, steps, messages, eventTypes } = await bench.rows(runId);
        expect(run).toMatchObject({ openSteps: 2, stepsUsed: 3, nextSeq: 4, turnsUsed: 1, usage });
        expect(eventTypes).toEqual(alone.eventTypes);
        expect(messages[1]?.message).toEqual({
          role: 'assistant',
          content: null,
          reasoning: 'hm',
          toolCalls: [
            { id: 'c00000002', name: 'a', arguments: '{"n":1}' },
            { id: 'c00000003', name: 'pay', arguments: '{}' },
          ],
        });
        expect(steps[0]).toMatchObject({ usage, status: 'completed' });
        const { queuedAt, dueAt, idempotencyKey, ...planned } = alone.step(2);
        expect(steps[1]).toMatchObject(planned);
        expect(steps[1]?.idempotencyKey).not.toBe(idempotencyKey);
        expect(steps[1]?.dueAt).toEqual(steps[1]?.queuedAt);
        expect([queuedAt, dueAt]).toEqual([alone.now, alone.now]);
      });

      it('leaves everything as it was when the rule throws, and lets the error through', async () => {
        const runId = await asking(look, look);
        const before = await bench.rows(runId);
        const rule = (draft: Draft) => {
          cancelRun(draft);
          throw new PawlError('conflict', 'thought better of it');
        };
        await expect(bench.change(runId, rule)).rejects.toMatchObject({
          code: 'conflict',
          message: 'thought better of it',
        });
        expect(await bench.rows(runId)).toEqual(before);
      });

      it('writes nothing where the rule changed nothing', async () => {
        const runId = await bench.start();
        const before = await bench.rows(runId);
        expect(await bench.change(runId, (draft) => draft.run.status)).toEqual({ value: 'pending', dispatches: [] });
        expect(await bench.rows(runId)).toEqual(before);
      });

      it('shows a rule only the steps in scope, and all open ones where it turns out to need them', async () => {
        const runId = await asking(look, look, look);
        await bench.perform(runId, 2, value('done'));
        const seqs = (scope: Parameters<typeof bench.change>[2]) =>
          bench.change(runId, (draft) => draft.all().map(({ seq }) => seq), scope).then(({ value }) => value);
        expect(await seqs({ seqs: [3] })).toEqual([3]);
        expect(await seqs({ seqs: [1, 2, 9] })).toEqual([1, 2]);
        expect(await seqs('open')).toEqual([3, 4]);
        let tries = 0;
        const { token } = await bench.claim(runId, 3);
        await bench.store.change(runId, { seqs: [3] }, (draft) => {
          tries += 1;
          return recordOutcome(draft, {
            seq: 3,
            token,
            outcome: { kind: 'unstorable', message: 'no' },
            attemptsMade: 0,
          });
        });
        expect(tries).toBe(1);
        // A death needs to see the siblings, which it cancels.
        for (let crash = 0; crash < 4; crash++) {
          const { token } = await bench.claim(runId, 4);
          await bench.change(runId, (draft) => releaseClaim(draft, 4, token, 'crash'), { seqs: [4] });
        }
        expect(await bench.statuses(runId)).toEqual(['completed', 'completed', 'completed', 'dead']);
        expect(await seqs('revivable')).toEqual([4]);
      });

      it('cancels the siblings of a step that dies, though it was given that step alone', async () => {
        const runId = await asking(look, look);
        for (let crash = 0; crash < 4; crash++) {
          const { token } = await bench.claim(runId, 3);
          await bench.change(runId, (draft) => releaseClaim(draft, 3, token, 'crash'), { seqs: [3] });
        }
        expect(await bench.statuses(runId)).toEqual(['completed', 'cancelled', 'dead']);
        expect((await bench.rows(runId)).run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
      });

      it('finds the receipt of a record that was archived, and answers as the first time', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        const failure = llmFails({ usage }, { retryInMs: 0 });
        const first = await bench.record(runId, 1, token, failure);
        const before = await bench.rows(runId);
        expect(before.attempts).toMatchObject([{ token, endedBy: 'failure', recorded: true, retryInMs: 0, usage }]);
        const again = await bench.record(runId, 1, token, failure);
        expect(again.value).toMatchObject({ recorded: true, ended: 'retry', inMs: 0 });
        expect(first.value).toMatchObject({ recorded: true, ended: 'retry', inMs: 0 });
        expect(await bench.rows(runId)).toEqual(before);
        await bench.perform(runId, 1, says('done'));
        expect((await bench.record(runId, 1, token, failure)).value).toMatchObject({ ended: 'retry' });
        expect((await bench.record(runId, 1, randomUUID(), says('who?'))).value).toEqual({ recorded: false });
      });

      it('keeps texts byte for byte', async () => {
        const odd = [
          '123',
          '"quoted"',
          'null',
          '{"a" : 1.0, "b":2}',
          '😀 \u2028 \\u0000 \t\r\n',
          '',
          'x'.repeat(100_000),
        ];
        const runId = await asking(...odd.map((_, index) => call('look', { arguments: `{"n" : ${index}.0}` })));
        for (const [index, answer] of odd.entries()) {
          const whole = index === 0 ? 'the whole' : null;
          await bench.perform(runId, index + 2, {
            kind: 'tool_value',
            value: { text: answer, tokens: 1, full: whole },
          });
        }
        const { steps, messages } = await bench.rows(runId);
        expect(steps.slice(1, -1).map((step) => step.output)).toEqual(odd);
        expect(steps[2]?.input).toBe('{"n" : 1.0}');
        expect(messages.filter(({ pos }) => pos > 0).map(({ message }) => message.content)).toEqual(odd);
      });

      it('refuses what cannot be stored, and changes nothing', async () => {
        const runId = await bench.start();
        const { token } = await bench.claim(runId, 1);
        const before = await bench.rows(runId);
        await expect(bench.record(runId, 1, token, says('a\u0000b'))).rejects.toMatchObject({ code: 'invalid_input' });
        expect(await bench.rows(runId)).toEqual(before);
        await bench.record(runId, 1, token, { kind: 'unstorable', message: 'no' });
        expect((await bench.rows(runId)).run).toMatchObject({ status: 'failed', reason: 'unstorable' });
      });
    });

    describe('change from a known state', () => {
      const record = (known: Awaited<ReturnType<Bench['claim']>>, outcome: Parameters<Bench['record']>[3]) =>
        bench.store.change(
          known.run.id,
          { seqs: [known.step.seq] },
          (draft) => recordOutcome(draft, { seq: known.step.seq, token: known.token, outcome, attemptsMade: 0 }),
          { receipt: known.token, known },
        );

      it('writes the same as without it, once', async () => {
        const runId = await bench.start();
        const claimed = await bench.claim(runId, 1);
        const first = await record(claimed, asks(look, look));
        expect(first?.dispatches).toHaveLength(2);
        const before = await bench.rows(runId);
        expect(before.run).toMatchObject({ openSteps: 2, stepsUsed: 3 });
        expect(await record(claimed, asks(look, look))).toMatchObject({
          value: { ended: 'completed' },
          dispatches: [],
        });
        expect(await bench.rows(runId)).toEqual(before);
      });

      it('sees a command that came after the claim', async () => {
        const runId = await asking(look);
        const claimed = await bench.claim(runId, 2);
        await bench.change(runId, pauseRun);
        expect((await record(claimed, fails()))?.value).toMatchObject({ ended: 'suspended' });
      });

      it('is fenced where the claim was taken away', async () => {
        const runId = await asking(look);
        const claimed = await bench.claim(runId, 2);
        await bench.change(runId, (draft) => releaseClaim(draft, 2, claimed.token, 'dropped'));
        expect((await record(claimed, value('late')))?.value).toEqual({ recorded: false });
      });

      it('joins siblings once, all of which know the same', async () => {
        const runId = await asking(look, look, look, look);
        const claims = await Promise.all([2, 3, 4, 5].map((seq) => bench.claim(runId, seq)));
        await Promise.all(claims.map((claimed) => record(claimed, value(`${claimed.step.seq}`))));
        const { steps, run } = await bench.rows(runId);
        expect(steps.map((step) => step.kind)).toEqual(['llm', 'tool', 'tool', 'tool', 'tool', 'llm']);
        expect(run).toMatchObject({ openSteps: 1, stepsUsed: 6 });
      });
    });

    describe('at once', () => {
      it('siblings of a turn are recorded in any order and join once, each record repeated', async () => {
        const width = 8;
        const runIds = await Promise.all(Array.from({ length: 5 }, () => asking(...Array(width).fill(look))));
        await Promise.all(
          runIds.flatMap((runId) =>
            Array.from({ length: width }, async (_, index) => {
              const { token } = await bench.claim(runId, index + 2);
              await Promise.all([1, 2].map(() => bench.record(runId, index + 2, token, value(`result ${index}`))));
            }),
          ),
        );
        for (const runId of runIds) {
          const { run, steps, messages } = await bench.rows(runId);
          expect(run).toMatchObject({ openSteps: 1, stepsUsed: width + 2, status: 'running' });
          expect(steps.filter((step) => step.kind === 'llm' && step.status === 'pending')).toHaveLength(1);
          expect(messages.slice(2).map(({ message }) => message.content)).toEqual(
            Array.from({ length: width }, (_, index) => `result ${index}`),
          );
        }
      });

      it('two answers to one question: one wins, the other hears conflict', async () => {
        for (let round = 0; round < 5; round++) {
          const runId = await asking(pay);
          await bench.perform(runId, 2, happenedMaybe);
          await bench.perform(runId, 2, askOperator);
          const answer = (words: string) =>
            bench.change(runId, (draft) => resolveStep(draft, 2, { as: 'done', observation: text(words) }), {
              seqs: [2],
            });
          const settled = await Promise.allSettled([answer('one'), answer('two')]);
          const lost = settled.filter((result) => result.status === 'rejected');
          expect(lost).toHaveLength(1);
          expect(lost[0]?.reason).toMatchObject({ code: 'conflict' });
        }
      });

      it('a record and the loss of its claim: one of them, whole', async () => {
        await Promise.all(
          Array.from({ length: 10 }, async () => {
            const runId = await asking(look);
            const { token } = await bench.claim(runId, 2);
            const [recorded, released] = await Promise.all([
              bench.record(runId, 2, token, value('in time')),
              bench.change(runId, (draft) => releaseClaim(draft, 2, token, 'crash'), { seqs: [2] }),
            ]);
            expect(recorded.value.recorded).toBe(!released.value);
            expect((await bench.step(runId, 2)).status).toBe(released.value ? 'pending' : 'completed');
          }),
        );
      });
    });

    describe('a thread', () => {
      const started = async (more: Partial<NewRun> = {}) => {
        const run = newRun({ threadId: 'chat', ...more });
        const [accepted] = await bench.acceptAll([run]);
        if (accepted === undefined) throw new Error('not answered');
        return { id: run.id, accepted };
      };
      /** The runs whose turn it is, of the given ones. */
      const awaited = async (...ids: string[]) =>
        (await bench.watch.runsAwaitingThread(100)).filter((id) => ids.includes(id));
      const takeIt = (id: string) => bench.change(id, takeThread);

      it('is had by one run at a time; the others wait in order, and one is woken when it ends', async () => {
        const tenant = randomUUID();
        const first = await started({ tenant });
        const second = await started({ tenant });
        const third = await started({ tenant });
        const other = await started({ tenant: randomUUID() });
        expect(first.accepted).toMatchObject({ dispatches: [{ seq: 1, dispatch: 1 }] });
        expect(other.accepted).toMatchObject({ dispatches: [{ seq: 1 }] });
        expect(second.accepted).toMatchObject({ created: true, dispatches: [] });
        const waiting = await bench.rows(second.id);
        expect(waiting.run).toMatchObject({ status: 'suspended', holdsThread: false, suspendedSteps: 1 });
        expect(waiting.steps[0]).toMatchObject({
          status: 'suspended',
          waitingFor: 'slot',
          waitDetail: 'chat',
          dispatch: 0,
        });
        expect(waiting.eventTypes).toEqual(['run.created', 'step.suspended', 'run.suspended']);
        expect(await awaited(first.id, second.id, third.id, other.id)).toEqual([]);
        await expect(takeIt(third.id)).rejects.toMatchObject({ code: 'conflict' });
        await bench.perform(first.id, 1, says('hello'));
        expect((await bench.rows(first.id)).run).toMatchObject({ status: 'completed', holdsThread: false });
        expect(await awaited(first.id, second.id, third.id, other.id)).toEqual([second.id]);
        await takeIt(second.id);
        expect((await bench.rows(second.id)).run).toMatchObject({ status: 'pending', holdsThread: true });
        expect(await awaited(first.id, second.id, third.id, other.id)).toEqual([]);
        await bench.change(second.id, cancelRun);
        expect(await awaited(first.id, second.id, third.id, other.id)).toEqual([third.id]);
        await bench.change(third.id, pauseRun);
        expect(await awaited(first.id, second.id, third.id, other.id)).toEqual([]);
      });

      it('is had by one of many that are started at once', async () => {
        const tenant = randomUUID();
        const all = await Promise.all(Array.from({ length: 8 }, () => started({ tenant })));
        const [mine] = await bench.acceptAll([newRun({ threadId: 'chat', tenant })]);
        expect(mine).toMatchObject({ dispatches: [] });
        expect(all.filter(({ accepted }) => 'dispatches' in accepted && accepted.dispatches.length > 0)).toHaveLength(
          1,
        );
      });

      it('is not had by a run before it is due', async () => {
        const tenant = randomUUID();
        const later = await started({ tenant, delayMs: 60_000 });
        expect((await bench.rows(later.id)).run).toMatchObject({ status: 'suspended', holdsThread: false });
        expect(await awaited(later.id)).toEqual([]);
        await bench.world.pass(61_000);
        expect(await awaited(later.id)).toEqual([later.id]);
      });

      it('shows a run the last one before it that said anything, as that was shown it', async () => {
        const tenant = randomUUID();
        const first = await started({ tenant });
        expect(await bench.store.earlierInThread(first.id)).toBe(null);
        const window = { windowFrom: -1, digestBefore: -1 };
        const message = { role: 'user' as const, content: 'long ago' };
        const opening = [{ seq: -1, pos: 0, tokens: 2, message }];
        await bench.perform(first.id, 1, says('hello', { window, opening }));
        const second = await started({ tenant });
        await bench.change(second.id, cancelRun);
        const third = await started({ tenant });
        const earlier = await bench.store.earlierInThread(third.id);
        expect(earlier?.run).toMatchObject({ ...window, summarySeq: null });
        expect(earlier?.messages.map(({ seq, message }) => [seq, message.content])).toEqual([
          [-1, 'long ago'],
          [0, 'the task'],
          [1, 'hello'],
        ]);
      });

      it('lets a run that is redriven wait for its turn again', async () => {
        const tenant = randomUUID();
        const first = await started({ tenant });
        const second = await started({ tenant });
        await bench.perform(first.id, 1, llmFails({ class: 'terminal', reason: 'refused' }));
        await takeIt(second.id);
        await bench.change(first.id, (draft) => redriveRun(draft, 'command'), 'revivable');
        expect((await bench.rows(first.id)).run).toMatchObject({ status: 'suspended', holdsThread: false });
        await bench.perform(second.id, 1, says('done'));
        expect(await awaited(first.id, second.id)).toEqual([first.id]);
      });
    });

    describe('facts', () => {
      const said = (given: readonly Fact[], reader: FactReader) => ({
        ...value('done'),
        facts: readFacts(given, reader),
      });
      const finds = async (reader: FactReader, query: string, all = false) =>
        (await bench.store.recall(reader, { query, most: 5, all })).map(({ key, value }) => `${key}: ${value}`);

      /** A run of the tenant that says facts by its one call. */
      async function remembering(tenant: string, facts: readonly Fact[], threadId: string | null = null) {
        const reader = { tenant, agent: 'helper', threadId };
        const runId = await bench.start({ tenant, threadId });
        await bench.perform(runId, 1, asks(look));
        await bench.perform(runId, 2, said(facts, reader));
        expect((await bench.rows(runId)).eventTypes).toContain('step.remembered');
        await bench.perform(runId, 3, says('done'));
        return reader;
      }

      it('are found by their words, the newest value of a key, the most relevant first', async () => {
        const tenant = randomUUID();
        const reader = await remembering(tenant, [
          { key: 'boss', value: 'Ada decides about orders and invoices' },
          { key: 'city', value: 'the office is in Lyon' },
          { key: '付款方式', value: '客户希望每月用银行转账付款' },
        ]);
        await remembering(tenant, [{ key: 'boss', value: 'Grace decides about invoices' }]);
        expect(await finds(reader, 'Who decides about invoices?')).toEqual(['boss: Grace decides about invoices']);
        expect(await finds(reader, '客户怎么付款')).toEqual(['付款方式: 客户希望每月用银行转账付款']);
        expect(await finds(reader, 'bananas')).toEqual([]);
        expect(await finds(reader, "it's a \\ 'quoted' : & | ! (word)")).toEqual([]);
        expect(await finds(reader, '')).toEqual([]);
        expect((await finds(reader, 'invoices', true)).map((line) => line.split(':')[0])).toEqual([
          ...['boss', '付款方式', 'city'],
        ]);
      });

      it('are seen by those who share their scope, and by no other tenant', async () => {
        const tenant = randomUUID();
        const reader = await remembering(
          tenant,
          [
            { key: 'mine', value: 'an apple of the agent' },
            { key: 'ours', value: 'an apple of the tenant', scope: 'tenant' },
            { key: 'here', value: 'an apple of the thread', scope: 'thread' },
          ],
          'chat',
        );
        const keys = async (who: FactReader) =>
          (await bench.store.recall(who, { query: 'apple', most: 9, all: false })).map(({ key }) => key).sort();
        expect(await keys(reader)).toEqual(['here', 'mine', 'ours']);
        expect(await keys({ ...reader, threadId: null })).toEqual(['mine', 'ours']);
        expect(await keys({ ...reader, agent: 'other' })).toEqual(['here', 'ours']);
        expect(await keys({ ...reader, tenant: randomUUID() })).toEqual([]);
        expect(await keys({ ...reader, tenant: null })).toEqual([]);
      });
    });

    it('what a run began with is told whole, also what it is no longer shown', async () => {
      const runId = await bench.start();
      const brought = { seq: -1, pos: 0, tokens: 1, message: { role: 'user', content: 'before' } as const };
      const window = { windowFrom: -1, digestBefore: -1 };
      await bench.perform(runId, 1, { ...asks(look), window, opening: [brought] });
      await bench.perform(runId, 2, value('seen'));
      await bench.perform(runId, 3, { ...asks(look), window: { windowFrom: 3, digestBefore: 0 } });
      const told = await bench.store.openingMessages(runId);
      expect(told.map(({ seq, message }) => [seq, message.content])).toEqual([
        [-1, 'before'],
        [0, 'the task'],
      ]);
      expect(await bench.store.openingMessages('run_none')).toEqual([]);
    });

    it('facts keep the vectors of one model, and are given out with them to be ranked', async () => {
      const reader = { tenant: randomUUID(), agent: 'helper', threadId: null };
      const runId = await bench.start({ tenant: reader.tenant });
      await bench.perform(runId, 1, asks(look));
      const given = ['first apple', 'second', 'third apple pie'].map((text, n) => ({ key: `k${n}`, value: text }));
      const learnt = { ...value('done'), facts: readFacts(given, reader) };
      await bench.perform(runId, 2, learnt);
      await bench.perform(runId, 3, says('done'));
      const ranked = (model: string, most = 9) => bench.store.factsToRank(reader, { query: 'apple pie', model, most });
      const before = await ranked('m1');
      expect(before.map(({ fact }) => fact.key)).toEqual(['k2', 'k0', 'k1']);
      expect(before.map(({ relevance }) => relevance > 0)).toEqual([true, true, false]);
      expect(before.every(({ vector }) => vector === null)).toBe(true);
      expect(await ranked('m1', 1)).toHaveLength(1);
      const vector = Float32Array.from([0.25, -1.5e-8, 3e8, 1 / 3]);
      const [{ id = -1 } = {}, , last] = before;
      await bench.store.keepVectors('m1', [
        { id, vector },
        { id: last?.id ?? -1, vector: Float32Array.from([1]) },
      ]);
      expect((await ranked('m1')).map((found) => found.vector)).toEqual([vector, null, Float32Array.from([1])]);
      await bench.store.keepVectors('m2', [{ id, vector }]);
      expect((await ranked('m1'))[0]?.vector).toBeNull();
      expect((await ranked('m2'))[0]?.vector).toEqual(vector);
      expect(
        await bench.store.factsToRank({ ...reader, tenant: null }, { query: 'apple', model: 'm2', most: 9 }),
      ).toEqual([]);
    });

    describe('createRuns', () => {
      it('accepts a run with its first step, and dispatches it', async () => {
        const made = await bench.accept({
          id: `run_${randomUUID()}`,
          agent: 'helper',
          input: { customer: 7 },
          key: null,
          tenant: 'acme',
          threadId: null,
          tags: { team: 'sales' },
          model: 'other-model',
          delayMs: 0,
          limits: { maxSteps: 7, onLimit: 'fail' },
        });
        expect(made).toMatchObject({
          created: true,
          dispatches: [{ queue: 'llm', runId: made.id, seq: 1, dispatch: 1 }],
        });
        const { run, steps, messages, eventTypes } = await bench.rows(made.id);
        expect(run).toMatchObject({ status: 'pending', agentVersion: null, tenant: 'acme', model: 'other-model' });
        expect(run.limits).toEqual({ ...listing.limits, maxSteps: 7, onLimit: 'fail' });
        expect(run.deadlineAt).toBe(null);
        expect(steps).toMatchObject([
          { kind: 'llm', name: 'other-model', maxAttempts: 4, timeoutMs: 120_000, dispatch: 1 },
        ]);
        expect(messages).toMatchObject([{ seq: 0, pos: 0, tokens: null, message: { content: '{"customer":7}' } }]);
        expect(eventTypes).toEqual(['run.created']);
      });

      it('counts the deadline from acceptance', async () => {
        const { run } = await bench.rows(await bench.start({ limits: { deadlineMs: 5_000 } }));
        expect((run.deadlineAt?.getTime() ?? 0) - run.createdAt.getTime()).toBe(5_000);
      });

      it('does not dispatch a run that starts later, be it in two months', async () => {
        const delayMs = 60 * 86_400_000;
        const made = await bench.accept(newRun({ delayMs }));
        expect(made.dispatches).toEqual([]);
        const { run, steps } = await bench.rows(made.id);
        expect((steps[0]?.dueAt.getTime() ?? 0) - run.createdAt.getTime()).toBe(delayMs);
      });

      it('refuses an agent nobody has registered', async () => {
        await expect(bench.start({ agent: 'nobody' })).rejects.toMatchObject({ code: 'unknown_agent' });
      });

      it('takes the newest version of the agent that a live worker serves, or of none served the newest', async () => {
        const name = `changing_${randomUUID()}`;
        const version = (v: string, maxSteps: number) => {
          return { ...listing, name, version: v, limits: { ...listing.limits, maxSteps } };
        };
        const maxSteps = async () => (await bench.rows(await bench.start({ agent: name }))).run.limits.maxSteps;
        const old = await bench.register([version('v1', 10)]);
        expect(await maxSteps()).toBe(10);
        await bench.world.pass(1_000);
        const fresh = await bench.register([version('v2', 20)]);
        expect(await maxSteps()).toBe(20);
        await bench.world.pass(1_000);
        // A restart of the old version during a deploy does not make it the newest.
        const again = await bench.register([version('v1', 30)]);
        expect(await maxSteps()).toBe(20);
        await fresh.heart.stop(2_000);
        expect(await maxSteps()).toBe(30);
        for (const { heart } of [old, again]) await heart.stop(2_000);
        expect(await maxSteps()).toBe(20);
      });

      it('returns the run that has the key, for the same input only', async () => {
        const key = randomUUID();
        const id = await bench.start({ key, input: { a: 1 } });
        expect(await bench.start({ key, input: { a: 1 } })).toBe(id);
        await expect(bench.start({ key, input: { a: 2 } })).rejects.toMatchObject({
          code: 'key_conflict',
          message: expect.stringContaining(id),
        });
        expect(await bench.start({ key, input: { a: 2 }, tenant: 'acme' })).not.toBe(id);
        await bench.change(id, cancelRun);
        expect(await bench.start({ key, input: { a: 1 } })).toBe(id);
      });

      it('accepts many in one call, and answers for each in the order given', async () => {
        const key = randomUUID();
        const held = await bench.start({ key, input: 'mine' });
        const many = ['a', 'b', 'c', 'd', 'e', 'f'].map((input) => newRun({ input }));
        const [, second, third, fourth, fifth, sixth] = many;
        Object.assign(second ?? {}, { key, input: 'mine' });
        Object.assign(third ?? {}, { key });
        Object.assign(fourth ?? {}, { agent: 'nobody' });
        Object.assign(fifth ?? {}, { key: `${key}-2`, delayMs: 60_000 });
        Object.assign(sixth ?? {}, { key: `${key}-2` });
        const answers = await bench.acceptAll(many);
        expect(answers).toMatchObject([
          { id: many[0]?.id, created: true, dispatches: [{ queue: 'llm', runId: many[0]?.id, seq: 1, dispatch: 1 }] },
          { id: held, created: false, dispatches: [] },
          { refused: { code: 'key_conflict', message: expect.stringContaining(held) } },
          { refused: { code: 'unknown_agent' } },
          { id: fifth?.id, created: true, dispatches: [] },
          { refused: { code: 'key_conflict', message: expect.stringContaining(fifth?.id ?? '') } },
        ]);
        const { messages, steps, eventTypes } = await bench.rows(many[0]?.id ?? '');
        expect(messages.map(({ message }) => message.content)).toEqual(['a']);
        expect(steps).toHaveLength(1);
        expect(eventTypes).toEqual(['run.created']);
      });

      it('accepts each of many once when two callers bring them at once, in opposite order', async () => {
        const prefix = randomUUID();
        const bring = () => Array.from({ length: 100 }, (_, n) => newRun({ input: `n ${n}`, key: `${prefix}-${n}` }));
        const answers = await Promise.all([bench.acceptAll(bring()), bench.acceptAll(bring().reverse())]);
        const ids = answers.flat().map((one) => ('id' in one ? one.id : null));
        expect(new Set(ids).size).toBe(100);
        expect(answers.flat().filter((one) => 'id' in one && one.created)).toHaveLength(100);
      });

      it('answers nothing for no runs', async () => {
        expect(await bench.store.createRuns([])).toEqual([]);
      });

      it('accepts one run of many with the same key at once', async () => {
        const key = randomUUID();
        const ids = await Promise.all(Array.from({ length: 10 }, () => bench.start({ key })));
        expect(new Set(ids).size).toBe(1);
        expect(bench.runIds.filter((id) => id === ids[0])).toHaveLength(1);
      });
    });

    it('notes on an attempt that lost its claim what came back late and what it cost, once, and counts it nowhere else', async () => {
      const runId = await bench.start();
      const { token, run: claimed } = await bench.claim(runId, 1);
      await bench.store.noteLate(token, 'still on the step: there is no attempt yet');
      await bench.change(runId, (draft) => releaseClaim(draft, 1, token, 'crash'));
      await bench.store.noteLate(token, 'returned late: reply', usage);
      await bench.store.noteLate(token, 'again', { ...usage, inputTokens: 7 });
      await bench.store.noteLate(randomUUID(), 'of nobody');
      const { attempts, run } = await bench.rows(runId);
      expect(attempts).toMatchObject([{ token, lateNote: 'returned late: reply', usage }]);
      expect(run.usage).toMatchObject({ ...claimed.reserve, estimated: true });
      expect(claimed.reserve).toMatchObject({ inputTokens: 62, outputTokens: 20 });
    });

    it('knows the once calls of a run that failed or are unknown, and no others', async () => {
      const named = (n: number, more = {}) => call('pay', { effect: 'once', arguments: `{"n":${n}}`, ...more });
      const calls = [named(1), named(2), named(3), named(4), call('look', { arguments: '{"n":5}' })];
      const runId = await asking(...calls);
      await bench.perform(runId, 2, value('paid'));
      await bench.perform(runId, 3, fails({ code: 'permission_denied', retry: false }));
      await bench.perform(runId, 4, happenedMaybe);
      await bench.perform(runId, 6, fails({ retry: false }));
      const hashes = calls.map((each) => each.callHash);
      const unsettled = await bench.store.unsettledOnce(runId, hashes);
      expect([...unsettled].sort((a, b) => a[1] - b[1])).toEqual([
        [hashes[1], 3],
        [hashes[2], 4],
      ]);
      expect(await bench.store.unsettledOnce(runId, [])).toEqual(new Map());
      expect(await bench.store.unsettledOnce(await asking(named(2)), hashes)).toEqual(new Map());
    });

    it('tells what the calls of a run came to, whole and in order, of very many characters the newest', async () => {
      const runId = await asking(call('a', { arguments: '{"n":1}' }), call('b'), call('c'));
      await bench.perform(runId, 3, fails({ code: 'threw', retry: false }));
      await bench.perform(runId, 2, { kind: 'tool_value', value: { text: 'long…', tokens: 2, full: 'long 😀 text' } });
      const a = { name: 'a', arguments: '{"n":1}', text: 'long 😀 text', error: null };
      const [first, second] = await bench.store.toolResults(runId, 1_000);
      expect(first).toEqual(a);
      expect(second).toMatchObject({ name: 'b', error: 'threw' });
      expect(await bench.store.toolResults(runId, 1_000)).toHaveLength(2);
      const length = [...(second?.text ?? '')].length;
      expect(await bench.store.toolResults(runId, length + 10)).toEqual([second]);
      expect(await bench.store.toolResults(runId, length + 11)).toEqual([a, second]);
      expect(await bench.store.toolResults(runId, 1)).toEqual([]);
    });

    it('reads a page of an output by characters, of the whole where the step holds a part', async () => {
      const runId = await asking(call('a'), call('b'));
      await bench.perform(runId, 2, { kind: 'tool_value', value: { text: 'x…', tokens: 2, full: 'ab😀cd' } });
      const read = (step: number, offset: number, limit: number) =>
        bench.store.readOutput(runId, { step, offset, limit });
      expect(await read(2, 0, 3)).toEqual({ name: 'a', text: 'ab😀', total: 5 });
      expect(await read(2, 3, 100)).toEqual({ name: 'a', text: 'cd', total: 5 });
      expect(await read(2, 5, 1)).toEqual({ name: 'a', text: '', total: 5 });
      expect(await read(3, 0, 9)).toBeNull();
      expect(await read(1, 0, 9)).toBeNull();
      await bench.perform(runId, 3, { kind: 'tool_value', value: { text: 'short', tokens: 1, full: null } });
      expect(await read(3, 1, 3)).toEqual({ name: 'b', text: 'hor', total: 5 });
    });

    it('keeps results of tools for a time, the last one of each key', async () => {
      const key = `key-${randomUUID()}`;
      expect(await bench.store.keptResult(key)).toBeNull();
      await bench.store.keepResult(key, 'a 😀', 60_000);
      expect(await bench.store.keptResult(key)).toBe('a 😀');
      await bench.store.keepResult(key, 'b', 60_000);
      expect(await bench.store.keptResult(key)).toBe('b');
      await bench.store.keepResult(key, 'b', -1);
      expect(await bench.store.keptResult(key)).toBeNull();
      expect(await bench.watch.sweepResults(10)).toBe(1);
      expect(await bench.watch.sweepResults(10)).toBe(0);
    });

    it('brings the withdrawn tools along with every claim, also where it knows the run already', async () => {
      const runId = await asking(call('a'), call('b'));
      expect((await bench.claim(runId, 2)).stops).toEqual([]);
      const [everywhere, there] = [
        { tool: 'b', agent: null },
        { tool: 'a', agent: 'helper' },
      ];
      expect(await bench.store.stopTool(everywhere)).toBe(true);
      expect(await bench.store.stopTool(everywhere)).toBe(false);
      expect(await bench.store.stopTool(there)).toBe(true);
      const { stops } = await bench.claim(runId, 3);
      const sorted = [...stops].sort((one, two) => two.tool.localeCompare(one.tool));
      expect(sorted).toEqual([everywhere, there].map((stop) => ({ ...stop, isOut: false })));
      expect(await bench.store.allowTool({ tool: 'a', agent: 'other' })).toBe(false);
      expect(await bench.store.allowTool(there)).toBe(true);
      expect(await bench.store.stopTool({ tool: 'b', agent: 'helper' })).toBe(true);
      expect(await bench.store.allowTool({ tool: 'b', agent: null })).toBe(true);
      expect((await bench.claim(await bench.start(), 1)).stops).toEqual([]);
    });

    it('finds an outage across runs, brings it along with claims, and lets one trial through', async () => {
      const tool = `t-${randomUUID()}`;
      const rule = { failures: 3, windowMs: 60_000, trialMs: 1 };
      const fail = (runId: string) => bench.store.noteToolFailure({ agent: 'helper', tool, runId, calls: 1, rule });
      expect(await bench.store.tryTool('helper', tool, rule)).toBe(true);
      expect([await fail('1'), await fail('2'), await fail('3'), await fail('4')]).toEqual([false, false, true, false]);
      const stopsNow = async () => (await bench.claim(await bench.start(), 1)).stops;
      expect(await stopsNow()).toEqual([{ tool, agent: 'helper', isOut: true }]);
      const slow = { ...rule, trialMs: 60_000 };
      await bench.until(() => bench.store.tryTool('helper', tool, rule));
      await bench.until(() => bench.store.tryTool('helper', tool, slow));
      expect(await bench.store.tryTool('helper', tool, slow)).toBe(false);
      await bench.store.endOutage('helper', tool);
      expect(await stopsNow()).toEqual([]);
      await Promise.all(['1', '2', '3'].map(fail));
      expect(await stopsNow()).toHaveLength(1);
      await bench.store.allowTool({ tool, agent: null });
      expect(await stopsNow()).toEqual([]);
    });
  });
}
