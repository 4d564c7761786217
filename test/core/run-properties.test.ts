/**
 * Whatever happens to a run, in whatever order: its rows stay sound after every move (scenario.ts checks the invariants each
 * time), and it can always be brought to an end. fast-check prints the seed and the shortest sequence that breaks this.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cancelRun, pauseRun, redriveRun, resolveStep, resumeRun } from '../../src/core/commands.js';
import { PawlError } from '../../src/core/errors.js';
import { guardLlmStep, roomForSummary } from '../../src/core/limits.js';
import type { Outcome, PlannedCall } from '../../src/core/outcome.js';
import { answerDeadDelivery, deferStep, meetDeadline, wakeServed } from '../../src/core/recover.js';
import { answerToJudge } from '../../src/core/reflect.js';
import { isFinal } from '../../src/core/run.js';
import type { StepState } from '../../src/core/step.js';
import {
  aborted,
  askOperator,
  asks,
  call,
  fails,
  faulty,
  happenedMaybe,
  judges,
  llmFails,
  plans,
  Scenario,
  says,
  sumsUp,
  tellModel,
  text,
  value,
} from '../support/scenario.js';

const tools: PlannedCall[] = [
  call('look'),
  call('look', { arguments: '{"at":1}', maxAttempts: 1 }),
  call('charge', { effect: 'once' }),
  call('pay', { effect: 'once', sequential: true }),
  call('pay', { effect: 'once', sequential: true, identicalTo: 1 }),
  call('queue', { effect: 'idempotent', sequential: true }),
  faulty('nothing'),
];

const moves = {
  claim: 8,
  record: 12,
  repeat: 1,
  late: 1,
  crash: 2,
  dropped: 1,
  overdue: 1,
  pass: 2,
  deadline: 2,
  pause: 1,
  resume: 2,
  cancel: 0.3,
  resolve: 2,
  redrive: 2,
  dashboard: 1,
  defer: 1,
  wake: 1,
} as const;
type MoveKind = keyof typeof moves;
interface Move {
  kind: MoveKind;
  /** Picks among what the run offers at that moment. */
  pick: number;
  what: number;
  calls: number[];
}

const move: fc.Arbitrary<Move> = fc.record({
  kind: fc.oneof(
    ...Object.entries(moves).map(([kind, weight]) => ({
      weight: weight * 10,
      arbitrary: fc.constant(kind as MoveKind),
    })),
  ),
  pick: fc.nat(50),
  what: fc.nat(50),
  calls: fc.array(fc.nat(tools.length - 1), { minLength: 1, maxLength: 4 }),
});

const start = fc.record({
  maxSteps: fc.integer({ min: 1, max: 14 }),
  maxTurns: fc.integer({ min: 1, max: 6 }),
  deadlineMs: fc.option(fc.integer({ min: 1_000, max: 600_000 })),
  onLimit: fc.constantFrom('finish', 'fail', 'suspend'),
  llmAttempts: fc.integer({ min: 1, max: 3 }),
  delayMs: fc.constantFrom(0, 5_000),
});
type Start = typeof start extends fc.Arbitrary<infer T> ? T : never;

class Player {
  readonly scenario: Scenario;
  /** Every record ever sent, with its answer: a network may repeat any of them. */
  readonly sent: { seq: number; token: string; outcome: Outcome }[] = [];

  /** The `once` calls that were started and may have happened. */
  readonly mayHaveRun = new Set<number>();

  constructor({ llmAttempts, delayMs, ...limits }: Start) {
    this.scenario = new Scenario({ limits, llmAttempts, delayMs });
  }

  play(move: Move): void {
    const { scenario } = this;
    const before = isFinal(scenario.run.status) ? structuredClone({ ...scenario.run, writes: 0 }) : null;
    try {
      this.act(move);
    } catch (error) {
      if (!(error instanceof PawlError && error.code === 'conflict')) throw error;
      scenario.check();
    }
    if (before !== null && scenario.run.status === before.status) {
      expect({ ...scenario.run, writes: 0 }, 'I2: a final run does not change').toEqual(before);
    }
    this.checkLimits();
  }

  /** I10. Under `suspend` the calls beyond the limit are steps already, but none of them has run. */
  private checkLimits(): void {
    const { limits, stepsUsed } = this.scenario.run;
    const started = this.scenario.steps.filter((step) => step.attempt > 0).length;
    const most = { finish: stepsUsed, fail: stepsUsed - 1, suspend: started - 1 }[limits.onLimit];
    expect(most, `I10: ${limits.onLimit} at ${limits.maxSteps} steps`).toBeLessThanOrEqual(limits.maxSteps);
  }

