/** What a run may spend, and what happens at each limit under `finish`, `fail` and `suspend`. */
import { describe, expect, it } from 'vitest';
import { pauseRun, redriveRun, resumeRun } from '../../src/core/commands.js';
import { deadlineActsAt, deadlineReserveMs, guardLlmStep, roomForCalls, turnsLeft } from '../../src/core/limits.js';
import { meetDeadline } from '../../src/core/recover.js';
import type { Limits } from '../../src/core/run.js';
import {
  aborted,
  afterAsking,
  asks,
  call,
  fails,
  happenedMaybe,
  lastWords,
  llmFails,
  refusalOf,
  Scenario,
  says,
  value,
} from '../support/scenario.js';

function at(limits: Partial<Limits>): Scenario {
  return new Scenario({ limits });
}

/** The limit that the next LLM step would be told of, or be stopped by. */
function guard(scenario: Scenario): string | null {
  const judged = guardLlmStep(scenario.run, scenario.now);
  return judged.go ? judged.lastBecause : `stop: ${judged.reason}`;
}

const look = call('look');
const resume = (scenario: Scenario, raised: Partial<Limits> = {}) =>
  scenario.change((draft) => resumeRun(draft, raised));

describe('the turns that are left', () => {
  it.each(['finish', 'fail', 'suspend'] as const)(
    'under %s are those in which the guard lets a tool be called',
    (onLimit) => {
      for (let maxSteps = 1; maxSteps <= 9; maxSteps++) {
        for (let maxTurns = 1; maxTurns <= 4; maxTurns++) {
          const scenario = at({ maxSteps, maxTurns, onLimit });
          const left = turnsLeft(scenario.run);
          let made = 0;
          for (let seq = 1; guard(scenario) === null && roomForCalls(scenario.run, 1) > 0; seq += 2) {
            scenario.perform(seq, asks(look));
            scenario.perform(seq + 1, value('seen'));
            made += 1;
          }
          expect([maxSteps, maxTurns, left]).toEqual([maxSteps, maxTurns, made]);
        }
      }
    },
  );
});

