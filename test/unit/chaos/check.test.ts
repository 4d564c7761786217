/**
 * The checker can fail: of a good history one thing is spoiled at a time, as a fault in the engine would, and it must say so
 * under the right name and no other; and it must let the good one pass.
 */
import { describe, expect, it } from 'vitest';
import { judge } from '../../chaos/campaign/check/judge.js';
import { printReport } from '../../chaos/campaign/check/print.js';
import { secretsIn } from '../../chaos/campaign/check/secrets.js';
import type { EventDump, Evidence, Expected, Fault, Hit, StepDump } from '../../chaos/campaign/evidence.js';
import { fault, goodHistory, secret } from './good-history.js';

/** What spoils it, the names under which it must be found, and how. */
type Bad = [what: string, names: string[], spoil: (evidence: Evidence) => void];

const bad: Bad[] = [
  // I1
  [
    'a step is missing among the seqs',
    ['I1', 'I5', 'I7', 'output'],
    ({ tables }) => remove(tables.steps, stepOf(tables, 4)),
  ],
  [
    'a step has two completed outcomes',
    ['I1'],
    (evidence) => insertEvent(evidence, 'step.completed', 2, 'step.completed', 3),
  ],
  [
    'an outcome left no message',
    ['I1', 'I7'],
    ({ tables }) =>
      remove(
        tables.messages,
        at(tables.messages, (row) => row.seq === 1 && row.pos === 1 && row.run_id === 'run_1'),
      ),
  ],
  [
    'a step is open again though its outcome was told',
    ['I1', 'I3'],
    ({ tables }) => {
      Object.assign(stepOf(tables, 2), { status: 'running', finished_at: null });
      at(tables.events, (event) => event.type === 'step.completed' && event.seq === 2).at = null;
    },
  ],
  [
    'a turn is joined before its last call is over',
    ['I1'],
    (evidence) => insertEvent(evidence, 'step.retry', 5, 'step.completed', 4),
  ],
  // I2
  [
    'a final run came out otherwise later',
    ['I2'],
    ({ clients }) => {
      const look = last(clients, (call) => call.op === 'seen_final' && call.runId === 'run_1');
      if (look.answer.ok) look.answer.output = 'plan 0 is done: babe';
    },
  ],
  ['a final run was written to', ['I2'], (evidence) => insertEvent(evidence, 'step.rescued', 5, 'run.completed', null)],
  [
    'a run was redriven by nobody',
    ['I2'],
    ({ clients }) =>
      remove(
        clients,
        at(clients, (call) => call.op === 'redrive'),
      ),
  ],
  // I3, liveness
  [
    'an accepted start has no run',
    ['I3'],
    ({ tables }) => {
      for (const table of ['runs', 'steps', 'attempts', 'messages', 'events'] as const)
        tables[table] = (tables[table] as { id?: unknown; run_id?: string }[]).filter(
          (row) => (row.run_id ?? row.id) !== 'run_2',
        ) as never;
    },
  ],
  [
    'one key has two runs',
    ['I3'],
    ({ clients }) => {
      const start = last(clients, (call) => call.op === 'start' && call.runId === 'run_1');
      start.runId = 'run_9';
    },
  ],
  ['a run miscounts its open steps', ['I3'], ({ tables }) => Object.assign(runOf(tables, 'run_1'), { open_steps: 1 })],
  ['a run is left with a step that nobody takes', ['liveness'], (evidence) => leavePending(evidence)],
  [
    'a run waits for its turn and for nothing outside',
    ['liveness'],
    (evidence) => {
      leavePending(evidence);
      Object.assign(stepOf(evidence.tables, 1, 'run_2'), { status: 'suspended', waiting_for: 'step' });
      Object.assign(runOf(evidence.tables, 'run_2'), { status: 'suspended', suspended_steps: 1 });
    },
  ],
  ['a run stands still, able to move', ['I3'], (evidence) => standStill(evidence)],
  // I8
  [
    'a run stands still after the queue was wiped',
    ['I8'],
    (evidence) => {
      standStill(evidence);
      const beganAt = evidence.meta.startedAt - 30_000;
      fault(evidence, { kind: 'queue_wiped', target: 'redis', beganAt, endedAt: beganAt });
    },
  ],
  // I4
  [
    'a step was completed by another claim than its own',
    ['I4'],
    ({ tables }) => {
      const step = stepOf(tables, 5);
      step.finished_at = earlier(step.finished_at, 5_000);
    },
  ],
  [
    'a claim that completed its step was never called back',
    ['I4'],
    ({ tables, workers }) => {
      const { claim_token: token } = stepOf(tables, 2);
      remove(
        workers,
        at(workers, (line) => line.what === 'gap' && line.gap === 'after_call' && line.token === token),
      );
    },
  ],
  [
    'a claim left two traces',
    ['I4', 'section 2'],
    ({ tables }) => {
      at(tables.attempts, (row) => row.seq === 2).token = stepOf(tables, 2).claim_token ?? '';
    },
  ],
  [
    'a claim left no trace',
    ['I4', 'section 5'],
    ({ tables }) =>
      remove(
        tables.attempts,
        at(tables.attempts, (row) => row.seq === 2),
      ),
  ],
  [
    'a repeated record did not find its receipt',
    ['I4'],
    ({ tables }) => {
      at(tables.attempts, (row) => row.ended_by === 'failure').late_note = 'returned late: llm_failure';
    },
  ],
  [
    'a swallowed reply cost a claim',
    ['I4'],
    (evidence) => {
      const { token, seq, started_at } = at(evidence.tables.attempts, (row) => row.seq === 3);
      const inFlight = [{ runId: 'run_1', seq, gap: null, token }];
      const beganAt = Date.parse(String(started_at)) - 5;
      at(evidence.tables.attempts, (row) => row.token === token).recorded = false;
      fault(evidence, {
        kind: 'reply_swallowed',
        target: 'postgres',
        beganAt,
        endedAt: beganAt,
        inFlight,
        details: { what: 'claim' },
      });
    },
  ],
  // Section 2
  [
    'a job of an old dispatch claimed its step',
    ['section 2'],
    ({ tables, workers }) => {
      const { claim_token: token } = stepOf(tables, 2);
      for (const line of workers) if (line.what === 'gap' && line.token === token) line.dispatch = 1;
    },
  ],
  // I5
  [
    'a repeated call carried another key',
    ['I5'],
    ({ ledger }) => Object.assign(hitOf(ledger, 2, 2), { key: 'other', applied: true, deduped: false }),
  ],
  [
    'two calls carried one key',
    ['I5'],
    ({ ledger, tables }) => {
      const { key } = hitOf(ledger, 2, 1);
      for (const hit of ledger) if (hit.seq === 4) hit.key = key;
      stepOf(tables, 4).idempotency_key = key;
    },
  ],
  [
    'a completed call never took effect',
    ['I5'],
    ({ ledger }) => {
      for (const hit of ledger) if (hit.seq === 2) hit.applied = false;
    },
  ],
  // I6
  [
    'a once call started again though nobody said that it did not happen',
    ['I6'],
    (evidence) => replaceEvent(evidence, 'step.did_not_happen', 'step.noted'),
  ],
  [
    'a once call was repeated like any other after a crash',
    ['I6'],
    (evidence) => {
      const step = stepOf(evidence.tables, 4);
      step.attempt = 2;
      for (const row of evidence.tables.attempts) if (row.seq === 4) row.ended_by = 'crash';
      for (const line of evidence.workers) if (line.what === 'gap' && line.token === step.claim_token) line.attempt = 2;
      replaceEvent(evidence, 'step.unknown', 'step.noted', 4);
    },
  ],
  ['an unknown fate was not shown', ['I6'], (evidence) => replaceEvent(evidence, 'step.unknown', 'step.noted', 4)],
  [
    'an unknown fate was settled and nobody was asked',
    ['I6'],
    (evidence) => {
      replaceEvent(evidence, 'step.suspended', 'step.noted', 3);
      replaceEvent(evidence, 'step.resolved', 'step.noted', 3);
    },
  ],
  [
    'an unknown fate was guessed',
    ['I6'],
    ({ tables }) => Object.assign(stepOf(tables, 4), { error_code: null, error_message: null }),
  ],
  // I7
  [
    'a request had an unanswered call',
    ['I7'],
    ({ model }) =>
      Object.assign(
        at(model, (call) => call.seq === 5),
        { breach: 'call c2 has no result' },
      ),
  ],
  [
    'a request cannot be read',
    ['I7'],
    ({ model }) =>
      Object.assign(
        at(model, (call) => call.fault === '429'),
        { breach: 'no system message', plan: null },
      ),
  ],
  // I10
  [
    'a lost call was billed and not counted',
    ['I10'],
    ({ tables }) => {
      for (const row of tables.attempts) if (row.seq === 5) row.usage_estimated = false;
      Object.assign(runOf(tables, 'run_1'), { usage_estimated: false });
    },
  ],
  [
    'a run counts less than its attempts',
    ['I10'],
    ({ tables }) => Object.assign(runOf(tables, 'run_1'), { input_tokens: 100 }),
  ],
  // I11
  [
    'a step was claimed after the cancel',
    ['I11'],
    (evidence) => {
      const cancel = at(evidence.tables.events, (event) => event.type === 'run.cancel_requested');
      cancel.at = earlier(cancel.at, 200);
    },
  ],
  [
    'a cancelled call went on',
    ['I11'],
    ({ tables }) => {
      const step = stepOf(tables, 1, 'run_2');
      step.finished_at = earlier(step.finished_at, -6_000);
    },
  ],
  [
    'a cancel was accepted and the run failed',
    ['I11', 'I2', 'output'],
    ({ tables }) => Object.assign(runOf(tables, 'run_2'), { status: 'failed' }),
  ],
  // Section 5
  ['a crash was not counted', ['section 5'], (evidence) => crashTwice(evidence, 0)],
  [
    'a step went on after its last attempt',
    ['section 5'],
    ({ tables }) => Object.assign(stepOf(tables, 1), { max_attempts: 0 }),
  ],
  [
    'a tool was given up after one attempt of three',
    ['section 5'],
    ({ tables }) => Object.assign(stepOf(tables, 2), { error_code: 'threw' }),
  ],
  ['one attempt called its tool twice', ['section 5'], ({ ledger }) => ledger.push({ ...hitOf(ledger, 2, 2), n: 99 })],
  [
    'one attempt asked the model twice',
    ['section 5'],
    ({ model }) => model.push({ ...at(model, (call) => call.fault === '429'), n: 99 }),
  ],
  // Section 7
  [
    'a living worker was declared dead while nothing was broken',
    ['section 7'],
    ({ meta, workers }) => {
      const fields = { workerId: 'worker_3' };
      const msg = 'a worker is declared dead';
      workers.push({ at: meta.endedAt, worker: 'a2', pid: 102, what: 'log', level: 'warn', msg, fields });
    },
  ],
  // Processes
  [
    'a worker ended by a fault of its own',
    ['process'],
    ({ meta, workers }) => {
      workers.push({ at: meta.endedAt, worker: 'a2', pid: 102, what: 'exited', code: 1, signal: null });
    },
  ],
  [
    'a constraint refused an outcome',
    ['section 5'],
    ({ meta, workers }) => {
      const fields = { runId: 'run_1', seq: 2, cause: 'duplicate key' };
      const msg = 'the outcome cannot be stored';
      workers.push({ at: meta.endedAt, worker: 'a2', pid: 102, what: 'log', level: 'error', msg, fields });
    },
  ],
  [
    'the clients never saw everything over',
    ['liveness'],
    ({ meta }) => {
      meta.settledAt = null;
    },
  ],
  // Section 8: threads
  [
    'two runs of a thread were under way at once',
    ['section 8'],
    ({ tables }) => {
      const end = at(tables.events, (event) => event.run_id === 'run_5' && event.type === 'run.completed');
      end.at = earlier(end.at, -1_035);
    },
  ],
  [
    'a run waited for a thread that nobody had',
    ['section 8'],
    ({ tables }) => {
      for (const event of tables.events)
        if (event.run_id === 'run_6' && event.id > 3) event.at = earlier(event.at, -25_000);
    },
  ],
  [
    'a run was started in another thread',
    ['section 8'],
    ({ tables }) => Object.assign(runOf(tables, 'run_1'), { thread_id: 'another' }),
  ],
  [
    'a run was not shown what was said before it in its thread',
    ['section 8'],
    ({ tables }) =>
      remove(
        tables.messages,
        at(tables.messages, (row) => row.run_id === 'run_6' && row.seq === -1),
      ),
  ],
  [
    'a start was refused though its thread was free',
    ['section 8'],
    ({ clients }) => {
      const refused = at(clients, ({ answer }) => !answer.ok && answer.code === 'conflict');
      refused.beganAt += 30_000;
      refused.endedAt += 30_000;
    },
  ],
  [
    'a run waited that was to be refused',
    ['I3', 'section 8'],
    ({ tables }) => Object.assign(runOf(tables, 'run_6'), { agent: 'soloist' }),
  ],
  // Facts
  ['a fact was lost', ['I1'], ({ tables }) => tables.facts.pop()],
  ['a fact was written twice', ['I1'], ({ tables }) => tables.facts.push(...tables.facts)],
  [
    'a fact was written of a call that said none',
    ['I1'],
    ({ tables }) => tables.facts.push({ ...at(tables.facts, () => true), run_id: 'run_1' }),
  ],
  [
    'a fact has another value',
    ['I1'],
    ({ tables }) =>
      Object.assign(
        at(tables.facts, () => true),
        { value: 'ee' },
      ),
  ],
  [
    'a fact is kept for others',
    ['I1'],
    ({ tables }) =>
      Object.assign(
        at(tables.facts, () => true),
        { owner: 'clerk' },
      ),
  ],
  // Fallbacks
  [
    'a run went on with a model that answers no more',
    ['section 5'],
    ({ tables, model }) => {
      replaceEvent({ tables }, 'step.fell_back', 'step.retry');
      for (const call of model) if (call.plan === 3) call.model = 'scripted-first';
      Object.assign(stepOf(tables, 1, 'run_4'), { name: 'scripted-first' });
    },
  ],
  [
    'the next model had not all its tries',
    ['section 5'],
    ({ tables }) => Object.assign(stepOf(tables, 1, 'run_4'), { failures: 4 }),
  ],
  [
    'an answer is said to be of another model than gave it',
    ['section 5'],
    ({ tables }) => Object.assign(stepOf(tables, 1, 'run_3'), { name: 'scripted-first' }),
  ],
  [
    'a run that has fallen back asked its first model again',
    ['section 5'],
    ({ model }) => {
      const call = at(model, ({ plan }) => plan === 3);
      model.push({ ...call, seq: 3, n: 99 });
    },
  ],
  [
    'a run fell back twice',
    ['section 5'],
    ({ tables }) => {
      const fell = at(tables.events, ({ type }) => type === 'step.fell_back');
      Object.assign(
        at(tables.events, ({ run_id, type }) => run_id === 'run_4' && type === 'step.retry'),
        {
          type: fell.type,
          data: fell.data,
        },
      );
    },
  ],
  [
    'a run fell back to a model that is not the next of its agent',
    ['section 5'],
    ({ tables }) => {
      const fell = at(tables.events, ({ type }) => type === 'step.fell_back');
      fell.data = JSON.stringify({ ...JSON.parse(fell.data ?? ''), to: 'another' });
    },
  ],
  [
    'a model was asked that is none of its agent',
    ['section 5'],
    ({ model }) =>
      Object.assign(
        at(model, ({ fault }) => fault === '429'),
        { model: 'another' },
      ),
  ],
  // Section 3: results that are kept
  [
    'a result of another agent was given again',
    ['section 3'],
    ({ tables, expected }) => {
      Object.assign(runOf(tables, 'run_10'), { agent: 'broker' });
      Object.assign(planOf(expected, 9), { agent: 'broker' });
    },
  ],
  [
    'a result was given again that had expired',
    ['section 3'],
    ({ workers }) => {
      for (const line of workers)
        if (line.what === 'gap' && line.runId === 'run_7' && line.seq === 2) line.at -= 20_000;
    },
  ],
  [
    'what a failed call said was given again',
    ['section 3'],
    ({ ledger }) => Object.assign(hitOf(ledger, 2, 1, 'run_7'), { answer: 'lost' }),
  ],
  [
    'a result of something else was given again',
    ['section 3'],
    ({ expected }) =>
      Object.assign(
        at(planOf(expected, 9).calls, () => true),
        { token: 'eeeeeeeeee' },
      ),
  ],
  [
    'a result was given that nobody had got',
    ['section 3'],
    ({ tables }) => {
      const said = messageOf(tables, 'run_10', 1, 1);
      said.body = said.body.replace(/hit \d+/, 'hit 999');
    },
  ],
  [
    'the result of another call was given as its own',
    ['section 3'],
    ({ tables }) => Object.assign(stepOf(tables, 2, 'run_10'), { note: null }),
  ],
  ['a tool was called though its result was kept', ['section 3'], (evidence) => callAgain(evidence)],
  [
    'a result was given again of a tool that keeps none',
    ['section 3'],
    ({ tables }) => Object.assign(stepOf(tables, 2), { note: 'cache' }),
  ],
  // Section 6: tools withdrawn
  ['a tool was called that had been withdrawn', ['section 6'], (evidence) => withdrawEarlier(evidence, 135)],
  [
    'a call of a withdrawn tool was planned',
    ['section 6'],
    ({ tables }) => Object.assign(stepOf(tables, 5, 'run_8'), { error_code: 'not_executed' }),
  ],
  [
    'a call was answered as withdrawn that nobody had withdrawn',
    ['section 6'],
    (evidence) => {
      evidence.clients = evidence.clients.filter(({ op }) => op !== 'disable_tool' && op !== 'enable_tool');
    },
  ],
  [
    'a tool was withdrawn from another agent than was meant',
    ['section 6'],
    ({ clients }) => {
      for (const call of clients) if ('tool' in call) call.agent = 'clerk';
    },
  ],
  [
    'a tool of an agent was withdrawn when it had been given back',
    ['section 6'],
    ({ clients }) => {
      const back = at(clients, ({ op }) => op === 'enable_tool');
      back.beganAt -= 150;
      back.endedAt -= 150;
    },
  ],
  [
    'a tool that may be withdrawn returned what it never said',
    ['section 6'],
    ({ tables }) => {
      const said = messageOf(tables, 'run_8', 1, 1);
      said.body = said.body.replace('abcabcabca', 'eeeeeeeeee');
    },
  ],
  // Long runs
  ['a summary was lost', ['I1', 'output'], ({ tables }) => remove(tables.messages, messageOf(tables, 'run_9', 3, 0))],
  [
    'a run went on without a summary',
    ['output'],
    ({ tables }) => Object.assign(stepOf(tables, 3, 'run_9'), { error_code: 'no_summary' }),
  ],
  [
    'turns were left out',
    ['output'],
    ({ tables }) =>
      Object.assign(
        at(tables.events, ({ run_id, type }) => run_id === 'run_9' && type === 'run.started'),
        { type: 'run.trimmed' },
      ),
  ],
  [
    'that a run was summed up is not told',
    ['output'],
    (evidence) => replaceEvent(evidence, 'run.compacted', 'run.noted'),
  ],
  [
    'a run was summed up that had room',
    ['output'],
    ({ tables, expected }) => {
      Object.assign(runOf(tables, 'run_9'), { agent: 'clerk' });
      Object.assign(planOf(expected, 8), { agent: 'clerk' });
    },
  ],
  [
    'a run outgrew its window and was not summed up',
    ['output'],
    ({ tables, expected }) => {
      Object.assign(runOf(tables, 'run_1'), { agent: 'archivist' });
      Object.assign(planOf(expected, 0), { agent: 'archivist' });
      messageOf(tables, 'run_1', 1, 1).tokens = 3_000;
    },
  ],
  [
    'a summary is said to be what the model did not write',
    ['section 5'],
    ({ model }) =>
      Object.assign(
        at(model, ({ reply }) => reply === 'summary'),
        { reply: 'text' },
      ),
  ],
  // Plans and judgements
  [
    'a plan came to none',
    ['output'],
    ({ tables }) => Object.assign(stepOf(tables, 1, 'run_11'), { error_code: 'no_plan' }),
  ],
  ['that a plan was made is not told', ['output'], (evidence) => replaceEvent(evidence, 'run.planned', 'run.noted')],
  [
    'a plan is said to be what the model did not write',
    ['section 5'],
    ({ model }) =>
      Object.assign(
        at(model, ({ reply }) => reply === 'plan'),
        { reply: 'text' },
      ),
  ],
  [
    'an answer was given out without its judgement',
    ['output'],
    (evidence) => replaceEvent(evidence, 'run.reflected', 'run.answer_unjudged'),
  ],
  [
    'a run made a plan that was to make none',
    ['output'],
    ({ tables }) =>
      Object.assign(
        at(tables.events, ({ run_id, type }) => run_id === 'run_12' && type === 'run.started'),
        { type: 'run.planned' },
      ),
  ],
  // Whole outputs
  ['a whole output was lost', ['I1'], ({ tables }) => tables.outputs.pop()],
  ['a whole output was kept twice', ['I1'], ({ tables }) => tables.outputs.push(...tables.outputs)],
  [
    'a whole output is not what the tool returned',
    ['I1'],
    ({ tables }) =>
      Object.assign(
        at(tables.outputs, () => true),
        { body: 'done: dig' },
      ),
  ],
  [
    'the model was shown another part than that of the output',
    ['I1'],
    ({ tables }) => {
      const said = messageOf(tables, 'run_9', 1, 1);
      said.body = said.body.replace(/found/g, 'lost');
    },
  ],
  [
    'a whole output was kept of a step that has none',
    ['I1'],
    ({ tables }) => tables.outputs.push({ ...at(tables.outputs, () => true), run_id: 'run_1' }),
  ],
  [
    'a whole output was kept of no step',
    ['I1'],
    ({ tables }) => tables.outputs.push({ ...at(tables.outputs, () => true), seq: 99 }),
  ],
  // Outputs
  [
    'an answer was objected to that is sound',
    ['output'],
    ({ expected }) =>
      Object.assign(
        at(expected, ({ plan }) => plan === 2),
        { objections: 0 },
      ),
  ],
  [
    'a draft was not objected to',
    ['output'],
    ({ expected }) =>
      Object.assign(
        at(expected, ({ plan }) => plan === 0),
        { objections: 1 },
      ),
  ],
  [
    'a run answered otherwise than its plan',
    ['output'],
    ({ expected }) =>
      Object.assign(
        at(expected, (plan) => plan.plan === 0),
        { output: 'plan 0 is done: babe' },
      ),
  ],
  [
    'a run took a step that nobody planned',
    ['output'],
    ({ expected }) => at(expected, (plan) => plan.plan === 0).calls.pop(),
  ],
  [
    'a run was cancelled by nobody',
    ['output'],
    ({ expected }) =>
      Object.assign(
        at(expected, (plan) => plan.plan === 1),
        { cancels: false },
      ),
  ],
];

