/** A `once` call that may have happened: its fate is asked for, shown and settled, and never guessed (I6). */
import { describe, expect, it } from 'vitest';
import { cancelRun, pauseRun, redriveRun, resolveStep, resumeRun } from '../../src/core/commands.js';
import { meetDeadline } from '../../src/core/recover.js';
import {
  aborted,
  afterAsking,
  askOperator,
  call,
  fails,
  happenedMaybe,
  refusalOf,
  type Scenario,
  says,
  tellModel,
  text,
  value,
} from '../support/scenario.js';

const pay = call('pay', { effect: 'once', timeoutMs: 30_000 });

/** A run whose only call, step 2, may have happened. */
function unknown(): Scenario {
  const scenario = afterAsking([pay]);
  scenario.perform(2, happenedMaybe);
  return scenario;
}

/** The same, waiting for an operator. */
function asking(): Scenario {
  const scenario = unknown();
  scenario.perform(2, askOperator);
  return scenario;
}

describe('a once call', () => {
  it('that returns is completed, and that vouches to have done nothing is told to the model', () => {
    const scenario = afterAsking([pay, pay]);
    scenario.perform(2, value('paid'));
    expect(scenario.perform(3, fails({ code: 'not_started' }))).toMatchObject({ ended: 'completed' });
    expect(scenario.step(3)).toMatchObject({ status: 'completed', unknown: false, error: { code: 'not_started' } });
  });

  it('that throws is not tried again: its attempt is archived, and the next claim asks for its fate', () => {
    const scenario = unknown();
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true, attempt: 1, failures: 0, crashes: 0 });
    expect(scenario.rows.attempts).toMatchObject([{ seq: 2, endedBy: 'unknown', recorded: true }]);
    expect(scenario.eventTypes).toContain('step.unknown');
    scenario.claim(2);
    // Asking is no attempt of the call.
    expect(scenario.step(2)).toMatchObject({ status: 'running', unknown: true, attempt: 1 });
  });

  it.each([
    ['aborted at shutdown', (scenario: Scenario) => scenario.perform(2, aborted('shutdown'))],
    ['lost in a crash', (scenario: Scenario) => scenario.lose(2, 'crash')],
    ['dropped by its worker', (scenario: Scenario) => scenario.lose(2, 'dropped')],
  ])('%s is asked about only when its claim’s deadline has passed: it may still be under way', (_, lose) => {
    const scenario = afterAsking([pay]);
    const claimedAt = scenario.now;
    lose(scenario);
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true, suspect: false, claims: 0 });
    expect(scenario.step(2).dueAt.getTime()).toBe(claimedAt.getTime() + 30_000);
    expect(scenario.dispatches).toEqual([]);
    scenario.pass(29_000);
    expect(scenario.tryClaim(2)).toEqual({ refusal: 'not_due' });
  });

  it('lost in a crash keeps that deadline through a pause', () => {
    const scenario = afterAsking([pay]);
    scenario.claim(2);
    scenario.change(pauseRun);
    scenario.release(2, 'crash');
    scenario.change((draft) => resumeRun(draft, {}));
    expect(scenario.tryClaim(2)).toEqual({ refusal: 'not_due' });
  });

  it('aborted before it began goes back like any other', () => {
    const scenario = afterAsking([pay]);
    expect(scenario.perform(2, aborted('shutdown', false))).toMatchObject({ ended: 'again' });
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: false, claims: 1, dueAt: scenario.now });
  });

  it('overdue is asked about at once', () => {
    const scenario = afterAsking([pay]);
    scenario.claim(2);
    scenario.pass(45_000);
    scenario.release(2, 'overdue');
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true });
    expect(scenario.dispatches.map(({ seq }) => seq)).toEqual([2]);
  });
});

describe('the question about its fate', () => {
  it('told to the model completes the step', () => {
    const scenario = unknown();
    scenario.perform(2, tellModel);
    expect(scenario.step(2)).toMatchObject({ status: 'completed', unknown: false, error: { code: 'unknown_outcome' } });
    expect(scenario.history.at(-1)).toBe('tool: nobody knows whether it happened');
  });

  it('answered by the tool’s own onUnknown completes the step', () => {
    const scenario = unknown();
    scenario.perform(2, value('it did happen'));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', unknown: false, error: null });
  });

  it('put to an operator suspends the step and, when nothing else moves, the run', () => {
    const scenario = asking();
    expect(scenario.statuses).toEqual(['completed', 'suspended:outcome']);
    expect(scenario.run.status).toBe('suspended');
  });

  it.each([
    ['the worker that asked died', 'crash'],
    ['the worker dropped it', 'dropped'],
    ['the answer took too long', 'overdue'],
  ] as const)('is asked again when %s; the call is not told as failed', (_, death) => {
    const scenario = unknown();
    scenario.lose(2, death);
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true, failures: 0 });
    expect(scenario.history.at(-1)).toBe('assistant: pay');
  });

  it('that cannot be asked any more goes to an operator: the new version of the agent has no such tool', () => {
    const scenario = unknown();
    scenario.perform(2, fails({ code: 'unknown_tool', retry: false }));
    expect(scenario.statuses).toEqual(['completed', 'suspended:outcome']);
  });

  it('is handed back and asked again when its worker shuts down', () => {
    const scenario = unknown();
    expect(scenario.perform(2, aborted('shutdown', false))).toMatchObject({ ended: 'again' });
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true, claims: 1 });
  });

  it('that kills its worker again and again is a crash loop, and its fate stays unknown', () => {
    const scenario = unknown();
    scenario.kill(2);
    expect(scenario.step(2)).toMatchObject({ status: 'dead', unknown: true });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
  });
});