  /** I6: a `once` call starts only if it has not run, or an operator said that it did not happen. */
  private noteStart(seq: number): void {
    const step = this.scenario.step(seq);
    if (step.effect !== 'once' || step.unknown) return;
    expect(this.mayHaveRun.has(seq), `I6: step ${seq} starts once`).toBe(false);
    this.mayHaveRun.add(seq);
  }

  private act({ kind, pick, what, calls }: Move): void {
    const { scenario } = this;
    const among = (status: StepState['status']) => {
      const found = scenario.steps.filter((step) => step.status === status);
      return found[pick % found.length];
    };
    switch (kind) {
      case 'claim': {
        const step = among('pending');
        if (step !== undefined && 'token' in scenario.tryClaim(step.seq)) this.noteStart(step.seq);
        return;
      }
      case 'record': {
        const step = among('running');
        if (step?.claim == null) return;
        const outcome = this.outcomeOf(step, what, calls);
        this.sent.push({ seq: step.seq, token: step.claim.token, outcome });
        if (outcome.kind === 'aborted' && !outcome.started && !step.unknown) this.mayHaveRun.delete(step.seq);
        scenario.record(step.seq, step.claim.token, outcome, what % 3);
        return;
      }
      case 'repeat': {
        const record = this.sent[pick % Math.max(1, this.sent.length)];
        if (record === undefined) return;
        const before = JSON.stringify(scenario.rows, replaceMaps);
        scenario.record(record.seq, record.token, record.outcome);
        expect(JSON.stringify(scenario.rows, replaceMaps), 'a repeated record changes nothing').toBe(before);
        return;
      }
      case 'late': {
        const step = among('running');
        if (step !== undefined) expect(scenario.record(step.seq, 'a stranger', value('late')).recorded).toBe(false);
        return;
      }
      case 'crash':
      case 'dropped':
      case 'overdue': {
        const step = among('running');
        if (step !== undefined) scenario.release(step.seq, kind);
        return;
      }
      case 'pass':
        return scenario.pass([10, 1_000, 10_000, 60_000, 300_000][what % 5] ?? 0);
      case 'deadline':
        return scenario.change(meetDeadline);
      case 'pause':
        return scenario.change(pauseRun);
      case 'resume':
        return scenario.change((draft) => {
          const { maxSteps, maxTurns } = draft.run.limits;
          const raises = [{}, { maxSteps: maxSteps + 1 }, { maxTurns: maxTurns + 2 }, { deadlineMs: 100_000 }];
          resumeRun(draft, raises[what % raises.length] ?? {});
        });
      case 'cancel':
        return scenario.change(cancelRun);
      case 'resolve': {
        const step = among('suspended');
        if (step === undefined) return;
        scenario.change((draft) => resolveStep(draft, step.seq, resolution(what)));
        if (resolution(what).as === 'rerun') this.mayHaveRun.delete(step.seq);
        return;
      }
      case 'redrive':
        scenario.change((draft) => redriveRun(draft, 'command'), 'revivable');
        return;
      case 'dashboard': {
        const step = among('dead');
        if (step === undefined) return;
        const delivery = { seq: step.seq, dispatch: step.dispatch - (what % 2), attemptsMade: what % 4 };
        scenario.change((draft) => answerDeadDelivery(draft, delivery), 'revivable');
        return;
      }
      case 'defer': {
        const step = among('pending');
        if (step !== undefined) scenario.change((draft) => deferStep(draft, step.seq, step.dispatch, what % 3 > 0));
        return;
      }
      case 'wake':
        return scenario.change(wakeServed);
    }
  }

  private judgementOf(seq: number, what: number): Outcome {
    const outcomes: Outcome[] = [
      judges(seq, { is: 'accepted' }),
      judges(seq, { is: 'objected', objection: 'too short' }),
      judges(seq, { is: 'objected', objection: 'too long' }),
      judges(seq, { is: 'none', why: 'unreadable' }),
      { ...judges(seq, { is: 'none', why: 'a limit' }), usage: null, reserve: null } as Outcome,
      llmFails(),
      aborted('shutdown', what % 2 === 0),
    ];
    return outcomes[what % outcomes.length] ?? says('');
  }