describe('maxSteps', () => {
  it('under finish keeps a step back for the last call, which has no tools and is no turn', () => {
    const scenario = at({ maxSteps: 5 });
    expect(guard(scenario)).toBe(null);
    scenario.perform(1, asks(look, look));
    scenario.perform(2, value('a'));
    scenario.perform(3, value('b'));
    // 4 used of 5: a call with tools would need room for a tool step and for the step that reads it.
    expect(guard(scenario)).toBe('max_steps');
    scenario.perform(4, lastWords('the rest was not looked at', 'max_steps'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_steps', stepsUsed: 4, turnsUsed: 1 });
  });

  it('under finish admits the calls there is room for, in order, and tells the model of the others', () => {
    const scenario = afterAsking([call('a'), call('b'), call('c'), call('d')], { limits: { maxSteps: 4 } });
    expect(scenario.statuses).toEqual(['completed', 'pending', 'pending', 'completed', 'completed']);
    expect(scenario.run).toMatchObject({ finishingAs: 'max_steps', stepsUsed: 3, status: 'running' });
    expect(scenario.eventTypes).toContain('run.limit_reached');
    scenario.perform(2, value('a'));
    scenario.perform(3, value('b'));
    expect(scenario.history.slice(2)).toEqual([
      'tool: a',
      'tool: b',
      expect.stringMatching(/^tool: not executed: .*steps/),
      expect.stringMatching(/^tool: not executed: .*steps/),
    ]);
    expect(guard(scenario)).toBe('max_steps');
    scenario.perform(6, lastWords('done', 'max_steps'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_steps', stepsUsed: 4 });
  });

  it('of one leaves one call without tools under finish', () => {
    const scenario = at({ maxSteps: 1 });
    expect(guard(scenario)).toBe('max_steps');
    scenario.perform(1, lastWords('a guess', 'max_steps'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_steps', stepsUsed: 1, turnsUsed: 0 });
  });

  it('under fail fails the run that asks for more calls than there is room for', () => {
    const scenario = at({ maxSteps: 3, onLimit: 'fail' });
    scenario.perform(1, asks(look, look, look));
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_steps', error: { code: 'max_steps' } });
    expect(scenario.statuses).toEqual(['completed']);
  });

  it('under fail stops the LLM step beyond it before it spends anything', () => {
    const scenario = afterAsking([look], { limits: { maxSteps: 2, onLimit: 'fail' } });
    scenario.perform(2, value('a'));
    expect(guard(scenario)).toBe('stop: max_steps');
    expect(scenario.perform(3, { kind: 'limit', reason: 'max_steps' })).toMatchObject({ ended: 'cancelled' });
    expect(scenario.step(3).status).toBe('cancelled');
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_steps', error: { code: 'max_steps' } });
  });

  it('under suspend holds the calls beyond it, and as many go on as the limit is raised by', () => {
    const scenario = afterAsking([call('a'), call('b'), call('c')], { limits: { maxSteps: 2, onLimit: 'suspend' } });
    expect(scenario.statuses).toEqual(['completed', 'pending', 'suspended:limit', 'suspended:limit']);
    scenario.perform(2, value('a'));
    expect(scenario.run.status).toBe('suspended');
    expect(refusalOf(() => resume(scenario))).toBe('conflict');
    expect(refusalOf(() => resume(scenario, { maxSteps: 2 }))).toBe('conflict');
    expect(refusalOf(() => resume(scenario, { maxTurns: 99 }))).toBe('conflict');
    expect(scenario.run.limits.maxTurns).toBe(25);
    resume(scenario, { maxSteps: 3 });
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending', 'suspended:limit']);
    resume(scenario, { maxSteps: 4 });
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending', 'pending']);
    scenario.perform(3, value('b'));
    scenario.perform(4, value('c'));
    expect(guard(scenario)).toBe('stop: max_steps');
    scenario.perform(5, { kind: 'limit', reason: 'max_steps' });
    expect(scenario.statuses.at(-1)).toBe('suspended:limit');
    resume(scenario, { maxSteps: 9 });
    scenario.perform(5, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: null, stepsUsed: 5 });
  });

  it('under suspend cannot be passed by resuming while another call waits for something else', () => {
    const pay = call('pay', { effect: 'once', identicalTo: 1 });
    const scenario = afterAsking([pay, look, look], { limits: { maxSteps: 2, onLimit: 'suspend' } });
    expect(scenario.statuses).toEqual(['completed', 'suspended:operator', 'suspended:limit', 'suspended:limit']);
    expect(refusalOf(() => resume(scenario))).toBe('conflict');
    expect(scenario.statuses).toEqual(['completed', 'suspended:operator', 'suspended:limit', 'suspended:limit']);
  });

  it('under suspend lets the calls of a sequential tool go on one after another', () => {
    const one = call('queue', { sequential: true });
    const scenario = afterAsking([one, one, one], { limits: { maxSteps: 2, onLimit: 'suspend' } });
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'suspended:limit', 'suspended:limit']);
    resume(scenario, { maxSteps: 9 });
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'suspended:step', 'suspended:step']);
    for (const seq of [2, 3, 4]) scenario.perform(seq, value('done'));
    expect(scenario.statuses.at(-1)).toBe('pending');
  });

  it('under suspend still holds the calls beyond it after a redrive', () => {
    const scenario = afterAsking([look, look], { limits: { maxSteps: 2, onLimit: 'suspend' } });
    scenario.kill(2);
    expect(scenario.statuses).toEqual(['completed', 'dead', 'cancelled']);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.statuses).toEqual(['completed', 'pending', 'suspended:limit']);
  });
});

