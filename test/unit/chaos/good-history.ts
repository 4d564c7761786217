/**
 * A small campaign in which everything that must happen does, and nothing that must not: the evidence that the checker's
 * tests spoil one thing of each. The rows are moved by the rules themselves; what the world outside, the workers and the
 * clients saw is written down beside them, as a campaign would.
 */
import { cancelRun, redriveRun, resolveStep } from '../../../src/core/commands.js';
import type { Outcome } from '../../../src/core/outcome.js';
import { toStorableText } from '../../../src/core/storable.js';
import { takeThread } from '../../../src/core/thread.js';
import { type Gap, gaps } from '../../../src/engine/gaps.js';
import { writeAttempt, writeRun, writeStep } from '../../../src/postgres/rows.js';
import { acceptRun, type RunRows } from '../../../src/testing/memory-runs.js';
import type {
  ClientAnswer,
  ClientOp,
  Evidence,
  Expected,
  Fault,
  FaultKind,
  Hit,
  ModelCall,
  WorkerDump,
} from '../../chaos/campaign/evidence.js';
import { resultOf } from '../../chaos/campaign/result.js';
import { tools } from '../../chaos/campaign/trade.js';
import {
  aborted,
  askedRun,
  askOperator,
  asks,
  call,
  fails,
  happenedMaybe,
  judges,
  listing,
  llmFails,
  plans,
  Scenario,
  says,
  sumsUp,
  tellModel,
  text,
  usage,
  value,
} from '../../support/scenario.js';

type Place = 'a1' | 'a2';
/** The processes that hold the two places; `worker_3` follows `worker_1` when that is killed. */
type Crew = Record<Place, { id: string; pid: number }>;
export const secret = 'sk-campaign-4711';

/** One run and everything that was seen of it. */
class Story extends Scenario {
  constructor(
    readonly evidence: Evidence,
    readonly crew: Crew,
    readonly runId: string,
    readonly expected: Expected,
  ) {
    super();
    evidence.expected.push(expected);
    const { key, task, plan, thread: threadId } = expected;
    const isBusy = evidence.expected.some((other) => other !== expected && other.thread === threadId);
    if (threadId !== null) this.rows = acceptRun(askedRun('run_1', { threadId }), listing, this.now, isBusy);
    this.client({ op: 'start', plan, key, task }, { ...plainly, status: 'accepted', created: true });
    this.client({ op: 'start', plan, key, task }, { ...plainly, status: 'accepted', created: false });
  }

  get at(): number {
    return this.now.getTime();
  }

  client(op: ClientOp, answer: ClientAnswer): void {
    this.evidence.clients.push({
      ...op,
      client: 'client 1',
      runId: 'tool' in op ? null : this.runId,
      beganAt: this.at,
      endedAt: this.at,
      answer,
    });
  }

  seen(): void {
    const { status, reason, output, finishedAt } = this.run;
    const at = finishedAt?.toISOString() ?? null;
    this.client({ op: 'seen_final' }, { ...plainly, status, reason, output, finishedAt: at });
  }

  /** Claims a step, in a worker that passes the first two gaps. */
  begin(seq: number, by: Place): string {
    this.pass(10);
    this.gap('before_claim', seq, by, null);
    const answer = this.tryClaim(seq, { workerId: this.crew[by].id });
    if ('refusal' in answer) throw new Error(`the claim of step ${seq} was refused: ${answer.refusal}`);
    this.gap('after_claim', seq, by, answer.token);
    this.pass(10);
    return answer.token;
  }

  /** The claim's call came back, and its outcome is recorded. */
  end(seq: number, by: Place, token: string, outcome: Outcome): void {
    this.pass(10);
    this.gap('after_call', seq, by, token);
    this.pass(10);
    this.record(seq, token, outcome);
    for (const gap of gaps.slice(3)) this.gap(gap, seq, by, token);
  }