describe('an operator’s answer', () => {
  it.each([
    ['done', null],
    ['failed', { code: 'resolved_failed' }],
  ] as const)('%s completes the step with the words given', (as, error) => {
    const scenario = asking();
    scenario.change((draft) => resolveStep(draft, 2, { as, observation: text('see invoice 7') }));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', unknown: false });
    expect(scenario.step(2).error).toEqual(error === null ? null : expect.objectContaining(error));
    expect(scenario.history.at(-1)).toBe('tool: see invoice 7');
    expect(scenario.run.status).toBe('running');
  });

  it('rerun is the explicit "did not happen": an event, and the call runs anew with its key', () => {
    const scenario = asking();
    const key = scenario.step(2).idempotencyKey;
    scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' }));
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: false, idempotencyKey: key });
    expect(scenario.eventTypes).toContain('step.did_not_happen');
    scenario.perform(2, value('paid'));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', attempt: 2 });
  });

  it('wins once: the second hears conflict', () => {
    const scenario = asking();
    scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' }));
    const second = () => scenario.change((draft) => resolveStep(draft, 2, { as: 'done', observation: text('paid') }));
    expect(refusalOf(second)).toBe('conflict');
  });
});

describe('when the run ends first', () => {
  it.each([
    ['nobody had asked yet', unknown],
    ['an operator was asked', asking],
  ])('the step is dead, its fate unknown, and shown in the queue: %s', (_, made) => {
    const scenario = made();
    scenario.change(cancelRun);
    expect(scenario.step(2)).toMatchObject({ status: 'dead', unknown: true, error: { code: 'unknown_outcome' } });
    expect(scenario.run).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
    expect(scenario.eventTypes).toContain('step.dead');
    expect(scenario.dispatches.map(({ seq }) => seq)).toEqual([2]);
  });

  it('a call in flight is not aborted: what it returns is kept', () => {
    const scenario = afterAsking([pay]);
    const token = scenario.claim(2);
    scenario.change(cancelRun);
    expect(scenario.run.status).toBe('running');
    scenario.record(2, token, value('paid'));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', output: 'paid' });
    expect(scenario.run.status).toBe('cancelled');
  });

  it.each([
    ['throws', happenedMaybe],
    ['is cut off', aborted('shutdown')],
  ] as const)('a call in flight that %s is dead with its fate unknown', (_, outcome) => {
    const scenario = afterAsking([pay]);
    const token = scenario.claim(2);
    scenario.change(cancelRun);
    const first = scenario.record(2, token, outcome, 0);
    expect(first).toMatchObject({ recorded: true, ended: 'dead' });
    expect(scenario.step(2)).toMatchObject({ status: 'dead', unknown: true, shownAttempts: 0 });
    expect(scenario.run.status).toBe('cancelled');
    // The reply of the record may be lost: its repetition ends the job in the same way.
    expect(scenario.record(2, token, outcome, 0)).toMatchObject({ recorded: true, ended: 'dead' });
  });

  it('a call in flight whose worker dies is dead with its fate unknown', () => {
    const scenario = afterAsking([pay]);
    scenario.claim(2);
    scenario.change(cancelRun);
    scenario.release(2, 'crash');
    expect(scenario.step(2)).toMatchObject({ status: 'dead', unknown: true, shownAttempts: null });
    expect(scenario.run.status).toBe('cancelled');
    expect(scenario.eventTypes.filter((type) => type === 'step.unknown')).toHaveLength(1);
  });

  it('a question in flight is settled by its answer, or dead without one', () => {
    for (const [outcome, status] of [
      [tellModel, 'completed'],
      [value('it did'), 'completed'],
      [askOperator, 'dead'],
      [fails({ retry: false }), 'dead'],
      [aborted('ending', false), 'dead'],
    ] as const) {
      const scenario = unknown();
      const token = scenario.claim(2);
      scenario.change(cancelRun);
      scenario.record(2, token, outcome);
      expect(scenario.step(2).status).toBe(status);
      expect(scenario.run.status).toBe('cancelled');
    }
  });

  it('an answer that cannot be stored still says that the call happened', () => {
    const scenario = afterAsking([pay, call('look', { maxAttempts: 1 })]);
    const paying = scenario.claim(2);
    scenario.kill(3);
    expect(scenario.run.endingAs).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    scenario.record(2, paying, { kind: 'unstorable', message: 'no' });
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    // It does not come back as a call that has not run.
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending']);
  });

  it('a redrive brings it back as unknown, due no sooner than before', () => {
    const scenario = afterAsking([pay, call('look')]);
    const paidFrom = scenario.now.getTime();
    scenario.lose(2, 'crash');
    scenario.kill(3);
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    expect(scenario.statuses).toEqual(['completed', 'dead', 'dead']);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true, error: null });
    expect(scenario.step(2).dueAt.getTime()).toBe(paidFrom + 30_000);
    expect(scenario.step(3)).toMatchObject({ status: 'pending', crashes: 0, dueAt: scenario.now });
  });
});

