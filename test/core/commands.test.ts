/** Pause, resume, cancel and redrive, in every state a run can be in. */
import { describe, expect, it } from 'vitest';
import { cancelRun, pauseRun, redriveRun, resumeRun } from '../../src/core/commands.js';
import {
  aborted,
  afterAsking,
  call,
  fails,
  llmFails,
  refusalOf,
  Scenario,
  says,
  usage,
  value,
} from '../support/scenario.js';

const look = call('look');
const cancel = (scenario: Scenario) => scenario.change(cancelRun);
const pause = (scenario: Scenario) => scenario.change(pauseRun);
const resume = (scenario: Scenario) => scenario.change((draft) => resumeRun(draft, {}));
const redrive = (scenario: Scenario) => scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');

function completed(): Scenario {
  const scenario = new Scenario();
  scenario.perform(1, says('done'));
  return scenario;
}

function failed(): Scenario {
  const scenario = new Scenario({ llmAttempts: 1 });
  scenario.perform(1, llmFails());
  return scenario;
}

function cancelled(): Scenario {
  const scenario = new Scenario();
  cancel(scenario);
  return scenario;
}

/** Cancelled, with a call still in flight. */
function ending(): Scenario {
  const scenario = new Scenario();
  scenario.claim(1);
  cancel(scenario);
  return scenario;
}