  gap(gap: Gap, seq: number, by: Place, token: string | null): void {
    const { dispatch, attempt } = this.step(seq);
    const ids = { runId: this.runId, seq, dispatch, attemptsMade: 0 };
    const claim = { attempt: token === null ? null : attempt, token: token === null ? null : this.name(token) };
    this.evidence.workers.push({ at: this.at, worker: by, pid: this.crew[by].pid, what: 'gap', gap, ...ids, ...claim });
  }

  asked(seq: number, more: Partial<ModelCall> = {}): void {
    const { model } = this.evidence;
    const turn = this.expected.llmSeqs.indexOf(seq);
    const billed = { inputTokens: usage.inputTokens, outputTokens: usage.outputTokens };
    const base = {
      n: model.length + 1,
      at: this.at,
      plan: this.expected.plan,
      turn,
      seq,
      breach: null,
      model: 'scripted',
    };
    model.push({ ...base, reply: 'calls', fault: null, usage: billed, delivered: true, ...more });
  }

  hit(seq: number, more: Partial<Hit> = {}): void {
    const { ledger } = this.evidence;
    const { attempt, idempotencyKey, name: tool, effect } = this.step(seq);
    const ids = { runId: this.runId, seq, attempt, key: `${this.runId}/${idempotencyKey}`, plan: this.expected.plan };
    const result = { token: 'aa', applied: true, deduped: false, answer: 'ok' as const };
    ledger.push({ n: ledger.length + 1, at: this.at, tool, effect: effect ?? 'none', ...ids, ...result, ...more });
  }

  /** Token names are counted for each run alone. */
  name(token: string): string {
    return `${this.runId}/${token}`;
  }

  dump(): void {
    dumpRows(this.evidence, this.runId, this.expected, this.rows, (token) => this.name(token));
  }
}

const plainly = { ok: true, status: '', reason: null, output: null, finishedAt: null, created: null } as const;

