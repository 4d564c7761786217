/** What a verify may do that no run in a town can: take its time, by a timer of its own. */
import { expect, it, vi } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import { Call } from '../../src/engine/calls.js';
import { type Judgement, verifyAnswer } from '../../src/engine/verify-answer.js';
import { Scenario } from '../support/scenario.js';

function performance(verify: () => Promise<undefined>, timeoutMs: number) {
  const scenario = new Scenario();
  scenario.claim(1);
  const call = new Call('token', 0, null, () => 0);
  call.begin({ ...scenario.step(1), timeoutMs });
  const agent = defineAgent({ name: 'helper', instructions: 'Help.', verify });
  const claim = { messages: scenario.rows.messages, run: scenario.run };
  return { call, it: { agent, claim, call, toolResults: async () => [] } as unknown as Judgement };
}

const hangs = () => new Promise<undefined>(() => {});

it.each([
  [20_000, 20_000],
  [120_000, 30_000],
  [0, 5_000],
])(
  'a verify that never answers, with %i ms left of its step, leaves the answer unjudged after %i',
  async (left, ms) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const verdict = verifyAnswer(performance(hangs, left).it, 'a', null);
      await vi.advanceTimersByTimeAsync(ms);
      expect(await verdict).toMatchObject({
        is: 'unknown',
        failure: { class: 'retryable', code: 'unverified', message: `verify did not answer within ${ms} ms` },
      });
    } finally {
      vi.useRealTimers();
    }
  },
);

it('a verify is left behind when its claim is lost', async () => {
  const { call, it: performed } = performance(hangs, 10_000);
  const verdict = verifyAnswer(performed, 'a', null);
  await Promise.resolve();
  setImmediate(() => call.abort('lost'));
  expect(await verdict).toEqual({ is: 'aborted' });
});