describe('the checker', () => {
  it('passes a good history', () => {
    const report = judge(goodHistory());
    expect(report.breaches.map(({ text }) => text)).toEqual([]);
    expect(report.missing).toEqual([]);
    expect(report.verdict).toBe('passed');
  });

  it.each(bad)('finds that %s', (_, names, spoil) => {
    const evidence = goodHistory();
    spoil(evidence);
    const report = judge(evidence);
    expect(namesOf(report), texts(report)).toEqual(names.sort());
    expect(report.verdict).toBe('failed');
  });

  it('accepts that a crash is counted of a suspect alone', () => {
    const evidence = goodHistory();
    crashTwice(evidence, 1);
    expect(judge(evidence).breaches).toEqual([]);
  });

  it('accepts that a crash of the server takes an unwritten claim with it, whose call is made again', () => {
    const evidence = goodHistory();
    claimInVain(evidence, 2);
    crashServer(evidence);
    expect(judge(evidence).breaches).toEqual([]);
  });

  it('accepts the call of a claim that went so and was made by none again, as where its run was cancelled meanwhile', () => {
    const evidence = goodHistory();
    claimInVain(evidence, 2, true);
    expect(namesOf(judge(evidence))).toEqual(['I4', 'section 5']);
    crashServer(evidence);
    expect(judge(evidence).breaches).toEqual([]);
  });

  it.each<[string, string, string[]]>([
    ['accepts', 'postgres', []],
    ['finds also after those of Redis', 'redis', ['I11']],
  ])('%s that a cancelled call went on while connections to Postgres were half open', (_, target, names) => {
    const evidence = goodHistory();
    const step = stepOf(evidence.tables, 1, 'run_2');
    step.finished_at = earlier(step.finished_at, -6_000);
    const cancelled = at(evidence.tables.events, ({ type }) => type === 'run.cancel_requested');
    const sent = Date.parse(String(cancelled.at)) - 3_000;
    const span = { beganAt: sent, endedAt: sent };
    evidence.nemesis.push({ id: 100, kind: 'net_half_open', target, ...span, details: {}, inFlight: [], failed: null });
    expect(namesOf(judge(evidence))).toEqual(names);
  });

  it('finds that a claim went without a crash of the server', () => {
    const evidence = goodHistory();
    claimInVain(evidence, 2);
    expect(namesOf(judge(evidence))).toEqual(['I4', 'section 5']);
  });

  it.each<[string, (claimedAt: number) => number, string[]]>([
    ['accepts', (claimedAt) => claimedAt + 1_000, []],
    ['finds if it was on the disk long before', (claimedAt) => claimedAt + 1_300, ['I4', 'section 5']],
    ['finds if it was made after Postgres was back', (claimedAt) => claimedAt - 2_100, ['I4', 'section 5']],
  ])("%s that Postgres' own panic took a claim", (_, panicAt, names) => {
    const evidence = goodHistory();
    const claimedAt = claimInVain(evidence, 2);
    const beganAt = panicAt(claimedAt);
    fault(evidence, { kind: 'postgres_panicked', target: 'postgres', beganAt, endedAt: beganAt + 2_000 });
    expect(namesOf(judge(evidence))).toEqual(names);
  });

  it("finds that Postgres' own panic took the claim of a once call, which waits for the disk", () => {
    const evidence = goodHistory();
    const beganAt = claimInVain(evidence, 3);
    fault(evidence, { kind: 'postgres_panicked', target: 'postgres', beganAt, endedAt: beganAt + 2_000 });
    expect(namesOf(judge(evidence))).toEqual(['I4', 'I6', 'section 5']);
  });

  it('finds that a crash of the server took the claim of a once call, which waits for the disk', () => {
    const evidence = goodHistory();
    claimInVain(evidence, 3);
    crashServer(evidence);
    expect(namesOf(judge(evidence))).toEqual(['I4', 'I6', 'section 5']);
  });

  it('finds a secret in a text, and does not repeat it', () => {
    const line = { file: 'workers.jsonl', line: 7, text: `{"msg":"key ${secret} was refused"}` };
    const [breach, ...more] = secretsIn(line, [secret]);
    expect(more).toEqual([]);
    expect(breach?.invariant).toBe('I12');
    expect(breach?.text).toContain('workers.jsonl 7');
    expect(breach?.text).not.toContain(secret);
    expect(judge(goodHistory(), breach === undefined ? [] : [breach]).verdict).toBe('failed');
  });
});