export function goodHistory(): Evidence {
  const crew: Crew = { a1: { id: 'worker_1', pid: 101 }, a2: { id: 'worker_2', pid: 102 } };
  const evidence = emptyEvidence();
  const expected = { ...expectedOf(1, 'clerk'), output: 'never said', cancels: true, llmSeqs: [1] };
  const second = new Story(evidence, crew, 'run_2', expected);
  evidence.meta.startedAt = second.at;
  evidence.workers.push(...arrives(crew, 'a1', second.at), ...arrives(crew, 'a2', second.at));
  cancelledRun(second);
  second.dump();
  const others = { output: 'done', llmSeqs: [1] };
  const noted = { seq: 2, tool: 'note', effect: 'idempotent', token: 'dd', applies: 1 } as const;
  const third = { ...expectedOf(2, 'assessor'), ...others, calls: [noted], llmSeqs: [1, 3, 4], objections: 1 };
  notedAndObjectedTo(new Story(evidence, crew, 'run_3', third));
  fallenBack(new Story(evidence, crew, 'run_4', { ...expectedOf(3, 'broker'), ...others, fallsBackAt: 0 }));
  const inThread = (plan: number) => ({ ...expectedOf(plan, 'soloist'), ...others, thread: 'soloist 0' });
  oneAfterTheOther(
    new Story(evidence, crew, 'run_5', inThread(4)),
    new Story(evidence, crew, 'run_6', { ...inThread(5), agent: 'caller' }),
  );
  const quoted = { tool: 'quote', effect: 'none', token: tokenOfItem, applies: 0 } as const;
  const buying = { ...others, calls: [{ seq: 2, ...quoted }], llmSeqs: [1, 3] };
  keptAndGivenAgain(
    new Story(evidence, crew, 'run_7', { ...expectedOf(6, 'buyer'), ...buying }),
    new Story(evidence, crew, 'run_10', { ...expectedOf(9, 'buyer'), ...buying }),
  );
  const lent = (seq: number) =>
    ({ seq, tool: 'lend', effect: 'idempotent', token: 'abcabcabca', applies: 'at most 1' }) as const;
  const lending = { ...expectedOf(7, 'lender'), ...others, calls: [lent(2), lent(3), lent(5)] };
  withdrawn(new Story(evidence, crew, 'run_8', { ...lending, llmSeqs: [1, 4, 6] }));
  const dug = { seq: 2, tool: 'dig', effect: 'idempotent', token: tokenOfItem, applies: 1 } as const;
  summedUp(
    new Story(evidence, crew, 'run_9', { ...expectedOf(8, 'archivist'), ...others, calls: [dug], llmSeqs: [1, 3] }),
  );
  const aside = { ...others, llmSeqs: [2], asides: [1] };
  plannedFirst(new Story(evidence, crew, 'run_11', { ...expectedOf(10, 'planner'), ...aside }));
  const twice = { llmSeqs: [1, 3], asides: [2, 4], output: 'answer 3' };
  judgedTwice(new Story(evidence, crew, 'run_12', { ...expectedOf(11, 'editor'), ...twice }));
  const first = new Story(evidence, crew, 'run_1', {
    ...expectedOf(0, 'teller'),
    output: 'plan 0 is done: cafe',
    calls: [
      { seq: 2, tool: 'put', effect: 'idempotent', token: 'aa', applies: 1 },
      { seq: 3, tool: 'charge', effect: 'once', token: 'bb', applies: 1 },
      { seq: 4, tool: 'tell', effect: 'once', token: 'cc', applies: 'at most 1' },
    ],
    llmSeqs: [1, 5],
  });
  first.pass(12_000);
  firstTurn(first);
  keyedCall(first);
  callOfUnknownFate(first);
  toldCall(first);
  lastTurn(first);
  first.dump();
  fault(evidence, { kind: 'quiet', target: '', beganAt: first.at, endedAt: first.at + 60_000 });
  const settledAt = first.at + 60_000;
  Object.assign(evidence.meta, { lastFaultAt: first.at, settledAt, endedAt: settledAt });
  // As it is read from a folder: times are text.
  return JSON.parse(JSON.stringify(evidence)) as Evidence;
}

/** The model is asked twice: the first time it is busy. */
function firstTurn(run: Story): void {
  const refused = run.begin(1, 'a1');
  run.asked(1, { reply: 'fault', fault: '429', usage: null });
  run.end(1, 'a1', refused, llmFails({}, { retryInMs: 100 }));
  run.pass(100);
  const token = run.begin(1, 'a1');
  run.asked(1);
  const calls = [
    call('put', { effect: 'idempotent', arguments: '{"ref":"0.0.0"}' }),
    call('charge', { effect: 'once', arguments: '{"ref":"0.0.1"}' }),
    call('tell', { effect: 'once', arguments: '{"ref":"0.0.2"}' }),
  ];
  run.end(1, 'a1', token, asks(...calls));
}

/** Its worker is killed before it can record; the other one repeats the call, under the same key. */
function keyedCall(run: Story): void {
  const { evidence, crew } = run;
  const lost = run.begin(2, 'a1');
  run.hit(2);
  const inFlight = [{ runId: run.runId, seq: 2, gap: 'after_claim' as const, token: run.name(lost) }];
  fault(evidence, { kind: 'kill', target: 'a1', beganAt: run.at, endedAt: run.at + 1_000, inFlight });
  const dead = crew.a1;
  evidence.workers.push({ at: run.at, worker: 'a1', pid: dead.pid, what: 'exited', code: null, signal: 'SIGKILL' });
  run.pass(1_000);
  crew.a1 = { id: 'worker_3', pid: 103 };
  evidence.workers.push(...arrives(crew, 'a1', run.at));
  run.pass(8_000);
  log(evidence, run.at, 'a worker is declared dead', { workerId: dead.id });
  run.release(2, 'crash');
  log(evidence, run.at, 'a lost claim was taken back', { runId: run.runId, seq: 2, cause: 'crash' });
  fault(evidence, { kind: 'queue_wiped', target: 'redis', beganAt: run.at, endedAt: run.at });
  run.pass(3_000);
  log(evidence, run.at, 'due steps were missing in the queue and are dispatched again', { steps: 1 });
  const token = run.begin(2, 'a2');
  run.hit(2, { applied: false, deduped: true });
  run.end(2, 'a2', token, value('done: put [aa]'));
}

