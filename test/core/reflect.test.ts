/** Judgements of final answers: when one is due, how it is read, and that neither rounds nor limits are ever exceeded. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cancelRun } from '../../src/core/commands.js';
import { guardLlmStep, roomForReflection } from '../../src/core/limits.js';
import type { Outcome } from '../../src/core/outcome.js';
import { answerToJudge, type Judgement, readJudgement } from '../../src/core/reflect.js';
import { isFinal } from '../../src/core/run.js';
import { afterAsking, asks, call, judges, lastWords, Scenario, says, usage, value } from '../support/scenario.js';

const objected: Judgement = { is: 'objected', objection: 'no number is given' };
const draft = (rounds: number) => says('a draft', { reflect: { rounds } });

describe('a final answer of an agent that reflects', () => {
  it('is kept, and judged by a step of its own; what is accepted becomes the output', () => {
    const scenario = new Scenario();
    scenario.perform(1, draft(1));
    expect(scenario.run).toMatchObject({ status: 'running', output: null, turnsUsed: 1 });
    expect(answerToJudge(scenario.rows.messages)).toEqual({ seq: 1, content: 'a draft' });
    scenario.perform(2, judges(1, { is: 'accepted' }));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'answer 1', reason: null, turnsUsed: 1 });
    expect(scenario.step(2)).toMatchObject({ name: 'reflection', kind: 'llm', output: null, error: null });
    expect(scenario.run.usage.inputTokens).toBe(200);
    const event = scenario.rows.events.find(({ type }) => type === 'run.reflected');
    expect(event).toMatchObject({ seq: 2, data: { round: 1, rounds: 1, verdict: 'accepted' } });
  });

  it('goes back to the model with what is objected to, and stands after the last round', () => {
    const scenario = new Scenario();
    scenario.perform(1, draft(1));
    scenario.perform(2, judges(1, objected));
    expect(scenario.history).toEqual(['user: the task', 'assistant: a draft', 'user: no number is given']);
    expect(scenario.step(2).output).toBe('no number is given');
    expect(answerToJudge(scenario.rows.messages)).toBe(null);
    scenario.perform(3, says('better', { reflect: { rounds: 1 } }));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'better', reason: null, objections: 0 });
    const event = scenario.rows.events.find(({ type }) => type === 'run.answer_unjudged');
    expect(event).toMatchObject({ seq: 3, data: { because: 'rounds' } });
  });

  it('stands where the judgement came to nothing, which its step says', () => {
    const scenario = new Scenario();
    scenario.perform(1, draft(2));
    scenario.perform(2, judges(1, { is: 'none', why: 'unreadable' }, 2));
    expect(scenario.run).toMatchObject({ status: 'completed', output: 'answer 1' });
    expect(scenario.step(2)).toMatchObject({ error: { code: 'no_judgement', message: 'unreadable' } });
  });

  it('is not judged where it is the last words of a run at a limit', () => {
    const scenario = new Scenario();
    scenario.perform(1, lastWords('in short', 'max_turns', { reflect: { rounds: 1 } }));
    expect(scenario.run).toMatchObject({ status: 'completed', reason: 'max_turns' });
  });

  it('is judged once by a record that is repeated, and keeps its judgement in a run that is ending', () => {
    const scenario = new Scenario();
    scenario.perform(1, draft(3));
    const token = scenario.claim(2);
    scenario.record(2, token, judges(1, objected));
    expect(scenario.record(2, token, judges(1, objected))).toEqual({ recorded: true, ended: 'completed' });
    expect(scenario.run.conduct?.reflections).toBe(1);
    scenario.perform(3, draft(3));
    const second = scenario.claim(4);
    scenario.change(cancelRun);
    scenario.record(4, second, judges(3, objected));
    expect(scenario.run.status).toBe('cancelled');
    expect(scenario.step(4)).toMatchObject({ status: 'completed', output: 'no number is given' });
  });

  it('does not reset what the loop guard and the breaker count', () => {
    const scenario = afterAsking([call('look')]);
    scenario.perform(2, value('seen'));
    const { conduct } = scenario.run;
    scenario.perform(3, draft(1));
    scenario.perform(4, judges(3, objected));
    expect(scenario.run.conduct).toEqual({ ...conduct, reflections: 1 });
  });
});

describe('the limits of a run', () => {
  const move = fc.record({ calls: fc.nat(2), verdict: fc.nat(3) });
  const limits = fc.record({
    maxSteps: fc.integer({ min: 1, max: 14 }),
    maxTurns: fc.integer({ min: 1, max: 8 }),
    maxTokens: fc.option(fc.integer({ min: 200, max: 3_000 })),
    onLimit: fc.constantFrom('finish' as const, 'fail' as const),
  });
  const verdicts: Judgement[] = [objected, objected, { is: 'none', why: 'unreadable' }, { is: 'accepted' }];

  it('are kept, and so are the rounds, whatever the model answers and whatever is objected to', () => {
    fc.assert(
      fc.property(
        limits,
        fc.integer({ min: 1, max: 5 }),
        fc.array(move, { maxLength: 20 }),
        (limits, rounds, moves) => {
          const scenario = new Scenario({ limits });
          const { run } = scenario;
          for (let at = 0; !isFinal(scenario.run.status) && at < 60; at++) {
            const { calls, verdict } = moves[at] ?? { calls: 0, verdict: 3 };
            const step = scenario.steps.find(({ status }) => status === 'pending') ?? expect.fail();
            const judged = answerToJudge(scenario.rows.messages);
            const guard = guardLlmStep(scenario.run, scenario.now);
            if (step.kind === 'tool') scenario.perform(step.seq, value('seen'));
            else if (judged !== null) {
              const hasRoom = roomForReflection(scenario.run, scenario.now, 'judgement');
              const judgement = judges(judged.seq, verdicts[verdict] ?? expect.fail(), rounds);
              const skipped = { is: 'none', why: 'a limit' } as const;
              const unasked = { ...judges(judged.seq, skipped), usage: null, reserve: null } as Outcome;
              scenario.perform(step.seq, hasRoom ? judgement : unasked);
              // What is objected to can be answered, and what is not judged stands.
              if (!hasRoom) expect(scenario.eventTypes).toContain('run.completed');
              else if (!scenario.eventTypes.includes('run.completed'))
                expect(guardLlmStep(scenario.run, scenario.now).go).toBe(true);
            } else if (!guard.go) scenario.perform(step.seq, { kind: 'limit', reason: guard.reason });
            else if (guard.lastBecause !== null) scenario.perform(step.seq, lastWords('in short', guard.lastBecause));
            else if (calls === 0) scenario.perform(step.seq, draft(rounds));
            else scenario.perform(step.seq, asks(...Array.from({ length: calls }, () => call('look'))));
          }
          const { status, stepsUsed, turnsUsed, usage: spent } = scenario.run;
          expect(isFinal(status)).toBe(true);
          expect(stepsUsed - (limits.onLimit === 'fail' ? 1 : 0)).toBeLessThanOrEqual(limits.maxSteps);
          expect(turnsUsed).toBeLessThanOrEqual(limits.maxTurns);
          const oneCall = usage.inputTokens + usage.outputTokens;
          const most = (run.limits.maxTokens ?? Number.POSITIVE_INFINITY) + oneCall;
          expect(spent.inputTokens + spent.outputTokens).toBeLessThanOrEqual(most);
          const judgements = scenario.steps.filter(({ name }) => name === 'reflection');
          expect(judgements.length).toBeLessThanOrEqual(rounds);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('a judgement', () => {
  it.each([
    ['{"accepted": true}', { is: 'accepted' }],
    ['It is fine.\n```json\n{"accepted": true, "objections": ""}\n```', { is: 'accepted' }],
    ['{"accepted": false, "objections": "no number"}', { is: 'objected', objection: 'no number' }],
    ['{"accepted": false, "objections": ["a", "b"]}', { is: 'objected', objection: 'a\nb' }],
  ])('is read from %s', (text, expected) => {
    expect(readJudgement(text)).toEqual(expected);
  });

  it.each([null, '', 'fine', '{"accepted": tr', '{"accepted": false}', '{"accepted": "yes"}', '[true]', '{}'])(
    'is none in %j',
    (text) => {
      expect(readJudgement(text)).toMatchObject({ is: 'none', why: expect.stringMatching(/./) });
    },
  );

  it('is read from any text without a fault, and says no more than can be stored', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), fc.string({ unit: 'binary' }), (text, objections) => {
        readJudgement(text);
        const said = readJudgement(JSON.stringify({ accepted: false, objections }));
        if (said.is === 'objected') expect(said.objection.isWellFormed() && !said.objection.includes('\0')).toBe(true);
      }),
    );
  });
});
