/** The loop guard and the breaker: what they count, when they act, and what they leave alone. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Conduct, closeTurn, longestCycle, noteCall } from '../../src/core/conduct.js';
import { brokenBy, findRepetition, type LoopRule, type Rung } from '../../src/core/loop.js';
import type { PlannedCall } from '../../src/core/outcome.js';
import { afterAsking, asks, call, fails, faulty, Scenario, says, value } from '../support/scenario.js';

const rule: LoopRule = { identicalCalls: 3, cycle: 4, sameArguments: 10, toolFailures: 3, likeness: 0.92 };

type Turn = [name: string, result: string][];

/** What a run remembers after these turns. */
function remembered(turns: readonly Turn[]): Conduct | null {
  return turns.reduce<Conduct | null>((conduct, turn) => closeTurn(turn.reduce(note, conduct)), null);
}

function note(conduct: Conduct | null, [name, result]: Turn[number]): Conduct {
  const code = /^(threw|not_executed|withheld|permission_denied)/.exec(result)?.[0];
  const error = code === undefined ? null : { code, message: result };
  return noteCall(conduct, { name: name.split(' ')[0] ?? '', callHash: name, text: result, error });
}

function rungs(turns: readonly Turn[], given: Partial<LoopRule> = {}): (Rung | null)[] {
  let conduct: Conduct | null = null;
  return turns.map((turn) => {
    conduct = closeTurn(turn.reduce(note, conduct));
    return findRepetition(conduct, { ...rule, ...given })?.rung ?? null;
  });
}

const times = (n: number, ...turns: Turn[]): Turn[] => Array.from({ length: n }, () => turns).flat();

describe('the loop guard', () => {
  it('climbs its ladder while the same call gets the same result', () => {
    expect(rungs(times(6, [['look', 'nothing']]))).toEqual([null, null, 'tell', 'withhold', 'answer', 'answer']);
    expect(rungs(times(3, [['look', 'nothing']]), { identicalCalls: 2 })).toEqual([null, 'tell', 'withhold']);
  });

  it.each([2, 3, 4])('sees a cycle of %i turns at its third time round', (period) => {
    const cycle = Array.from({ length: period }, (_, n): Turn => [[`look ${n}`, `result ${n}`]]);
    const climbed = rungs(times(4, ...cycle), { sameArguments: 99 });
    expect(climbed.slice(0, 3 * period - 1)).toEqual(Array.from({ length: 3 * period - 1 }, () => null));
    expect(climbed.slice(3 * period - 1, 3 * period + 2)).toEqual(['tell', 'withhold', 'answer']);
  });

  it('looks for no longer cycle than it was told to', () => {
    const cycle = Array.from({ length: 5 }, (_, n): Turn => [[`look ${n}`, `result ${n}`]]);
    expect(rungs(times(3, ...cycle), { sameArguments: 99 }).every((rung) => rung === null)).toBe(true);
    expect(rungs(times(3, ...cycle), { cycle: 5, sameArguments: 99 }).at(-1)).toBe('tell');
  });

  it('does not mind in which order the calls of a turn are answered', () => {
    const turn: Turn = [
      ['look', 'a'],
      ['find', 'b'],
    ];
    expect(rungs([turn, [...turn].reverse(), turn])).toEqual([null, null, 'tell']);
    expect(findRepetition(remembered([turn, turn, turn]), rule)).toMatchObject({
      period: 1,
      turns: 3,
      sameResults: true,
    });
  });

  it('leaves the same tool with other arguments alone', () => {
    const turns = Array.from({ length: 25 }, (_, n): Turn => [[`look ${n}`, 'nothing']]);
    expect(rungs(turns).every((rung) => rung === null)).toBe(true);
  });

  it('begins anew after whatever is new in a turn', () => {
    const same: Turn = [['look', 'nothing']];
    const turns: Turn[] = [same, same, same, [...same, ['find', 'something']], same, same];
    expect(rungs(turns)).toEqual([null, null, 'tell', null, null, null]);
  });

  it('lets a poll go on that gets somewhere, tells it at last, and then stops it', () => {
    const polls = Array.from({ length: 16 }, (_, n): Turn => [['status', `${n} %`]]);
    const climbed = rungs(polls);
    expect(climbed.slice(0, 9).every((rung) => rung === null)).toBe(true);
    expect(climbed.slice(9)).toEqual(['tell', 'tell', 'tell', 'tell', 'tell', 'withhold', 'answer']);
    expect(findRepetition(remembered(polls.slice(0, 12)), rule)).toMatchObject({ turns: 12, sameResults: false });
  });

  it('knows a call that cannot be executed by what is wrong with it, not by its arguments', () => {
    const wrong = Array.from({ length: 3 }, (_, n): Turn => [[`find ${n}`, 'not_executed: there is no such tool']]);
    expect(rungs(wrong)).toEqual([null, null, 'tell']);
    const mended = wrong.map(([[name] = ['']], n): Turn => [[name, `not_executed: field ${n} is wrong`]]);
    expect(rungs(mended)).toEqual([null, null, null]);
  });

  it('tells a model that repeats a failing call before the breaker opens, not when it is too late', () => {
    const failed = times(2, [['look', 'threw: down']] as Turn);
    expect(rungs(failed)).toEqual([null, 'tell']);
    const changing: Turn[] = [[['look', 'threw: 1']], [['look', 'threw: 2']]];
    expect(findRepetition(remembered(changing), rule)).toEqual({
      rung: 'tell',
      period: 1,
      turns: 2,
      sameResults: false,
    });
    expect(rungs([...failed, ...failed], { toolFailures: 5 }), 'the breaker is far').toEqual([
      null,
      null,
      'tell',
      'withhold',
    ]);
    expect(rungs([[['look', 'threw: down']], [['look else', 'threw: down']]]), 'another way').toEqual([null, null]);
    expect(rungs(times(2, [['look', 'nothing']] as Turn)), 'nothing failed').toEqual([null, null]);
  });

  it('counts calls that were withheld as what they would have been', () => {
    const same = times(4, [['look', 'nothing']] as Turn);
    expect(rungs([...same, [['look', 'withheld']]])).toEqual([null, null, 'tell', 'withhold', 'answer']);
    expect(rungs([...same, [['look else', 'nothing']]]).at(-1)).toBeNull();
  });
});