/** Nobody knows whether it happened: an operator is asked, says that it did not, and then that it did. */
function callOfUnknownFate(run: Story): void {
  const token = run.begin(3, 'a1');
  run.hit(3, { token: 'bb', applied: false, answer: 'lost' });
  run.end(3, 'a1', token, happenedMaybe);
  run.end(3, 'a2', run.begin(3, 'a2'), askOperator);
  run.change((draft) => resolveStep(draft, 3, { as: 'rerun' }));
  run.client({ op: 'resolve', step: 3, as: 'rerun' }, { ...plainly, status: 'running' });
  const again = run.begin(3, 'a1');
  run.hit(3, { token: 'bb', answer: 'lost' });
  run.end(3, 'a1', again, happenedMaybe);
  run.end(3, 'a2', run.begin(3, 'a2'), askOperator);
  run.change((draft) => resolveStep(draft, 3, { as: 'done', observation: text('done [bb]') }));
  run.client({ op: 'resolve', step: 3, as: 'done' }, { ...plainly, status: 'running' });
}

function toldCall(run: Story): void {
  const token = run.begin(4, 'a1');
  run.hit(4, { token: 'cc', answer: 'lost' });
  run.end(4, 'a1', token, happenedMaybe);
  run.end(4, 'a2', run.begin(4, 'a2'), tellModel);
}

/** A zombie asks the model, is taken for dead, and comes back too late; the run fails for a moment, and is redriven. */
function lastTurn(run: Story): void {
  const { evidence, crew } = run;
  const late = run.begin(5, 'a2');
  run.asked(5, { delivered: false });
  const inFlight = [{ runId: run.runId, seq: 5, gap: 'after_claim' as const, token: run.name(late) }];
  fault(evidence, { kind: 'zombie', target: 'a2', beganAt: run.at, endedAt: run.at + 12_000, inFlight });
  run.pass(9_000);
  log(evidence, run.at, 'a worker is declared dead', { workerId: crew.a2.id });
  run.release(5, 'crash');
  const token = run.begin(5, 'a1');
  run.asked(5, { reply: 'fault', fault: '400', usage: null });
  run.end(5, 'a1', token, llmFails({ class: 'terminal', code: 'invalid_request', reason: 'invalid_request' }));
  run.seen();
  run.pass(4_000);
  run.record(5, late, says('too late'));
  run.gap('after_call', 5, 'a2', late);
  const noted = run.rows.attempts.find((attempt) => attempt.token === late);
  if (noted !== undefined) noted.lateNote = 'returned late: reply';
  run.change((draft) => redriveRun(draft, 'command'), 'revivable');
  run.client({ op: 'redrive' }, { ...plainly, status: 'running' });
  const last = run.begin(5, 'a1');
  run.asked(5, { reply: 'text' });
  run.end(5, 'a1', last, says('plan 0 is done: cafe'));
  const swallowed = [{ runId: run.runId, seq: 5, gap: 'after_call' as const, token: run.name(last) }];
  const details = { what: 'record' };
  const span = { beganAt: run.at - 20, endedAt: run.at };
  fault(evidence, { kind: 'reply_swallowed', target: 'postgres', ...span, details, inFlight: swallowed });
  run.pass(1_000);
  run.seen();
}