describe('an identical call', () => {
  const again = { ...pay, identicalTo: 2 };

  it('waits for an operator, who may let it run', () => {
    const scenario = afterAsking([again]);
    expect(scenario.step(2)).toMatchObject({ waitingFor: 'operator', waitDetail: 'identical:2' });
    expect(scenario.dispatches).toEqual([]);
    expect(refusalOf(() => scenario.change((draft) => resumeRun(draft, {})))).toBe('conflict');
    scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' }));
    expect(scenario.eventTypes).not.toContain('step.did_not_happen');
    scenario.perform(2, value('paid after all'));
    expect(scenario.step(2).status).toBe('completed');
  });

  it('still waits for one after its run failed and was redriven', () => {
    const scenario = afterAsking([again, call('look', { maxAttempts: 1 })]);
    scenario.kill(3);
    expect(scenario.statuses).toEqual(['completed', 'cancelled', 'dead']);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.statuses).toEqual(['completed', 'suspended:operator', 'pending']);
    expect(scenario.step(2).waitDetail).toBe('identical:2');
  });

  it('once an operator let it run, is not asked about again by a redrive', () => {
    const scenario = afterAsking([again, call('look')]);
    scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' }));
    scenario.kill(3);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.statuses).toEqual(['completed', 'pending', 'pending']);
  });

  it('waits for one also after it had waited at a limit', () => {
    const limits = { maxSteps: 2, onLimit: 'suspend' } as const;
    const scenario = afterAsking([call('look'), again], { limits });
    expect(scenario.statuses).toEqual(['completed', 'pending', 'suspended:limit']);
    scenario.change((draft) => resumeRun(draft, { maxSteps: 9 }));
    expect(scenario.statuses).toEqual(['completed', 'pending', 'suspended:operator']);
  });
});

describe('at a deadline under finish', () => {
  const limits = { deadlineMs: 100_000, onLimit: 'finish' } as const;

  it('a fate not known is still settled; the run does not fail for it while time is left', () => {
    const scenario = afterAsking([pay, call('look')], { limits });
    scenario.perform(2, happenedMaybe);
    scenario.pass(85_000);
    scenario.change(meetDeadline);
    expect(scenario.statuses).toEqual(['completed', 'pending', 'completed']);
    expect(scenario.run).toMatchObject({ status: 'running', finishingAs: 'deadline' });
    scenario.perform(2, tellModel);
    scenario.perform(4, says('as far as I got', { lastBecause: 'deadline' }));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'deadline' });
  });

  it('a fate nobody settled in time is dead at the deadline itself', () => {
    const scenario = afterAsking([pay], { limits });
    scenario.perform(2, happenedMaybe);
    scenario.perform(2, askOperator);
    scenario.pass(85_000);
    scenario.change(meetDeadline);
    expect(scenario.run.status).toBe('suspended');
    scenario.pass(20_000);
    scenario.change(meetDeadline);
    expect(scenario.step(2)).toMatchObject({ status: 'dead', unknown: true });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline' });
  });

  it('a call that an operator says did not happen is not executed any more', () => {
    const scenario = afterAsking([pay], { limits });
    scenario.perform(2, happenedMaybe);
    scenario.perform(2, askOperator);
    scenario.pass(85_000);
    scenario.change(meetDeadline);
    scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' }));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', error: { code: 'not_executed' } });
  });
});

it('keeps the key of a call through all its attempts (I5)', () => {
  const scenario = afterAsking([call('send', { effect: 'idempotent' }), call('send', { effect: 'idempotent' })]);
  const keys = [scenario.step(2).idempotencyKey, scenario.step(3).idempotencyKey];
  expect(new Set(keys).size).toBe(2);
  scenario.perform(2, fails());
  scenario.lose(2, 'crash');
  scenario.perform(2, aborted('shutdown'));
  scenario.perform(2, value('sent'));
  expect(scenario.step(2)).toMatchObject({ attempt: 4, idempotencyKey: keys[0] });
});
