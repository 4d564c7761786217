/** Who decides that it was the last attempt: the table of section 5 of the protocol, row by row, and the fate of claims. */
import { describe, expect, it } from 'vitest';
import { cancelRun, redriveRun } from '../../src/core/commands.js';
import { claimLimit, crashLimit } from '../../src/core/step.js';
import { aborted, afterAsking, call, fails, llmFails, Scenario, says, usage, value } from '../support/scenario.js';

describe('an LLM call that fails and may succeed later', () => {
  it('is retried by its own job after its delay, up to the attempts of the agent, and then is dead', () => {
    const scenario = new Scenario();
    for (const attempt of [1, 2, 3]) {
      const answer = scenario.perform(1, llmFails({}, { retryInMs: attempt * 1_000 }), attempt - 1);
      expect(answer).toMatchObject({ recorded: true, ended: 'retry', inMs: attempt * 1_000 });
      expect(scenario.step(1)).toMatchObject({ status: 'pending', dispatch: 1, failures: attempt, attempt });
      expect(scenario.step(1).dueAt.getTime()).toBe(scenario.now.getTime() + attempt * 1_000);
      // The queue's own retry carries it; nothing new is dispatched.
      expect(scenario.dispatches).toEqual([]);
    }
    expect(scenario.perform(1, llmFails(), 3)).toMatchObject({ recorded: true, ended: 'dead' });
    expect(scenario.step(1)).toMatchObject({
      status: 'dead',
      attempt: 4,
      shownAttempts: 3,
      error: { code: 'server_error' },
    });
    expect(scenario.run).toMatchObject({
      status: 'failed',
      reason: 'attempts_exhausted',
      error: { code: 'server_error' },
    });
    expect(scenario.rows.attempts.map(({ attempt, endedBy, recorded }) => [attempt, endedBy, recorded])).toEqual([
      [1, 'failure', true],
      [2, 'failure', true],
      [3, 'failure', true],
    ]);
    expect(scenario.eventTypes.filter((type) => type === 'step.retry')).toHaveLength(3);
  });

  it('is not claimed before its delay is over', () => {
    const scenario = new Scenario();
    scenario.perform(1, llmFails({}, { retryInMs: 5_000 }));
    scenario.pass(4_900);
    expect(scenario.tryClaim(1)).toEqual({ refusal: 'not_due' });
    scenario.pass(60);
    expect(scenario.tryClaim(1)).toHaveProperty('token');
  });

  it('counts what a failed call cost, attempt by attempt', () => {
    const scenario = new Scenario({ llmAttempts: 2 });
    scenario.perform(1, llmFails({ usage }));
    expect(scenario.rows.attempts[0]?.usage).toEqual(usage);
    scenario.perform(1, llmFails({ usage }));
    expect(scenario.run.usage.inputTokens).toBe(200);
    expect(scenario.step(1).usage).toEqual(usage);
  });
});

describe('an LLM call that fails for good', () => {
  it.each(['quota_exhausted', 'invalid_request', 'refused', 'content_filter'] as const)(
    'is dead at once: %s',
    (reason) => {
      const scenario = new Scenario();
      expect(scenario.perform(1, llmFails({ class: 'terminal', reason }))).toMatchObject({ ended: 'dead' });
      expect(scenario.run).toMatchObject({ status: 'failed', reason });
    },
  );

  it('is tried at once with a smaller budget where the prompt did not fit, and dead where nothing can be left out', () => {
    const scenario = new Scenario();
    const overflow = { class: 'overflow', code: 'context_overflow', reason: 'context_overflow' } as const;
    expect(scenario.perform(1, llmFails(overflow, { budgetTokens: 800 }))).toMatchObject({ ended: 'retry', inMs: 0 });
    expect(scenario.run.budgetTokens).toBe(800);
    scenario.perform(1, llmFails(overflow));
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'context_overflow' });
  });
});

describe.each(['none', 'idempotent'] as const)('a tool of effect %s that throws', (effect) => {
  it('is retried up to its attempts, and then the model hears of it', () => {
    const scenario = afterAsking([call('look', { effect, maxAttempts: 2 })]);
    const { idempotencyKey } = scenario.step(2);
    expect(scenario.perform(2, fails({ retryInMs: 700 }))).toMatchObject({ ended: 'retry', inMs: 700 });
    expect(scenario.perform(2, fails())).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.step(2)).toMatchObject({
      status: 'completed',
      attempt: 2,
      error: { code: 'threw' },
      idempotencyKey,
    });
    expect(scenario.history.at(-1)).toBe('tool: the tool failed');
    expect(scenario.run.status).toBe('running');
  });

  it('is not tried again where another try could not help', () => {
    const scenario = afterAsking([call('look', { effect })]);
    expect(scenario.perform(2, fails({ retry: false, code: 'permission_denied' }))).toMatchObject({
      ended: 'completed',
    });
    expect(scenario.step(2)).toMatchObject({ attempt: 1, error: { code: 'permission_denied' } });
  });
});