  private outcomeOf(step: StepState, what: number, calls: number[]): Outcome {
    const { run } = this.scenario;
    if (step.kind === 'llm') {
      const guard = guardLlmStep(run, this.scenario.now);
      if (!guard.go) return { kind: 'limit', reason: guard.reason };
      const { lastBecause } = guard;
      const objection = what % 11 === 0 ? { text: 'not what was asked', tokens: 4 } : null;
      const judged = answerToJudge(this.scenario.rows.messages);
      if (judged !== null) return this.judgementOf(judged.seq, what);
      const asked = calls.flatMap((index) => tools[index] ?? []);
      const outcomes: Outcome[] = [
        says('the answer', { lastBecause, objection }),
        says('the answer', { lastBecause, objection, reflect: { rounds: 1 + (what % 3) } }),
        ...(lastBecause === null && step.seq === 1 ? [plans('1. look'), plans(null)] : []),
        ...(lastBecause === null && roomForSummary(run) ? [sumsUp(step.seq), sumsUp(step.seq, null)] : []),
        ...(lastBecause === null ? [asks(...asked), asks(...asked), asks(...asked), asks(...asked)] : []),
        llmFails({}, { lastBecause }),
        llmFails({ class: 'terminal', reason: 'refused' }, { lastBecause }),
        llmFails({ class: 'overflow', reason: 'context_overflow' }, { lastBecause, budgetTokens: what % 2 ? 1 : null }),
        aborted('shutdown', what % 2 === 0),
        { kind: 'unstorable', message: 'no' },
      ];
      return outcomes[what % outcomes.length] ?? says('');
    }
    if (step.unknown) {
      const settled: Outcome[] = [
        askOperator,
        tellModel,
        value('it did'),
        aborted('shutdown', false),
        fails({ retry: false }),
      ];
      return settled[what % settled.length] ?? askOperator;
    }
    const outcomes: Outcome[] = [
      value('found'),
      value('found it'),
      step.effect === 'once' ? happenedMaybe : fails(),
      fails({ retry: false, code: 'permission_denied' }),
      aborted('shutdown', what % 2 === 0),
      aborted('ending', what % 2 === 0),
      { kind: 'unstorable', message: 'no' },
    ];
    return outcomes[what % outcomes.length] ?? value('');
  }

  /** Brings the run to its end as workers and operators would: nothing may be stuck, and it may not take for ever. */
  finish(): void {
    const { scenario } = this;
    for (let rounds = 0; !isFinal(scenario.run.status); rounds++) {
      if (rounds > 200) throw new Error(`no end in sight: ${scenario.run.status}, ${scenario.statuses}`);
      for (const step of scenario.steps) this.moveOn(step.seq);
      scenario.pass(20_000);
    }
  }

  private moveOn(seq: number): void {
    const { scenario } = this;
    const step = scenario.step(seq);
    const { maxSteps, maxTurns } = scenario.run.limits;
    const raise = { maxSteps: maxSteps + 5, maxTurns: maxTurns + 5, deadlineMs: 600_000 };
    switch (step.status) {
      case 'running':
        scenario.release(seq, 'dropped');
        return;
      case 'pending': {
        scenario.claim(seq);
        this.noteStart(seq);
        const claimed = scenario.step(seq);
        const guard = guardLlmStep(scenario.run, scenario.now);
        const lastBecause = guard.go ? guard.lastBecause : null;
        const judged = answerToJudge(scenario.rows.messages);
        const outcome: Outcome = claimed.unknown
          ? tellModel
          : claimed.kind === 'tool'
            ? value('done')
            : judged !== null
              ? judges(judged.seq, { is: 'accepted' })
              : guard.go
                ? says('the end', { lastBecause })
                : { kind: 'limit', reason: guard.reason };
        scenario.record(seq, claimed.claim?.token ?? '', outcome);
        return;
      }
      case 'suspended':
        if (step.waitingFor === 'worker') return scenario.change(wakeServed);
        if (step.waitingFor === 'step') return;
        if (step.waitingFor === 'limit' || step.waitDetail === 'paused') {
          return scenario.change((draft) => resumeRun(draft, raise));
        }
        scenario.change((draft) => resolveStep(draft, seq, { as: 'rerun' }));
        this.mayHaveRun.delete(seq);
        return;
      default:
    }
  }
}

function resolution(what: number): Parameters<typeof resolveStep>[2] {
  if (what % 3 === 0) return { as: 'rerun' };
  return { as: what % 3 === 1 ? 'done' : 'failed', observation: text('an operator says') };
}

function replaceMaps(_: string, value: unknown): unknown {
  return value instanceof Map ? [...value] : value;
}

it('keeps the rows of a run sound whatever happens to it, and comes to an end', { timeout: 60_000 }, () => {
  fc.assert(
    fc.property(start, fc.array(move, { maxLength: 60 }), (given, sequence) => {
      const player = new Player(given);
      for (const move of sequence) player.play(move);
      player.finish();
    }),
    { numRuns: 500 },
  );
});