/** Cancelled while the model was asked: the call is aborted and costs an estimate. */
function cancelledRun(run: Story): void {
  run.pass(3_000);
  const token = run.begin(1, 'a1');
  run.asked(1, { delivered: false });
  run.pass(100);
  run.change(cancelRun);
  run.client({ op: 'cancel' }, { ...plainly, status: 'running' });
  run.pass(1_000);
  run.end(1, 'a1', token, aborted('ending'));
  run.seen();
}

/** Its call says a fact, and its first answer is no answer. */
function notedAndObjectedTo(run: Story): void {
  const token = run.begin(1, 'a1');
  run.asked(1);
  run.end(1, 'a1', token, asks(call('note', { effect: 'idempotent', arguments: '{"ref":"2.0.0"}' })));
  const noting = run.begin(2, 'a2');
  run.hit(2, { token: 'dd' });
  run.end(2, 'a2', noting, value('done: note [dd]'));
  const { runId: run_id, evidence } = run;
  evidence.tables.facts.push({ id: 1, scope: 'agent', owner: 'assessor', key: '2.0.0', value: 'dd', run_id, seq: 2 });
  const drafting = run.begin(3, 'a1');
  run.asked(3, { reply: 'text' });
  run.end(3, 'a1', drafting, says('a draft', { objection: text('a draft is no answer') }));
  run.end(4, 'a2', answer(run, 4), says('done'));
  run.seen();
  run.dump();
}

/** The first of its models is asked in vain, for as often as it may be. */
function fallenBack(run: Story): void {
  const models = { failed: 'scripted-first', next: 'scripted', first: 'scripted-first' };
  for (let tries = 0; tries < listing.llmAttempts; tries++) {
    const token = run.begin(1, 'a1');
    run.asked(1, { model: 'scripted-first', reply: 'fault', fault: '503 page', usage: null });
    run.end(1, 'a1', token, llmFails({}, { retryInMs: 100, models }));
    run.pass(100);
  }
  run.end(1, 'a2', answer(run, 1), says('done'));
  run.seen();
  run.dump();
}

/** The second waits for the first, and is shown what it said. A start that may not wait is refused meanwhile. */
function oneAfterTheOther(first: Story, second: Story): void {
  const refused = { ok: false, code: 'conflict', message: '' } as const;
  const { plan, key, task } = second.expected;
  first.end(1, 'a2', answer(first, 1), says('done'));
  first.seen();
  second.pass(30);
  second.client({ op: 'start', plan, key, task }, refused);
  second.pass(1_000);
  second.change(takeThread);
  const { expected } = first;
  const said = { role: 'user', content: expected.task } as const;
  second.rows.messages.push({ seq: -1, pos: 0, tokens: 3, message: said });
  second.end(1, 'a2', answer(second, 1), says('done'));
  second.seen();
  first.dump();
  second.dump();
}

const tokenOfItem = '0123456789';

/** The second asks for the same, and is given what the first was told. */
function keptAndGivenAgain(first: Story, second: Story): void {
  const quote = call('quote', { arguments: '{"ref":"item 0.1"}' });
  for (const run of [first, second]) {
    const token = run.begin(1, 'a1');
    run.asked(1);
    run.end(1, 'a1', token, asks(quote));
  }
  const called = first.begin(2, 'a1');
  first.hit(2, { plan: null, token: tokenOfItem, applied: false });
  const result = resultOf('quote', { token: tokenOfItem, n: first.evidence.ledger.length });
  first.end(2, 'a1', called, value(result));
  second.pass(2_000);
  second.end(2, 'a2', second.begin(2, 'a2'), { kind: 'tool_value', value: text(result), note: 'cache' });
  for (const run of [first, second]) {
    run.end(3, 'a2', answer(run, 3), says('done'));
    run.seen();
    run.dump();
  }
}