describe('a crash', () => {
  it('makes the step a suspect; only a suspect counts it, and the third kills', () => {
    const scenario = new Scenario();
    for (let crashes = 0; crashes < crashLimit; crashes++) {
      scenario.claim(1);
      expect(scenario.release(1, 'crash')).toBe(true);
      expect(scenario.step(1)).toMatchObject({ status: 'pending', suspect: true, crashes, failures: 0 });
      expect(scenario.dispatches).toEqual([{ queue: 'llm', runId: 'run_1', seq: 1, dispatch: 2 + crashes }]);
    }
    scenario.lose(1, 'crash');
    expect(scenario.step(1)).toMatchObject({ status: 'dead', crashes: crashLimit, shownAttempts: null });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
    // Its death is dispatched, so that the queue's failed set shows it.
    expect(scenario.dispatches).toHaveLength(1);
  });

  it.each([
    ['an answer', says('fine'), 'completed'],
    ['a failure', llmFails(), 'pending'],
  ] as const)('is forgiven by %s', (_, outcome, status) => {
    const scenario = new Scenario();
    scenario.lose(1, 'crash');
    scenario.perform(1, outcome);
    expect(scenario.step(1)).toMatchObject({ status, suspect: false });
  });

  it('leaves the neighbours of a poison step alive: theirs is a suspicion, cleared by their outcome', () => {
    const scenario = afterAsking([call('poison'), call('look')]);
    for (const crash of [1, 2, 3]) {
      scenario.claim(2);
      if (crash === 1) scenario.claim(3);
      scenario.release(2, 'crash');
      if (crash === 1) {
        scenario.release(3, 'crash');
        expect(scenario.step(3)).toMatchObject({ suspect: true, crashes: 0 });
        scenario.perform(3, value('fine'));
      }
    }
    expect(scenario.statuses).toEqual(['completed', 'pending', 'completed']);
    scenario.lose(2, 'crash');
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'crash_loop' });
  });

  it('of an LLM step is flagged in the usage: the lost call may have been billed', () => {
    const scenario = new Scenario();
    scenario.claim(1);
    expect(scenario.run.usage.estimated).toBe(false);
    scenario.release(1, 'crash');
    expect(scenario.run.usage.estimated).toBe(true);
    expect(scenario.rows.attempts[0]).toMatchObject({ endedBy: 'crash', recorded: false, usage: { estimated: true } });
  });
});

describe('a claim that came to nothing', () => {
  it('handed back by its worker is dispatched at once, and counts as no failure and no crash', () => {
    const scenario = new Scenario();
    expect(scenario.perform(1, aborted('shutdown'))).toEqual({ recorded: true, ended: 'again' });
    expect(scenario.step(1)).toMatchObject({ status: 'pending', claims: 1, failures: 0, crashes: 0, suspect: false });
    expect(scenario.dispatches).toEqual([{ queue: 'llm', runId: 'run_1', seq: 1, dispatch: 2 }]);
    expect(scenario.rows.attempts[0]).toMatchObject({ endedBy: 'claim', recorded: true });
  });

  it('dropped by its living worker counts the same', () => {
    const scenario = new Scenario();
    scenario.lose(1, 'dropped');
    expect(scenario.step(1)).toMatchObject({ status: 'pending', claims: 1, failures: 0, crashes: 0, suspect: false });
  });

  it.each(['handed back', 'dropped'])('kills the step when %s a hundred times', (how) => {
    const scenario = new Scenario();
    const lose = () => {
      if (how === 'handed back') return void scenario.perform(1, aborted('shutdown'));
      scenario.lose(1, 'dropped');
    };
    for (let claims = 1; claims < claimLimit; claims++) lose();
    expect(scenario.run.status).toBe('running');
    lose();
    expect(scenario.step(1).status).toBe('dead');
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'claim_loop' });
  });

  it('past its deadline counts as a failure: an LLM step dies of the last', () => {
    const scenario = new Scenario({ llmAttempts: 2 });
    for (const status of ['pending', 'dead']) {
      scenario.lose(1, 'overdue');
      expect(scenario.step(1).status).toBe(status);
    }
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'attempts_exhausted' });
  });

  it('past its deadline counts as a failure: of a tool the model hears after the last', () => {
    const scenario = afterAsking([call('look', { maxAttempts: 1 })]);
    scenario.lose(2, 'overdue');
    expect(scenario.step(2)).toMatchObject({ status: 'completed', error: { code: 'timeout' } });
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending']);
  });

  it.each([
    ['overdue', 'failures'],
    ['dropped', 'claims'],
    ['crash', 'crashes'],
  ] as const)('that ended as %s in a run that was being cancelled is counted under %s', (death, counted) => {
    const scenario = new Scenario();
    scenario.lose(1, 'crash');
    scenario.claim(1);
    scenario.change(cancelRun);
    scenario.release(1, death);
    expect(scenario.step(1)).toMatchObject({ status: 'cancelled', [counted]: 1 });
    expect(scenario.run.status).toBe('cancelled');
  });

  it('is taken away once: a release of another token changes nothing', () => {
    const scenario = new Scenario();
    expect(scenario.release(1, 'crash')).toBe(false);
    const token = scenario.lose(1, 'dropped');
    scenario.claim(1);
    expect(scenario.step(1).claim?.token).not.toBe(token);
    expect(scenario.step(1)).toMatchObject({ status: 'running', claims: 1 });
  });
});