describe('the breaker', () => {
  const failed: Turn = [['look', 'threw: down']];
  const turnsOf = (turns: Turn[]) => brokenBy(remembered(turns), rule)?.turns ?? null;

  it('counts a turn whose calls all failed once, and opens at the third', () => {
    expect(turnsOf([failed, failed])).toBeNull();
    expect(turnsOf([[...failed, ['find', 'threw: down']], failed, failed])).toBe(3);
    expect(brokenBy(remembered([failed, failed, failed]), rule)).toEqual({ turns: 3, lastError: 'look: threw: down' });
  });

  it('is reset by any success', () => {
    expect(turnsOf([failed, failed, [...failed, ['find', 'found']], failed, failed])).toBeNull();
    expect(remembered([failed, [['find', 'found']]])?.lastError).toBeNull();
  });

  it('hears nothing in calls that were not executed or were refused permission', () => {
    const neutral: Turn[] = [[['x', 'not_executed: no such tool']], [['charge', 'permission_denied: not yours']]];
    expect(turnsOf([...neutral, ...neutral, ...neutral])).toBeNull();
    expect(turnsOf([failed, failed, ...neutral, failed])).toBe(3);
  });
});

describe('a tool', () => {
  const twice = call('look', { maxCalls: 2 });

  it('with a limit of calls is not called beyond it, within a turn or later', () => {
    const scenario = afterAsking([twice]);
    scenario.perform(2, value('a'));
    scenario.perform(3, asks(twice, call('find'), twice));
    expect(scenario.statuses.slice(3)).toEqual(['pending', 'pending', 'completed']);
    expect(scenario.step(6)).toMatchObject({ attempt: 0, error: { code: 'not_executed' } });
    expect(scenario.step(6).output).toContain('2 times');
    scenario.perform(4, value('b'));
    scenario.perform(5, value('c'));
    scenario.perform(7, asks(twice));
    expect(scenario.step(8)).toMatchObject({ status: 'completed', error: { code: 'not_executed' } });
    expect(scenario.run.conduct?.calls).toEqual({ look: 2 });
  });

  it('of any name is counted by itself', () => {
    const scenario = afterAsking([call('toString', { maxCalls: 1 }), call('look')]);
    expect(scenario.run.conduct?.calls).toEqual({ toString: 1 });
  });

  it('that refuses permission is remembered as closed, once', () => {
    const scenario = afterAsking([call('charge'), call('charge')]);
    scenario.perform(2, fails({ retry: false, code: 'permission_denied' }));
    scenario.perform(3, fails({ retry: false, code: 'permission_denied' }));
    expect(scenario.run.conduct?.closed).toEqual(['charge']);
  });
});