describe('a campaign in which too little happened', () => {
  const inconclusive: [string, string, (evidence: Evidence) => void][] = [
    [
      'no kill hit a step in flight',
      'kills that hit a step in flight',
      ({ nemesis }) => Object.assign(faultOf(nemesis, 'kill'), { inFlight: [] }),
    ],
    [
      'no kill could be done',
      'kills that hit a step in flight',
      ({ nemesis }) => Object.assign(faultOf(nemesis, 'kill'), { failed: 'the process was gone' }),
    ],
    [
      'no write was fenced',
      'fenced writes',
      ({ tables }) => {
        for (const row of tables.attempts) row.late_note = null;
      },
    ],
    [
      'no commit was swallowed',
      'swallowed commits',
      ({ nemesis }) => Object.assign(faultOf(nemesis, 'reply_swallowed'), { details: { what: 'start' } }),
    ],
    [
      'the ledger deduped nothing',
      'ledger dedupes',
      ({ ledger }) => Object.assign(hitOf(ledger, 2, 2), { deduped: false }),
    ],
    [
      'nothing was dispatched again',
      'steps dispatched again',
      ({ workers }) => {
        for (const line of workers)
          if (line.what === 'log' && line.msg.includes('dispatched again')) line.msg = 'something else';
      },
    ],
  ];

  it.each(inconclusive)('is inconclusive where %s', (_, count, spoil) => {
    const evidence = goodHistory();
    spoil(evidence);
    const report = judge(evidence);
    expect(report.breaches).toEqual([]);
    expect(report.missing).toEqual([count]);
    expect(report.verdict).toBe('inconclusive');
  });

  it('need not have what its faults did not set out to cause', () => {
    const evidence = goodHistory();
    remove(evidence.nemesis, faultOf(evidence.nemesis, 'reply_swallowed'));
    expect(judge(evidence).verdict).toBe('passed');
  });
});

