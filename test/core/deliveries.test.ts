/** What a delivery may claim, what becomes of the refused ones, and how a dead step answers Retry in a dashboard. */
import { describe, expect, it } from 'vitest';
import { cancelRun, pauseRun, resumeRun } from '../../src/core/commands.js';
import { recordOutcome } from '../../src/core/record.js';
import { answerDeadDelivery, deferStep, putOffSuspect, wakeServed } from '../../src/core/recover.js';
import { afterAsking, call, llmFails, Scenario, says, value } from '../support/scenario.js';

const look = call('look');

describe('a delivery', () => {
  it('claims once: a second one is refused, the same token claims again', () => {
    const scenario = new Scenario();
    const token = scenario.claim(1);
    expect(scenario.tryClaim(1)).toEqual({ refusal: 'claimed' });
    scenario.pass(1_000);
    expect(scenario.tryClaim(1, { token })).toEqual({ token });
    expect(scenario.step(1)).toMatchObject({ attempt: 1, claim: { startedAt: scenario.now } });
    expect(scenario.eventTypes.filter((type) => type === 'run.started')).toHaveLength(1);
  });

  it.each([
    ['of an old dispatch', (scenario: Scenario) => scenario.lose(1, 'dropped'), { dispatch: 1 }, 'stale'],
    ['of a dispatch to come', () => {}, { dispatch: 2 }, 'stale'],
    ['for a step that is done', (scenario: Scenario) => scenario.perform(1, says('x')), {}, 'done'],
    ['for a suspended step', (scenario: Scenario) => scenario.change(pauseRun), {}, 'suspended'],
    ['for another agent', () => {}, { serves: new Map([['other', 'v1']]) }, 'not_served'],
    [
      'for a suspect, with the slot taken',
      (scenario: Scenario) => scenario.lose(1, 'crash'),
      { takesSuspect: false },
      'suspect_slot',
    ],
  ] as const)('%s is refused', (_, given, request, refusal) => {
    const scenario = new Scenario();
    given(scenario);
    expect(scenario.tryClaim(1, request)).toEqual({ refusal });
  });

  it('pins the run to the version of the first claim', () => {
    const scenario = afterAsking([look]);
    expect(scenario.tryClaim(2, { serves: new Map([['helper', 'v2']]) })).toEqual({ refusal: 'not_served' });
    expect(scenario.tryClaim(2)).toHaveProperty('token');
  });

  it('of the same token finds nothing behind a cancel', () => {
    const scenario = new Scenario();
    const token = scenario.claim(1);
    scenario.change(cancelRun);
    expect(scenario.tryClaim(1, { token })).toEqual({ refusal: 'claimed' });
  });
});

describe('a step not served here', () => {
  const defer = (scenario: Scenario, isServed = true) =>
    scenario.change((draft) => deferStep(draft, 1, scenario.step(1).dispatch, isServed));

  it('is put off by 1 s, doubling to 5 s', () => {
    const scenario = new Scenario();
    const delays = Array.from({ length: 9 }, () => {
      scenario.now = scenario.step(1).dueAt;
      defer(scenario);
      return scenario.step(1).dueAt.getTime() - scenario.now.getTime();
    });
    expect(delays).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000]);
    expect(scenario.step(1)).toMatchObject({ dispatch: 1, attempt: 0, claims: 0 });
  });

  it('waits for a worker when none alive is able, and goes on when one registers', () => {
    const scenario = new Scenario();
    defer(scenario);
    scenario.now = scenario.step(1).dueAt;
    defer(scenario, false);
    expect(scenario.step(1)).toMatchObject({ status: 'suspended', waitingFor: 'worker', waitDetail: 'helper' });
    expect(scenario.run.status).toBe('suspended');
    scenario.change(wakeServed);
    expect(scenario.step(1)).toMatchObject({ status: 'pending', deferrals: 0, dispatch: 2 });
    expect(scenario.dispatches).toHaveLength(1);
    expect(scenario.run.status).toBe('pending');
  });

  it('is left alone when it moved meanwhile', () => {
    const scenario = new Scenario();
    scenario.change((draft) => deferStep(draft, 1, 7, false));
    scenario.change((draft) => deferStep(draft, 9, 1, false));
    const token = scenario.claim(1);
    scenario.change((draft) => deferStep(draft, 1, 1, false));
    expect(scenario.step(1)).toMatchObject({ status: 'running', claim: { token }, deferrals: 0 });
  });

  it('of a paused run goes on only when the run does', () => {
    const scenario = new Scenario();
    defer(scenario, false);
    scenario.change(pauseRun);
    scenario.change(wakeServed);
    expect(scenario.statuses).toEqual(['suspended:operator']);
    scenario.change((draft) => resumeRun(draft, {}));
    expect(scenario.statuses).toEqual(['pending']);
  });
});