/** One call is made before its tool is withdrawn, one is planned before, and one is asked for after that. */
function withdrawn(run: Story): void {
  const disabled = { text: 'lend was not called', tokens: 3, code: 'tool_disabled' } as const;
  const lend = (ref: string) => call('lend', { effect: 'idempotent', arguments: JSON.stringify({ ref }) });
  const token = run.begin(1, 'a1');
  run.asked(1);
  run.end(1, 'a1', token, asks(lend('7.0.0'), lend('7.0.1')));
  const lending = run.begin(2, 'a1');
  run.hit(2, { token: 'abcabcabca' });
  run.end(2, 'a1', lending, value('done: lend [abcabcabca]'));
  run.pass(100);
  run.client({ op: 'disable_tool', tool: 'lend', agent: 'lender' }, plainly);
  run.end(3, 'a2', run.begin(3, 'a2'), fails({ code: 'tool_disabled', retry: false }));
  const asking = run.begin(4, 'a2');
  run.asked(4);
  run.end(4, 'a2', asking, asks({ ...lend('7.1.0'), fault: disabled }));
  run.pass(100);
  run.client({ op: 'enable_tool', tool: 'lend', agent: 'lender' }, plainly);
  run.end(6, 'a2', answer(run, 6), says('done'));
  run.seen();
  run.dump();
}

/** A long result, kept whole; then the turn of it is summed up before the answer. */
function summedUp(run: Story): void {
  const token = run.begin(1, 'a1');
  run.asked(1);
  run.end(1, 'a1', token, asks(call('dig', { effect: 'idempotent', arguments: '{"ref":"8.0.0"}' })));
  const whole = resultOf('dig', { token: tokenOfItem, n: 0 });
  const shown = toStorableText(whole, tools.dig.shownChars ?? 0).text;
  const digging = run.begin(2, 'a1');
  run.hit(2, { token: tokenOfItem });
  run.end(2, 'a1', digging, { kind: 'tool_value', value: { text: shown, tokens: 2_200, full: whole } });
  const summing = run.begin(3, 'a2');
  run.asked(3, { turn: 1, reply: 'summary' });
  run.end(3, 'a2', summing, sumsUp(1));
  const answering = run.begin(4, 'a2');
  run.asked(4, { turn: 1, reply: 'text' });
  run.end(4, 'a2', answering, says('done'));
  run.seen();
  run.dump();
}

/** A plan, and what follows from it. */
function plannedFirst(run: Story): void {
  const token = run.begin(1, 'a1');
  run.asked(1, { turn: 0, reply: 'plan' });
  run.end(1, 'a1', token, plans('1. carry it out'));
  run.end(2, 'a2', answer(run, 2), says('done'));
  run.seen();
  run.dump();
}

/** A draft that is objected to, and an answer that is accepted. */
function judgedTwice(run: Story): void {
  for (const [seq, verdict] of [
    [1, { is: 'objected', objection: 'a draft is no answer' }],
    [3, { is: 'accepted' }],
  ] as const) {
    run.end(seq, 'a2', answer(run, seq), says('a draft', { reflect: { rounds: 2 } }));
    const token = run.begin(seq + 1, 'a1');
    run.asked(seq + 1, { turn: seq, reply: 'reflection' });
    run.end(seq + 1, 'a1', token, judges(seq, verdict, 2));
  }
  run.seen();
  run.dump();
}

/** Claims an LLM step whose model answers with text. */
function answer(run: Story, seq: number): string {
  const token = run.begin(seq, 'a2');
  run.asked(seq, { reply: 'text' });
  return token;
}

function expectedOf(plan: number, agent: string): Expected {
  const named = { plan, task: `seed 1 plan ${plan}`, key: `plan-${plan}`, agent, thread: null };
  const nothing = { reason: null, output: null, objections: 0, fallsBackAt: null };
  return { ...named, ...nothing, status: 'completed', cancels: false, calls: [], llmSeqs: [], asides: [] };
}