describe('the report', () => {
  it('shows on one screen what broke, what never happened and what did', () => {
    const evidence = goodHistory();
    for (const { run_id } of [...evidence.tables.runs].map(({ id }) => ({ run_id: id })))
      for (let n = 0; n < 40; n++)
        evidence.model.push({ ...at(evidence.model, () => true), n: 100 + n, breach: run_id });
    for (const row of evidence.tables.attempts) row.late_note = null;
    const printed = printReport(judge(evidence), evidence.meta).split('\n');
    expect(printed[0]).toMatch(/^FAILED: seed 1 on redis, 12 of 12 runs/);
    expect(printed).toContain('I7: 480 breaches');
    expect(printed).toContain('  … and 477 more');
    expect(printed.join('\n')).toMatch(/Never happened.*fenced writes/);
    expect(printed.length).toBeLessThan(50);
    expect(Math.max(...printed.map((line) => line.length))).toBeLessThanOrEqual(182);
  });
});

function namesOf({ breaches }: { breaches: { invariant: string }[] }): string[] {
  return [...new Set(breaches.map(({ invariant }) => invariant))].sort();
}

function texts({ breaches }: { breaches: { text: string }[] }): string {
  return breaches.map(({ text }) => text).join('\n');
}

function at<T>(rows: readonly T[], is: (row: T) => boolean): T {
  const found = rows.find(is);
  if (found === undefined) throw new Error('the good history has no such line');
  return found;
}