describe('a run', () => {
  it('remembers its turns on its row, each once, whatever is repeated', () => {
    const scenario = afterAsking([call('look'), call('find')]);
    const token = scenario.claim(2);
    const found = value('found');
    scenario.record(2, token, found);
    scenario.record(2, token, found);
    expect(scenario.run.conduct?.turn).toMatchObject({ calls: 1, answered: 1 });
    scenario.perform(3, fails({ retry: true }));
    expect(scenario.run.conduct?.turn.calls, 'a failed attempt is no answer').toBe(1);
    scenario.perform(3, fails({ retry: false }));
    expect(scenario.run.conduct).toMatchObject({ turn: { calls: 0 }, asked: [expect.any(Number)], failedTurns: 0 });
    scenario.perform(4, says('done'));
    expect(scenario.run.conduct?.asked).toHaveLength(1);
  });

  it('counts calls without a tool in the turn', () => {
    const scenario = new Scenario();
    for (const seq of [1, 3, 5]) scenario.perform(seq, asks(faulty('nothing')));
    expect(findRepetition(scenario.run.conduct, rule)?.rung).toBe('tell');
    expect(scenario.step(2).error?.code).toBe('not_executed');
  });

  it('says which calls were withheld', () => {
    const fault: PlannedCall['fault'] = { text: 'look was not called', tokens: 4, code: 'withheld' };
    const scenario = new Scenario();
    scenario.perform(1, asks(call('look', { fault })));
    expect(scenario.step(2)).toMatchObject({ status: 'completed', error: { code: 'withheld' }, attempt: 0 });
    expect(scenario.rows.messages.at(-2)?.message).toMatchObject({ role: 'tool', error: 'withheld' });
  });

  it('that the breaker stops fails in place of its next LLM step, with the last error', () => {
    const scenario = afterAsking([call('look')]);
    scenario.perform(2, fails({ retry: false }));
    const error = { code: 'breaker_open', message: 'the last error: down' };
    scenario.perform(3, { kind: 'stop', reason: 'breaker_open', error });
    expect(scenario.statuses).toEqual(['completed', 'completed', 'cancelled']);
    expect(scenario.run).toMatchObject({ status: 'failed', reason: 'breaker_open', error });
  });

  it('that stops early completes in place of its next LLM step', () => {
    const scenario = afterAsking([call('look')]);
    scenario.perform(2, value('42'));
    scenario.perform(3, { kind: 'stop_early', output: '42', isJson: false });
    expect(scenario.statuses).toEqual(['completed', 'completed', 'cancelled']);
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'stopped_early', output: '42', error: null });
  });

  it('that is being cancelled meanwhile does neither', () => {
    for (const outcome of [
      { kind: 'stop_early', output: '42', isJson: false },
      { kind: 'stop', reason: 'loop_detected', error: { code: 'loop_detected', message: 'again' } },
    ] as const) {
      const scenario = afterAsking([call('look')]);
      scenario.perform(2, value('42'));
      const token = scenario.claim(3);
      scenario.change((draft) => draft.endRun('cancelled', 'cancelled', null));
      scenario.record(3, token, outcome);
      expect(scenario.run).toMatchObject({ status: 'cancelled', output: null });
    }
  });
});

/** The properties below hold for any rule; the seed of a failure is printed. */
const anyRule = fc.record({
  identicalCalls: fc.integer({ min: 2, max: 6 }),
  cycle: fc.integer({ min: 1, max: longestCycle }),
  sameArguments: fc.integer({ min: 2, max: 20 }),
  toolFailures: fc.integer({ min: 1, max: 5 }),
});
const anyCall = fc.tuple(
  fc.constantFrom('a', 'b', 'c', 'd 1', 'd 2'),
  fc.constantFrom('x', 'y', 'z', 'threw: down', 'not_executed: no such tool'),
);
const anyTurn = fc.array(anyCall, { minLength: 1, maxLength: 4 });

describe('for any rule', { timeout: 60_000 }, () => {
  it('a run that repeats a cycle the guard looks for is stopped within the stated number of turns', () => {
    fc.assert(
      fc.property(
        anyRule,
        fc.array(anyTurn),
        fc.array(anyTurn, { minLength: 1, maxLength: longestCycle }),
        (given, before, cycle) => {
          fc.pre(cycle.length <= given.cycle);
          const most = cycle.length * given.identicalCalls + 2;
          const turns = [...before, ...times(most, ...cycle).slice(0, most)];
          expect(rungs(turns, given).slice(before.length)).toContain('answer');
        },
      ),
      { numRuns: 500 },
    );
  });

  it('a run that asks for the same is stopped however its results change', () => {
    fc.assert(
      fc.property(anyRule, anyTurn, (given, turn) => {
        const most = Math.ceil(given.sameArguments * 1.5) + 1;
        const turns = Array.from({ length: most }, (_, n) => turn.map(([name]): Turn[number] => [name, `at ${n}`]));
        expect(rungs(turns, { ...given, sameArguments: Math.max(2, given.sameArguments) }).at(-1)).toBe('answer');
      }),
      { numRuns: 200 },
    );
  });

  it('a run whose every turn asks for something new is never told nor stopped', () => {
    fc.assert(
      fc.property(anyRule, fc.array(anyTurn, { maxLength: 40 }), (given, junk) => {
        const turns = junk.map((turn, n): Turn => [...turn, [`new ${n}`, 'x']]);
        expect(rungs(turns, given).every((rung) => rung === null)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('what a run remembers does not grow with its turns', () => {
    fc.assert(
      fc.property(fc.array(anyTurn, { minLength: 100, maxLength: 200 }), (turns) => {
        expect(JSON.stringify(remembered(turns)).length).toBeLessThan(1_000);
      }),
      { numRuns: 50 },
    );
  });
});