describe('pause', () => {
  it('holds what is pending, lets what runs be recorded, and holds what would follow', () => {
    const scenario = afterAsking([look, look]);
    const flying = scenario.claim(2);
    pause(scenario);
    expect(scenario.statuses).toEqual(['completed', 'running', 'suspended:operator']);
    expect(scenario.run).toMatchObject({ status: 'running', pauseAt: scenario.now });
    scenario.record(2, flying, value('a'));
    expect(scenario.run.status).toBe('suspended');
    expect(scenario.tryClaim(3)).toEqual({ refusal: 'suspended' });
    resume(scenario);
    expect(scenario.dispatches).toEqual([{ queue: 'tool', runId: 'run_1', seq: 3, dispatch: 2 }]);
    scenario.perform(3, value('b'));
    expect(scenario.statuses.at(-1)).toBe('pending');
  });

  it('holds the LLM step that a join plans', () => {
    const scenario = afterAsking([look]);
    const flying = scenario.claim(2);
    pause(scenario);
    scenario.record(2, flying, value('a'));
    expect(scenario.statuses).toEqual(['completed', 'completed', 'suspended:operator']);
    expect(scenario.dispatches).toEqual([]);
  });

  it('holds a call that would be tried again or is handed back', () => {
    const scenario = afterAsking([look, look]);
    const [one, two] = [scenario.claim(2), scenario.claim(3)];
    pause(scenario);
    expect(scenario.record(2, one, fails())).toMatchObject({ ended: 'suspended' });
    scenario.record(3, two, aborted('shutdown'));
    expect(scenario.statuses).toEqual(['completed', 'suspended:operator', 'suspended:operator']);
    expect(scenario.dispatches).toEqual([]);
  });

  it('of a run that starts later makes it start no sooner', () => {
    const scenario = new Scenario({ delayMs: 5_000 });
    pause(scenario);
    resume(scenario);
    expect(scenario.run.status).toBe('pending');
    expect(scenario.dispatches).toEqual([]);
    expect(scenario.tryClaim(1)).toEqual({ refusal: 'not_due' });
    scenario.pass(5_000);
    expect(scenario.tryClaim(1)).toHaveProperty('token');
  });

  it('twice is once', () => {
    const scenario = new Scenario();
    pause(scenario);
    const { rev, pauseAt } = scenario.run;
    scenario.pass(1_000);
    pause(scenario);
    expect(scenario.run).toMatchObject({ rev, pauseAt });
  });

  it('lets a final answer in flight complete the run', () => {
    const scenario = new Scenario();
    const flying = scenario.claim(1);
    pause(scenario);
    scenario.record(1, flying, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', pauseAt: null });
  });

  it.each([
    ['completed', completed],
    ['failed', failed],
    ['cancelled', cancelled],
    ['ending', ending],
  ])('is refused for a run that is %s', (_, made) => {
    const scenario = made();
    expect(refusalOf(() => pause(scenario))).toBe('conflict');
  });
});

describe('resume', () => {
  it.each([
    ['running', () => afterAsking([look])],
    ['pending', () => new Scenario()],
    ['completed', completed],
    ['failed', failed],
    ['cancelled', cancelled],
    ['ending', ending],
  ])('is refused for a run that is %s', (_, made) => {
    const scenario = made();
    const before = structuredClone(scenario.rows);
    expect(refusalOf(() => scenario.change((draft) => resumeRun(draft, { maxSteps: 500 })))).toBe('conflict');
    expect(scenario.rows).toEqual(before);
  });

  it('lifts a pause before anything was held by it', () => {
    const scenario = new Scenario();
    scenario.claim(1);
    pause(scenario);
    resume(scenario);
    expect(scenario.run).toMatchObject({ pauseAt: null, status: 'running' });
  });
});

describe('cancel', () => {
  it('of a run nobody has claimed is final at once', () => {
    const scenario = cancelled();
    expect(scenario.run).toMatchObject({ status: 'cancelled', reason: 'cancelled', startedAt: null });
    expect(scenario.statuses).toEqual(['cancelled']);
    expect(scenario.dispatches).toEqual([]);
    expect(scenario.tryClaim(1)).toEqual({ refusal: 'done' });
  });

  it('of a run in flight takes no new claim, and ends with the last call, whose cost is counted', () => {
    const scenario = afterAsking([look, look]);
    const flying = scenario.claim(2);
    cancel(scenario);
    expect(scenario.run).toMatchObject({ status: 'running', endingAs: { status: 'cancelled' } });
    expect(scenario.statuses).toEqual(['completed', 'running', 'cancelled']);
    scenario.record(2, flying, aborted('ending'));
    expect(scenario.run).toMatchObject({ status: 'cancelled', endingAs: null });
    expect(scenario.statuses).toEqual(['completed', 'cancelled', 'cancelled']);
  });

  it('while an LLM call is in flight keeps what it answers and costs, and does nothing it asks for', () => {
    const scenario = ending();
    const token = scenario.step(1).claim?.token ?? '';
    scenario.record(1, token, { ...says('hm'), calls: [look] });
    expect(scenario.statuses).toEqual(['completed']);
    expect(scenario.step(1).usage).toEqual(usage);
    expect(scenario.run).toMatchObject({ status: 'cancelled', usage, output: null });
  });

  it.each([
    ['a failure', llmFails({ usage })],
    ['an abort', aborted('ending')],
    ['a limit', { kind: 'limit', reason: 'deadline' }],
    ['an unstorable answer', { kind: 'unstorable', message: 'no' }],
  ] as const)('while an LLM call is in flight is final with its end: %s', (_, outcome) => {
    const scenario = ending();
    const token = scenario.step(1).claim?.token ?? '';
    expect(scenario.record(1, token, outcome)).toMatchObject({ ended: 'cancelled' });
    expect(scenario.run.status).toBe('cancelled');
    expect(scenario.statuses).toEqual(['cancelled']);
    expect(scenario.record(1, token, outcome)).toMatchObject({ ended: 'cancelled' });
  });

  it.each([
    ['a result', value('found'), 'completed'],
    ['a failure', fails(), 'cancelled'],
    ['an abort', aborted('ending'), 'cancelled'],
    ['an unstorable result', { kind: 'unstorable', message: 'no' }, 'completed'],
  ] as const)('while a tool call is in flight is final with its end: %s', (_, outcome, status) => {
    const scenario = afterAsking([look]);
    const flying = scenario.claim(2);
    cancel(scenario);
    scenario.record(2, flying, outcome);
    expect(scenario.step(2).status).toBe(status);
    expect(scenario.run.status).toBe('cancelled');
  });

  it('with a dead worker ends when its claim is taken away', () => {
    const scenario = ending();
    scenario.release(1, 'crash');
    expect(scenario.run.status).toBe('cancelled');
    expect(scenario.statuses).toEqual(['cancelled']);
  });

  it('of a suspended run, and of a paused one, is final at once', () => {
    for (const made of [afterAsking([call('pay', { effect: 'once', identicalTo: 1 })]), afterAsking([look])]) {
      if (made.run.status !== 'suspended') pause(made);
      cancel(made);
      expect(made.run).toMatchObject({ status: 'cancelled', pauseAt: null });
    }
  });

  it('outranks a failure that waits for its last call', () => {
    const scenario = afterAsking([look, look]);
    const flying = scenario.claim(3);
    scenario.kill(2);
    expect(scenario.run.endingAs).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    cancel(scenario);
    scenario.record(3, flying, value('b'));
    expect(scenario.run).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
  });

  it('twice is once while the run is ending, and a conflict when it has ended', () => {
    const scenario = ending();
    const { rev } = scenario.run;
    cancel(scenario);
    expect(scenario.run.rev).toBe(rev);
    for (const made of [completed(), failed(), cancelled()]) expect(refusalOf(() => cancel(made))).toBe('conflict');
  });
});

describe('redrive', () => {
  it('brings a dead LLM step back with its counts cleared and a new dispatch, and archives its death', () => {
    const scenario = failed();
    const { oldJobs } = redrive(scenario);
    expect(oldJobs).toEqual([{ queue: 'llm', seq: 1, dispatch: 1 }]);
    expect(scenario.dispatches).toEqual([{ queue: 'llm', runId: 'run_1', seq: 1, dispatch: 2 }]);
    expect(scenario.step(1)).toMatchObject({ status: 'pending', failures: 0, error: null, shownAttempts: null });
    expect(scenario.run).toMatchObject({ status: 'running', reason: null, error: null, finishedAt: null });
    expect(scenario.rows.attempts).toMatchObject([{ endedBy: 'death', error: { code: 'server_error' } }]);
    expect(scenario.eventTypes).toContain('run.redriven');
    scenario.perform(1, says('done'));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'done', error: null });
    expect(scenario.step(1).attempt).toBe(2);
  });

  it('brings back the siblings that the death cancelled, and leaves those that were recorded', () => {
    const scenario = afterAsking([look, look, look, look]);
    scenario.perform(2, value('a'));
    const flying = scenario.claim(3);
    const failing = scenario.claim(4);
    scenario.kill(5);
    scenario.record(3, flying, value('b'));
    scenario.record(4, failing, fails());
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'cancelled', 'dead']);
    expect(scenario.run.status).toBe('failed');
    redrive(scenario);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending', 'pending']);
    scenario.perform(5, value('d'));
    scenario.perform(4, value('c'));
    expect(scenario.history.slice(2)).toEqual(['tool: a', 'tool: b', 'tool: c', 'tool: d']);
  });

  it('keeps the order of the calls of a sequential tool', () => {
    const one = call('queue', { sequential: true });
    const scenario = afterAsking([one, one, look]);
    scenario.kill(4);
    expect(scenario.statuses).toEqual(['completed', 'cancelled', 'cancelled', 'dead']);
    redrive(scenario);
    expect(scenario.statuses).toEqual(['completed', 'pending', 'suspended:step', 'pending']);
    scenario.perform(2, value('first'));
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending', 'pending']);
  });

  it('takes the agent’s version that is served now', () => {
    const scenario = failed();
    redrive(scenario);
    expect(scenario.run.agentVersion).toBe(null);
    scenario.tryClaim(1, { serves: new Map([['helper', 'v2']]) });
    expect(scenario.run.agentVersion).toBe('v2');
  });

  it('may be needed again', () => {
    const scenario = failed();
    for (const death of [1, 2, 3]) {
      redrive(scenario);
      scenario.perform(1, llmFails());
      expect(scenario.run.status).toBe('failed');
      expect(scenario.rows.attempts).toHaveLength(death);
    }
  });

  it.each([
    ['pending', () => new Scenario()],
    ['running', () => afterAsking([look])],
    ['completed', completed],
    ['cancelled', cancelled],
    ['ending', ending],
    [
      'failed without a dead step',
      () => {
        const scenario = new Scenario({ limits: { maxSteps: 1, onLimit: 'fail' } });
        scenario.perform(1, { ...says(''), calls: [look] });
        return scenario;
      },
    ],
  ])('is refused for a run that is %s', (_, made) => {
    const scenario = made();
    expect(refusalOf(() => redrive(scenario))).toBe('conflict');
  });
});

describe('a run whose step died while others are in flight', () => {
  it('takes no new claim, records them, and fails with the last', () => {
    const scenario = afterAsking([look, look, look]);
    const flying = scenario.claim(3);
    scenario.kill(2);
    expect(scenario.statuses).toEqual(['completed', 'dead', 'running', 'cancelled']);
    expect(scenario.run.status).toBe('running');
    expect(refusalOf(() => redrive(scenario))).toBe('conflict');
    scenario.record(3, flying, value('b'));
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    expect(scenario.history.at(-1)).toBe('tool: b');
  });
});