function last<T>(rows: readonly T[], is: (row: T) => boolean): T {
  return at([...rows].reverse(), is);
}

function remove<T>(rows: T[], row: T): void {
  rows.splice(rows.indexOf(row), 1);
}

function stepOf(tables: Evidence['tables'], seq: number, runId = 'run_1'): StepDump {
  return at(tables.steps, (step) => step.run_id === runId && step.seq === seq);
}

function runOf(tables: Evidence['tables'], runId: string) {
  return at(tables.runs, (run) => run.id === runId);
}

function hitOf(ledger: readonly Hit[], seq: number, attempt: number, runId = 'run_1'): Hit {
  return at(ledger, (hit) => hit.runId === runId && hit.seq === seq && hit.attempt === attempt);
}

function planOf(expected: readonly Expected[], plan: number): Expected {
  return at(expected, (one) => one.plan === plan);
}

function messageOf(tables: Evidence['tables'], runId: string, seq: number, pos: number) {
  return at(tables.messages, (row) => row.run_id === runId && row.seq === seq && row.pos === pos);
}

/** The call that was given a kept result as if it had been made. */
function callAgain({ tables, ledger }: Evidence): void {
  const step = stepOf(tables, 2, 'run_10');
  const n = ledger.length + 1;
  const made = Date.parse(String(step.finished_at)) - 15;
  const { idempotency_key: key } = step;
  ledger.push({ ...hitOf(ledger, 2, 1, 'run_7'), n, at: made, runId: 'run_10', key: key ?? '' });
  step.note = null;
  const said = messageOf(tables, 'run_10', 1, 1);
  said.body = said.body.replace(/hit \d+/, `hit ${n}`);
}