it('puts a suspect step off by 2 s where the process is busy with another', () => {
  const scenario = new Scenario();
  scenario.lose(1, 'crash');
  scenario.change((draft) => putOffSuspect(draft, 1, 2));
  expect(scenario.step(1).dueAt.getTime()).toBe(scenario.now.getTime() + 2_000);
  scenario.change((draft) => putOffSuspect(draft, 1, 1));
  expect(scenario.step(1).dueAt.getTime()).toBe(scenario.now.getTime() + 2_000);
  expect(scenario.tryClaim(1, { takesSuspect: true })).toEqual({ refusal: 'not_due' });
});

describe('a delivery for a dead step', () => {
  const deliver = (scenario: Scenario, attemptsMade: number, dispatch = scenario.step(1).dispatch) =>
    scenario.change((draft) => answerDeadDelivery(draft, { seq: 1, dispatch, attemptsMade }), 'revivable');

  /** Dead at its second attempt: the queue had counted one failure when the death was recorded. */
  function dead(): Scenario {
    const scenario = new Scenario({ llmAttempts: 2 });
    scenario.perform(1, llmFails(), 0);
    scenario.perform(1, llmFails(), 1);
    return scenario;
  }

  it('that the queue repeats after a crash, before the failure was counted, is failed again', () => {
    const scenario = dead();
    expect(deliver(scenario, 1)).toEqual({ redriven: false, note: 'server_error: HTTP 500' });
    expect(scenario.run.status).toBe('failed');
  });

  it('that an operator retried has one more failure counted, and redrives the run', () => {
    const scenario = dead();
    expect(deliver(scenario, 2)).toEqual({ redriven: true, note: 'redriven' });
    expect(scenario.step(1)).toMatchObject({ status: 'pending', dispatch: 2, failures: 0 });
    expect(scenario.dispatches).toEqual([{ queue: 'llm', runId: 'run_1', seq: 1, dispatch: 2 }]);
    expect(scenario.rows.events.find((event) => event.type === 'run.redriven')?.data).toMatchObject({
      by: 'dashboard',
    });
  });

  it('whose count was reset is failed again, and a Retry after that redrives', () => {
    const scenario = dead();
    expect(deliver(scenario, 0).redriven).toBe(false);
    expect(scenario.step(1).shownAttempts).toBe(0);
    expect(deliver(scenario, 1).redriven).toBe(true);
  });

  it('of an older dispatch is failed again, and counts for nothing', () => {
    const scenario = new Scenario();
    scenario.kill(1);
    const { dispatch } = scenario.step(1);
    expect(deliver(scenario, 0, dispatch).redriven).toBe(false);
    expect(deliver(scenario, 9, dispatch - 1).redriven).toBe(false);
    expect(scenario.step(1).shownAttempts).toBe(0);
    expect(deliver(scenario, 1, dispatch).redriven).toBe(true);
  });

  it('that shows a death outside a worker for the first time is never taken for a Retry', () => {
    const scenario = new Scenario();
    scenario.kill(1);
    expect(scenario.step(1).shownAttempts).toBe(null);
    expect(deliver(scenario, 5).redriven).toBe(false);
    expect(scenario.step(1).shownAttempts).toBe(5);
  });

  it('of a run that is still ending, or was cancelled, is failed again', () => {
    const scenario = afterAsking([look, look]);
    const flying = scenario.claim(3);
    scenario.kill(2);
    const delivery = { seq: 2, dispatch: scenario.step(2).dispatch };
    const deliver = (attemptsMade: number) =>
      scenario.change((draft) => answerDeadDelivery(draft, { ...delivery, attemptsMade }), 'revivable');
    deliver(0);
    expect(deliver(1).redriven).toBe(false);
    scenario.change(cancelRun);
    scenario.record(3, flying, value('b'));
    expect(deliver(2).redriven).toBe(false);
    expect(scenario.run.status).toBe('cancelled');
  });

  it('that is not dead any more says so', () => {
    const scenario = new Scenario();
    expect(deliver(scenario, 3)).toEqual({ redriven: false, note: 'no longer dead' });
  });
});

describe('a claim that was lost with the memory of the server', () => {
  function afterTheLoss() {
    const scenario = new Scenario();
    const before = scenario.step(1);
    scenario.claim(1);
    const claimed = scenario.step(1);
    scenario.rows.steps.set(1, before);
    const record = () =>
      scenario.change(
        (draft) => recordOutcome(draft, { seq: 1, token: 'token-1', outcome: says('done'), attemptsMade: 0, claimed }),
        { seqs: [1] },
        'token-1',
      );
    return { scenario, record };
  }

  it('is made again by its record', () => {
    const { scenario, record } = afterTheLoss();
    expect(record()).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.step(1)).toMatchObject({ status: 'completed', attempt: 1, claim: { token: 'token-1' } });
  });

  it.each([
    ['another worker has claimed the step', (scenario: Scenario) => scenario.claim(1)],
    ['the step was dispatched anew', (scenario: Scenario) => scenario.lose(1, 'dropped')],
    ['the run was paused', (scenario: Scenario) => scenario.change(pauseRun)],
    ['the run was cancelled', (scenario: Scenario) => scenario.change(cancelRun)],
  ])('stays lost where %s', (_, meanwhile) => {
    const { scenario, record } = afterTheLoss();
    meanwhile(scenario);
    expect(record()).toEqual({ recorded: false });
  });
});