function emptyEvidence(): Evidence {
  const machine = { cpus: 1, cpu: '', memoryMb: 1, os: '', node: '', postgres: '', redis: null };
  const settings = {
    runs: 12,
    minutes: 1,
    heartbeatMs: 2_000,
    deathMs: 8_000,
    layout: 'aa',
    concurrency: 4,
    openRuns: 2,
  };
  const times = { startedAt: 0, lastFaultAt: 0, settledAt: 0, livenessMs: 60_000, endedAt: 0 };
  const workerRow = (id: string, pid: number, state: WorkerDump['state']): WorkerDump => {
    return { id, pid, role: 'all', state, beat: 9, loop_lag_ms: 0, started_at: '', ended_at: null };
  };
  const rows = [
    workerRow('worker_1', 101, 'dead'),
    workerRow('worker_2', 102, 'dead'),
    workerRow('worker_3', 103, 'live'),
  ];
  return {
    meta: { seed: 1, commit: 'abc', machine, backend: 'redis', settings, unavailable: {}, secrets: [secret], ...times },
    expected: [],
    clients: [],
    nemesis: [],
    ledger: [],
    model: [],
    workers: [],
    tables: {
      instance: [],
      workers: rows,
      runs: [],
      steps: [],
      attempts: [],
      messages: [],
      events: [],
      outputs: [],
      facts: [],
    },
  };
}

function arrives(crew: Crew, worker: Place, at: number): Evidence['workers'] {
  const { id, pid } = crew[worker];
  return [
    { at, worker, pid, what: 'spawned', role: 'all', clockOffMs: 0 },
    { at, worker, pid, what: 'ready', workerId: id },
  ];
}

function log(evidence: Evidence, at: number, msg: string, fields: Record<string, unknown>): void {
  evidence.workers.push({ at, worker: 'a1', pid: 103, what: 'log', level: 'warn', msg, fields });
}

export function fault(
  { nemesis }: Evidence,
  given: { kind: FaultKind; target: string; beganAt: number; endedAt: number } & Partial<Fault>,
): void {
  nemesis.push({ id: nemesis.length + 1, details: {}, inFlight: [], failed: null, ...given });
}

/** The rows as `row_to_json` would write them. */
function dumpRows(
  { tables }: Evidence,
  runId: string,
  { key, agent, task, thread }: Expected,
  { run, steps, messages, attempts, events, outputs }: RunRows,
  nameOf: (token: string) => string,
): void {
  tables.runs.push({
    ...writeRun({ ...run, id: runId }),
    agent,
    language: run.language,
    tenant: '',
    thread_id: thread,
    model: null,
    llm_timeout_ms: run.llmTimeoutMs,
    llm_attempts: run.llmAttempts,
    on_limit: run.limits.onLimit,
    created_at: run.createdAt,
    started_at: run.startedAt,
    key,
    tags: {},
  });
  for (const step of steps.values()) {
    const row = writeStep(runId, step);
    const idempotency_key = row.idempotency_key === null ? null : `${runId}/${row.idempotency_key}`;
    tables.steps.push({ ...row, idempotency_key, claim_token: row.claim_token && nameOf(row.claim_token) });
  }
  for (const attempt of attempts) {
    const row = writeAttempt(runId, attempt);
    tables.attempts.push({ ...row, token: nameOf(row.token), late_note: attempt.lateNote });
  }
  for (const { seq, pos, tokens, message } of messages) {
    const said = seq === 0 && message.role === 'user' ? { ...message, content: task } : message;
    tables.messages.push({ run_id: runId, seq, pos, tokens, body: JSON.stringify(said) });
  }
  for (const [seq, body] of outputs) tables.outputs.push({ run_id: runId, seq, body });
  for (const { id, type, seq, data, at } of events) {
    const told = Object.keys(data).length === 0 ? null : JSON.stringify(data);
    tables.events.push({ run_id: runId, id, type, seq, at: at.toISOString(), data: told });
  }
}