/** So that a call falls into it that was made. */
function withdrawEarlier({ clients }: Evidence, byMs: number): void {
  const call = at(clients, ({ op }) => op === 'disable_tool');
  call.beganAt -= byMs;
  call.endedAt -= byMs;
}

function faultOf(nemesis: readonly Fault[], kind: Fault['kind']): Fault {
  return at(nemesis, (one) => one.kind === kind);
}

function earlier(time: Date | string | null, byMs: number): string {
  return new Date(Date.parse(String(time)) - byMs).toISOString();
}

/** Tells of something after the last event of that type and step, as if the engine had. */
function insertEvent({ tables }: Evidence, type: string, seq: number, after: string, ofSeq: number | null): void {
  const place = last(tables.events, (event) => event.run_id === 'run_1' && event.type === after && event.seq === ofSeq);
  // A step that is told of before its turn is over is told of before the event that ends it.
  const id = type === 'step.retry' ? place.id : place.id + 1;
  for (const event of tables.events) if (event.run_id === 'run_1' && event.id >= id) event.id += 1;
  tables.events.push({ run_id: 'run_1', id, type, seq, at: place.at, data: null });
  Object.assign(runOf(tables, 'run_1'), { last_event: runOf(tables, 'run_1').last_event + 1 });
}

function replaceEvent({ tables }: Pick<Evidence, 'tables'>, type: string, by: string, seq?: number): void {
  const isMeant = (event: EventDump) => event.type === type && (seq === undefined || event.seq === seq);
  for (const event of tables.events) if (isMeant(event)) event.type = by;
}

