/** What a verify may do that no run in a town can: take its time, by a real timer. */
import { expect, it } from 'vitest';
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
  const claim = { messages: scenario.rows.messages };
  return { call, it: { agent, claim, call, toolResults: async () => [] } as unknown as Judgement };
}

const hangs = () => new Promise<undefined>(() => {});

it('a verify that never answers leaves the answer unjudged at the deadline of its step', async () => {
  expect(await verifyAnswer(performance(hangs, 20).it, 'a')).toMatchObject({
    is: 'unknown',
    failure: { class: 'retryable', code: 'unverified', message: 'verify did not answer within 20 ms' },
  });
  expect(await verifyAnswer(performance(hangs, 0).it, 'a')).toMatchObject({
    failure: { message: 'the model took all the time there was for verify, too' },
  });
});

it('a verify is left behind when its claim is lost', async () => {
  const { call, it: performed } = performance(hangs, 10_000);
  const verdict = verifyAnswer(performed, 'a');
  await Promise.resolve();
  setImmediate(() => call.abort('lost'));
  expect(await verdict).toEqual({ is: 'aborted' });
});