describe('maxTurns', () => {
  it('under finish makes the call after the last turn the last', () => {
    const scenario = afterAsking([look], { limits: { maxTurns: 1 } });
    scenario.perform(2, value('a'));
    expect(guard(scenario)).toBe('max_turns');
    scenario.perform(3, lastWords('done', 'max_turns'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_turns', turnsUsed: 1, stepsUsed: 3 });
  });

  it('under suspend waits for a higher one', () => {
    const scenario = afterAsking([look], { limits: { maxTurns: 1, onLimit: 'suspend' } });
    scenario.perform(2, value('a'));
    scenario.perform(3, { kind: 'limit', reason: 'max_turns' });
    expect(scenario.step(3)).toMatchObject({ waitingFor: 'limit', waitDetail: 'max_turns' });
    expect(scenario.run.status).toBe('suspended');
    expect(refusalOf(() => resume(scenario, { maxSteps: 500 }))).toBe('conflict');
    resume(scenario, { maxTurns: 2 });
    scenario.perform(3, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', turnsUsed: 2 });
  });

  it('under suspend is judged again by the record: a limit raised meanwhile stops nothing', () => {
    const scenario = afterAsking([look], { limits: { maxTurns: 1, onLimit: 'suspend' } });
    scenario.perform(2, value('a'));
    scenario.perform(3, { kind: 'limit', reason: 'max_turns' });
    resume(scenario, { maxTurns: 2 });
    expect(scenario.perform(3, { kind: 'limit', reason: 'max_turns' })).toMatchObject({ ended: 'again' });
    expect(scenario.statuses.at(-1)).toBe('pending');
  });

  it('under fail ends the run', () => {
    const scenario = afterAsking([look], { limits: { maxTurns: 1, onLimit: 'fail' } });
    scenario.perform(2, value('a'));
    scenario.perform(3, { kind: 'limit', reason: 'max_turns' });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_turns' });
  });
});

describe('the last call', () => {
  it('that dies fails the run for the limit’s reason', () => {
    const scenario = afterAsking([look], { limits: { maxTurns: 1 }, llmAttempts: 2 });
    scenario.perform(2, value('a'));
    expect(scenario.perform(3, llmFails({}, { lastBecause: 'max_turns' }))).toMatchObject({ ended: 'retry' });
    scenario.perform(3, llmFails({}, { lastBecause: 'max_turns' }));
    expect(scenario.step(3)).toMatchObject({ status: 'dead', error: { code: 'server_error' } });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_turns' });
  });

  it('whose answer does not satisfy the schema is not asked again: the run fails for the limit’s reason', () => {
    const scenario = at({ maxSteps: 1 });
    const objection = { text: 'no JSON', tokens: 2 };
    scenario.perform(1, lastWords('a guess', 'max_steps', { objection }));
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'max_steps', error: { code: 'invalid_output' } });
  });
});

describe('a deadline', () => {
  const deadlineMs = 100_000;

  it('acts early under finish, by a fifth of it or the time of one call', () => {
    const run = at({ deadlineMs }).run;
    expect(deadlineReserveMs(run)).toBe(20_000);
    expect(deadlineReserveMs(at({ deadlineMs: 3_600_000 }).run)).toBe(120_000);
    expect(deadlineReserveMs(at({ deadlineMs, onLimit: 'fail' }).run)).toBe(0);
    expect(deadlineActsAt(run)).toEqual(new Date(run.createdAt.getTime() + 80_000));
    expect(deadlineActsAt(at({}).run)).toBe(null);
  });

  it('does nothing before it acts, and nothing to a run without one', () => {
    for (const scenario of [at({ deadlineMs }), at({})]) {
      scenario.pass(79_999);
      scenario.change(meetDeadline);
      expect(scenario.statuses).toEqual(['pending']);
      expect(scenario.run.finishingAs).toBe(null);
    }
  });

  it('under finish closes the calls not started, keeps those in flight, and asks for the last words', () => {
    const scenario = afterAsking([call('a'), call('b'), call('c')], { limits: { deadlineMs } });
    const flying = scenario.claim(2);
    scenario.perform(3, fails());
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    expect(scenario.statuses).toEqual(['completed', 'running', 'completed', 'completed']);
    expect(scenario.run).toMatchObject({ finishingAs: 'deadline', endingAs: null });
    scenario.record(2, flying, value('just in time'));
    expect(guard(scenario)).toBe('deadline');
    scenario.perform(5, lastWords('as far as I got', 'deadline'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'deadline', output: 'as far as I got' });
    expect(scenario.run.turnsUsed).toBe(1);
  });

  it('under finish acts once', () => {
    const scenario = afterAsking([look], { limits: { deadlineMs } });
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    const { lastEvent } = scenario.run;
    scenario.change(meetDeadline);
    expect(scenario.run.lastEvent).toBe(lastEvent);
  });

  it.each([
    ['aborted', aborted('ending')],
    ['handed back', aborted('shutdown')],
    ['failed', fails()],
  ] as const)('under finish, a call in flight that is then %s is not run again', (_, outcome) => {
    const scenario = afterAsking([look], { limits: { deadlineMs } });
    const flying = scenario.claim(2);
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    scenario.record(2, flying, outcome);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending']);
    expect(guard(scenario)).toBe('deadline');
  });

  it.each([
    ['crash', { failures: 0, claims: 0 }],
    ['dropped', { failures: 0, claims: 1 }],
    ['overdue', { failures: 1, claims: 0 }],
  ] as const)(
    'under finish, a call in flight whose claim is lost (%s) is not run again, and its end is counted',
    (death, counts) => {
      const scenario = afterAsking([look, call('queue', { sequential: true })], { limits: { deadlineMs } });
      scenario.claim(2);
      scenario.claim(3);
      scenario.pass(80_000);
      scenario.change(meetDeadline);
      scenario.release(2, death);
      scenario.release(3, death);
      expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending']);
      for (const seq of [2, 3]) expect(scenario.step(seq)).toMatchObject(counts);
    },
  );

  it('under finish closes the waiting calls of a sequential tool, each once', () => {
    const one = call('queue', { sequential: true });
    const scenario = afterAsking([one, one, one, look], { limits: { deadlineMs } });
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'completed', 'completed', 'pending']);
  });

  it('under finish lets an LLM call in flight end, but runs none of the calls it asks for', () => {
    const scenario = at({ deadlineMs });
    const flying = scenario.claim(1);
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    scenario.record(1, flying, asks(look, look));
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending']);
    expect(scenario.run).toMatchObject({ stepsUsed: 2, finishingAs: 'deadline' });
  });

  it('under finish, once past, leaves no time for a last call: the run fails', () => {
    const scenario = at({ deadlineMs });
    scenario.pass(100_000);
    expect(guard(scenario)).toBe('stop: deadline');
    scenario.perform(1, { kind: 'limit', reason: 'deadline' });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline' });
  });

  it('is given anew by the redrive of a run that failed by it, so that an unknown fate can still be settled', () => {
    const limits = { deadlineMs, onLimit: 'fail' } as const;
    const scenario = afterAsking([call('pay', { effect: 'once', maxAttempts: 1 })], { limits });
    scenario.perform(2, happenedMaybe);
    scenario.pass(100_000);
    scenario.change(meetDeadline);
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline' });
    scenario.pass(1_000);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    scenario.change(meetDeadline);
    expect(scenario.run).toMatchObject({
      status: 'running',
      deadlineAt: new Date(scenario.now.getTime() + deadlineMs),
    });
    expect(scenario.step(2)).toMatchObject({ status: 'pending', unknown: true });
  });

  it('under finish, once past, ends a run whose last call is in flight; what it returns is kept', () => {
    const scenario = at({ deadlineMs });
    scenario.pass(85_000);
    const flying = scenario.claim(1);
    scenario.pass(15_000);
    scenario.change(meetDeadline);
    expect(scenario.run).toMatchObject({ status: 'running', endingAs: { status: 'failed', reason: 'deadline' } });
    expect(scenario.tryClaim(1)).toEqual({ refusal: 'claimed' });
    scenario.record(1, flying, lastWords('too late', 'deadline'));
    expect(scenario.step(1)).toMatchObject({ status: 'completed', output: 'too late' });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline', output: null });
    expect(scenario.run.usage.inputTokens).toBe(100);
  });

  it('under fail ends the run; calls in flight are recorded first', () => {
    const scenario = afterAsking([look, look], { limits: { deadlineMs, onLimit: 'fail' } });
    const flying = scenario.claim(2);
    scenario.pass(deadlineMs);
    scenario.change(meetDeadline);
    expect(scenario.statuses).toEqual(['completed', 'running', 'cancelled']);
    scenario.record(2, flying, value('a'));
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline', error: { code: 'deadline' } });
  });

  it('under suspend holds what would run next, and lets it go on when moved', () => {
    const scenario = afterAsking([look, look, look], { limits: { deadlineMs, onLimit: 'suspend' } });
    const flying = scenario.claim(2);
    scenario.perform(4, fails({ retryInMs: 200_000 }));
    scenario.pass(deadlineMs);
    scenario.change(meetDeadline);
    expect(scenario.statuses.slice(1)).toEqual(['running', 'suspended:limit', 'suspended:limit']);
    expect(scenario.record(2, flying, fails())).toMatchObject({ ended: 'suspended' });
    expect(scenario.run.status).toBe('suspended');
    expect(refusalOf(() => resume(scenario, { maxSteps: 99 }))).toBe('conflict');
    resume(scenario, { deadlineMs: 50_000 });
    expect(scenario.run.deadlineAt?.getTime()).toBe(scenario.now.getTime() + 50_000);
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'pending', 'pending']);
    // What was to be tried again later is due no sooner for having waited.
    expect(scenario.dispatches.map(({ seq }) => seq)).toEqual([3]);
    expect(scenario.tryClaim(4)).toEqual({ refusal: 'not_due' });
  });

  it('under suspend, moved, does not let the calls beyond the step limit go on', () => {
    const limits = { deadlineMs, maxSteps: 2, onLimit: 'suspend' } as const;
    const scenario = afterAsking([call('a'), call('b')], { limits });
    scenario.pass(deadlineMs);
    scenario.change(meetDeadline);
    expect(scenario.statuses.slice(1)).toEqual(['suspended:limit', 'suspended:limit']);
    resume(scenario, { deadlineMs });
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'suspended:limit']);
  });

  it('counts pauses: a paused run reaches it too', () => {
    const scenario = afterAsking([look], { limits: { deadlineMs } });
    scenario.change(pauseRun);
    scenario.pass(80_000);
    scenario.change(meetDeadline);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'suspended:operator']);
    scenario.pass(20_000);
    scenario.change(meetDeadline);
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'deadline' });
  });

  it('is moved by a redrive by the time the run was final', () => {
    const scenario = new Scenario({ limits: { deadlineMs }, llmAttempts: 1 });
    const { deadlineAt } = scenario.run;
    scenario.pass(1_000);
    scenario.perform(1, llmFails());
    scenario.pass(3_600_000);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.run.deadlineAt?.getTime()).toBe((deadlineAt?.getTime() ?? 0) + 3_600_000);
    scenario.perform(1, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: null });
  });
});

it('gives no negative room', () => {
  const scenario = afterAsking([look, look], { limits: { maxSteps: 1, onLimit: 'suspend' } });
  expect(roomForCalls(scenario.run, 5)).toBe(0);
});