/** The second run as if nobody had cancelled it and nobody took its step. */
function leavePending({ tables, clients, model, workers }: Evidence): void {
  const run = {
    status: 'running',
    reason: null,
    finished_at: null,
    open_steps: 1,
    input_tokens: 0,
    output_tokens: 0,
    usage_estimated: false,
  };
  Object.assign(runOf(tables, 'run_2'), { ...run, last_event: 1 });
  const claim = { claim_token: null, worker_id: null, claimed_at: null, claim_deadline: null, usage_estimated: null };
  Object.assign(stepOf(tables, 1, 'run_2'), { ...claim, status: 'pending', finished_at: null, attempt: 0 });
  for (const call of [...clients]) if (call.runId === 'run_2' && call.op !== 'start') remove(clients, call);
  for (const call of [...model]) if (call.plan === 1) remove(model, call);
  for (const line of [...workers]) if (line.what === 'gap' && line.runId === 'run_2') remove(workers, line);
  tables.events = tables.events.filter((event) => event.run_id !== 'run_2' || event.id === 1);
}

/** The second run as if it had been there for a minute before anybody took its step. */
function standStill({ tables }: Evidence): void {
  const run = runOf(tables, 'run_2');
  const created = at(tables.events, (event) => event.run_id === 'run_2' && event.type === 'run.created');
  run.created_at = earlier(run.created_at, 60_000);
  created.at = String(run.created_at);
}

