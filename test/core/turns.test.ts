/** A turn: the calls of a reply fan out into steps, join once, and the model reads their results in its own order. */
import { describe, expect, it } from 'vitest';
import { resolveStep } from '../../src/core/commands.js';
import { objectionLimit } from '../../src/core/decide.js';
import {
  afterAsking,
  asks,
  call,
  fails,
  faulty,
  refusalOf,
  Scenario,
  says,
  text,
  usage,
  value,
} from '../support/scenario.js';

it('is accepted with one pending LLM step, and completes with its answer', () => {
  const scenario = new Scenario();
  expect(scenario.run).toMatchObject({ status: 'pending', openSteps: 1, stepsUsed: 1, turnsUsed: 0 });
  const token = scenario.claim(1);
  expect(scenario.run).toMatchObject({ status: 'running', agentVersion: 'v1', startedAt: scenario.now });
  expect(scenario.record(1, token, says('42'))).toEqual({ recorded: true, ended: 'completed' });
  expect(scenario.run).toMatchObject({ status: 'completed', output: '42', reason: null, stepsUsed: 1, turnsUsed: 1 });
  expect(scenario.history).toEqual(['user: the task', 'assistant: 42']);
  expect(scenario.eventTypes).toEqual(['run.created', 'run.started', 'step.completed', 'run.completed']);
});

it('plans one step for each call, dispatches them all, and keeps what the reply cost', () => {
  const scenario = afterAsking([call('look'), call('search', { queue: 'slow' })]);
  expect(scenario.dispatches).toEqual([
    { queue: 'tool', runId: 'run_1', seq: 2, dispatch: 1 },
    { queue: 'slow', runId: 'run_1', seq: 3, dispatch: 1 },
  ]);
  expect(scenario.run).toMatchObject({ status: 'running', openSteps: 2, stepsUsed: 3, turnsUsed: 1, usage });
  expect(scenario.step(1)).toMatchObject({ status: 'completed', usage });
  expect(scenario.step(3)).toMatchObject({
    kind: 'tool',
    name: 'search',
    turnSeq: 1,
    position: 2,
    callId: 'c00000003',
  });
});

describe('the join', () => {
  it.each([[[2, 3, 4]], [[4, 3, 2]], [[3, 4, 2]]])(
    'plans the next LLM step once, whatever the order of the records: %j',
    (order) => {
      const scenario = afterAsking([call('a'), call('b'), call('c')]);
      for (const [index, seq] of order.entries()) {
        expect(scenario.steps).toHaveLength(4);
        scenario.perform(seq, value(`result ${seq}`));
        expect(scenario.run.openSteps).toBe(index === 2 ? 1 : 2 - index);
      }
      expect(scenario.dispatches).toEqual([{ queue: 'llm', runId: 'run_1', seq: 5, dispatch: 1 }]);
      expect(scenario.history).toEqual([
        'user: the task',
        'assistant: a, b, c',
        'tool: result 2',
        'tool: result 3',
        'tool: result 4',
      ]);
    },
  );

  it('waits for a call that is tried again', () => {
    const scenario = afterAsking([call('a'), call('b')]);
    scenario.perform(2, fails());
    scenario.perform(3, value('b'));
    expect(scenario.statuses).toEqual(['completed', 'pending', 'completed']);
    scenario.perform(2, value('a'));
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending']);
  });

  it('suspends the run while every call left waits, and goes on with the last answer', () => {
    const scenario = afterAsking([call('pay', { effect: 'once', identicalTo: 9 }), call('look')]);
    expect(scenario.statuses).toEqual(['completed', 'suspended:operator', 'pending']);
    expect(scenario.run.status).toBe('running');
    scenario.perform(3, value('seen'));
    expect(scenario.run).toMatchObject({ status: 'suspended', openSteps: 1, suspendedSteps: 1 });
    scenario.change((draft) => resolveStep(draft, 2, { as: 'done', observation: text('paid by hand') }));
    expect(scenario.run.status).toBe('running');
    expect(scenario.history.slice(2)).toEqual(['tool: paid by hand', 'tool: seen']);
  });
});

describe('a call that cannot be executed', () => {
  it('is a completed step with its fault as its result, beside the others', () => {
    const scenario = afterAsking([faulty('nothing'), call('look')]);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'pending']);
    expect(scenario.step(2)).toMatchObject({
      error: { code: 'not_executed' },
      attempt: 0,
      output: 'there is no tool nothing',
    });
    scenario.perform(3, value('seen'));
    expect(scenario.history.slice(2)).toEqual(['tool: there is no tool nothing', 'tool: seen']);
  });

  it('joins at once when there is no other', () => {
    const scenario = afterAsking([faulty('nothing'), faulty('nowhere')]);
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending']);
    expect(scenario.run).toMatchObject({ stepsUsed: 4, turnsUsed: 1 });
  });

  it('never takes the run past its step limit, nor the room of a call that can be', () => {
    const scenario = afterAsking([faulty('x'), faulty('y'), call('look'), faulty('z')], { limits: { maxSteps: 4 } });
    // 1 LLM step, 1 of the 2 left for tools, and the LLM step that is kept back.
    expect(scenario.statuses).toEqual(['completed', 'completed', 'completed', 'pending', 'completed']);
    expect(scenario.run.stepsUsed).toBe(3);
    scenario.perform(4, value('seen'));
    expect(scenario.run.stepsUsed).toBe(4);
  });
});