describe('an outcome that will not store', () => {
  it('of an LLM step kills it', () => {
    const scenario = new Scenario();
    scenario.perform(1, { kind: 'unstorable', message: 'invalid byte sequence' });
    expect(scenario.step(1)).toMatchObject({ status: 'dead', error: { code: 'unstorable' } });
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'unstorable' });
  });

  it.each(['none', 'once'] as const)('of a tool of effect %s is told to the model', (effect) => {
    const scenario = afterAsking([call('look', { effect })]);
    scenario.perform(2, { kind: 'unstorable', message: 'invalid byte sequence' });
    expect(scenario.step(2)).toMatchObject({ status: 'completed', error: { code: 'unstorable' } });
    expect(scenario.history.at(-1)).toMatch(/^tool: look .*cannot be stored/);
  });
});

describe('the record of an attempt', () => {
  it('that lost its claim changes nothing', () => {
    const scenario = new Scenario();
    const late = scenario.lose(1, 'crash');
    const before = structuredClone(scenario.rows);
    expect(scenario.record(1, late, says('too late'))).toEqual({ recorded: false });
    expect(scenario.rows).toEqual(before);
    scenario.perform(1, says('in time'));
    expect(scenario.record(1, late, says('too late'))).toEqual({ recorded: false });
    expect(scenario.run.output).toBe('in time');
  });

  it.each([
    ['an answer', says('fine')],
    ['a retry', llmFails({ usage })],
    ['a death', llmFails({ class: 'terminal', reason: 'refused' })],
    ['a hand-back', aborted('shutdown', false)],
  ] as const)('is repeated without harm, and answered alike: %s', (_, outcome) => {
    const scenario = new Scenario();
    const token = scenario.claim(1);
    const first = scenario.record(1, token, outcome, 1);
    const before = structuredClone(scenario.rows);
    const again = scenario.record(1, token, outcome, 1);
    expect(again).toMatchObject({ recorded: true, ended: first.recorded && first.ended });
    if (first.recorded && first.ended === 'retry') expect(again).toMatchObject({ inMs: first.inMs });
    expect(scenario.rows).toEqual(before);
    expect(scenario.dispatches).toEqual([]);
  });

  it('is answered by its receipt after the step went on without it', () => {
    const scenario = new Scenario();
    const token = scenario.claim(1);
    scenario.record(1, token, llmFails({}, { retryInMs: 9_000 }));
    scenario.perform(1, says('the second attempt'));
    expect(scenario.record(1, token, llmFails({}, { retryInMs: 9_000 }))).toMatchObject({
      ended: 'retry',
      inMs: 9_000,
    });
  });

  it('of a death is fenced once a redrive has revived the step', () => {
    const scenario = new Scenario();
    const token = scenario.claim(1);
    const death = llmFails({ class: 'terminal', reason: 'refused' });
    scenario.record(1, token, death);
    scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
    expect(scenario.record(1, token, death)).toEqual({ recorded: false });
    expect(scenario.step(1)).toMatchObject({ status: 'pending', failures: 0 });
  });
});