/**
 * The last attempt of a step as if it had been claimed before, and its call made, by a claim of which nothing is left: its time.
 * `isLast`: as if nobody had claimed it as that attempt again.
 */
function claimInVain({ workers, ledger }: Evidence, seq: number, isLast = false): number {
  const gapsOf = workers.flatMap((line) =>
    line.what === 'gap' && line.runId === 'run_1' && line.seq === seq ? [line] : [],
  );
  const claimed = last(gapsOf, ({ gap }) => gap === 'after_claim');
  const numberOf = (attempt: number | null) => Number(attempt) + (isLast ? 1 : 0);
  const lost = gapsOf.filter(
    ({ token, gap }) => token === claimed.token && (gap === 'after_claim' || gap === 'after_call'),
  );
  workers.splice(
    workers.indexOf(claimed),
    0,
    ...lost.map((line) => ({ ...line, token: 'run_1/forgotten', attempt: numberOf(line.attempt) })),
  );
  const hit = last(ledger, (one) => one.seq === seq && one.runId === 'run_1');
  ledger.push({ ...hit, n: ledger.length + 1, attempt: numberOf(hit.attempt), applied: false, deduped: true });
  return claimed.at;
}

function crashServer({ nemesis, meta }: Evidence): void {
  const kind = 'postgres_immediate_restart';
  const span = { beganAt: meta.startedAt, endedAt: meta.endedAt };
  nemesis.push({ id: 100, kind, target: 'postgres', ...span, details: {}, inFlight: [], failed: null });
}

/** Step 2 of the first run as if it had crashed once more, of which so many were counted. */
function crashTwice({ tables, ledger, workers }: Evidence, counted: number): void {
  const crash = at(tables.attempts, (row) => row.seq === 2);
  const step = stepOf(tables, 2);
  const startedAt = earlier(crash.ended_at, -1);
  tables.attempts.push({ ...crash, token: 'run_1/again', attempt: 2, started_at: startedAt, ended_at: startedAt });
  Object.assign(step, { attempt: 3, crashes: counted });
  hitOf(ledger, 2, 2).attempt = 3;
  for (const line of workers) if (line.what === 'gap' && line.token === step.claim_token) line.attempt = 3;
}