describe('a sequential tool', () => {
  const one = call('queue', { sequential: true });

  it('runs its calls one after another, in the order of the model, beside other calls', () => {
    const scenario = afterAsking([one, call('look'), one, one]);
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'pending', 'suspended:step', 'suspended:step']);
    scenario.perform(3, value('seen'));
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'completed', 'suspended:step', 'suspended:step']);
    scenario.perform(2, value('first'));
    expect(scenario.dispatches.map(({ seq }) => seq)).toEqual([4]);
    expect(scenario.statuses.slice(1)).toEqual(['completed', 'completed', 'pending', 'suspended:step']);
    scenario.perform(4, value('second'));
    scenario.perform(5, value('third'));
    expect(scenario.history.slice(2)).toEqual(['tool: first', 'tool: seen', 'tool: second', 'tool: third']);
  });

  it('keeps its order through a failure that is tried again, and past one that is not', () => {
    const scenario = afterAsking([{ ...one, maxAttempts: 2 }, one]);
    scenario.perform(2, fails());
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'suspended:step']);
    scenario.perform(2, fails());
    expect(scenario.statuses.slice(1)).toEqual(['completed', 'pending']);
  });

  it('asks an operator about an identical once call only when its turn has come', () => {
    const pay = call('pay', { sequential: true, effect: 'once' });
    const scenario = afterAsking([pay, { ...pay, identicalTo: 7 }]);
    expect(scenario.statuses.slice(1)).toEqual(['pending', 'suspended:step']);
    scenario.perform(2, value('paid'));
    expect(scenario.step(3)).toMatchObject({ waitingFor: 'operator', waitDetail: 'identical:7' });
    scenario.change((draft) => resolveStep(draft, 3, { as: 'rerun' }));
    expect(scenario.statuses.slice(1)).toEqual(['completed', 'pending']);
  });

  it('begins anew with each turn', () => {
    const scenario = afterAsking([one]);
    scenario.perform(2, value('first'));
    scenario.perform(3, asks(one, one));
    expect(scenario.statuses.slice(3)).toEqual(['pending', 'suspended:step']);
  });
});

describe('a final answer that does not satisfy the schema', () => {
  const objection = { text: 'total: expected a number', tokens: 6 };

  it('is handed back with the objection, and the better one completes the run', () => {
    const scenario = new Scenario();
    scenario.perform(1, says('{}', { objection }));
    expect(scenario.run).toMatchObject({ status: 'running', objections: 1 });
    expect(scenario.history).toEqual(['user: the task', 'assistant: {}', 'user: total: expected a number']);
    scenario.perform(2, says('{"total":1}', { isJson: true }));
    expect(scenario.run).toMatchObject({ status: 'completed', output: '{"total":1}', outputIsJson: true });
  });

  it('fails the run after a bounded number of objections', () => {
    const scenario = new Scenario();
    for (let seq = 1; seq <= objectionLimit; seq++) scenario.perform(seq, says('{}', { objection }));
    expect(scenario.run.status).toBe('running');
    scenario.perform(objectionLimit + 1, says('{}', { objection }));
    expect(scenario.run).toMatchObject({
      status: 'failed',
      reason: 'invalid_output',
      error: { code: 'invalid_output', message: objection.text },
    });
    expect(scenario.step(objectionLimit + 1).status).toBe('completed');
  });
});

describe('a window that moved', () => {
  it('is kept with the run, and what lies before it is not sent again', () => {
    const scenario = afterAsking([call('look')]);
    scenario.perform(2, value('seen'));
    scenario.perform(3, { ...asks(call('look')), window: { windowFrom: 3, digestBefore: 0 } });
    scenario.perform(4, value('again'));
    expect(scenario.run.windowFrom).toBe(3);
  });
});

it('resolves nothing that does not wait for an answer', () => {
  const scenario = afterAsking([call('look')]);
  expect(refusalOf(() => scenario.change((draft) => resolveStep(draft, 2, { as: 'rerun' })))).toBe('conflict');
  expect(refusalOf(() => scenario.change((draft) => resolveStep(draft, 9, { as: 'rerun' })))).toBe('not_found');
});
