/** Group commit: what is asked for at once goes in one statement, and nobody pays for a neighbour. */
import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Outcome } from '../../src/core/outcome.js';
import { recordOutcome } from '../../src/core/record.js';
import type { Claimed } from '../../src/engine/gaps.js';
import type { Store } from '../../src/ports.js';
import { createLane, createPool, inTransaction } from '../../src/postgres/pool.js';
import { createStore } from '../../src/postgres/store.js';
import { askedRun, asks, call, listing, llmFails, says, sumsUp, value } from '../support/scenario.js';
import { createTestDatabase } from '../support/services.js';

const serves = new Map([['helper', 'v1']]);
let pool: pg.Pool;
let lanes: { claims: pg.Pool; records: pg.Pool };
let store: Store;
let made = 0;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  pool = createPool({ url, max: 5, applicationName: 'pawl batches test' });
  lanes = { claims: createLane(url, 'claims'), records: createLane(url, 'records') };
  await pool.query(`insert into pawl.agents (name, version, listing) values ('helper', 'v1', $1)`, [
    JSON.stringify(listing),
  ]);
  await pool.query(
    `insert into pawl.workers (id, host, pid, role, serves, knows) values ('w', 'here', 1, 'all', '{helper@v1}', 9)`,
  );
});
beforeEach(() => {
  store = createStore(pool, lanes);
});
afterAll(() => Promise.all([pool, lanes.claims, lanes.records].map((each) => each.end())));

async function startRun(): Promise<string> {
  made += 1;
  const id = `run_${made}`;
  await store.createRuns([askedRun(id)]);
  return id;
}

const startRuns = (count: number) => Promise.all(Array.from({ length: count }, startRun));

async function claim(runId: string, seq = 1, workerId = 'w'): Promise<Claimed> {
  const request = { runId, seq, dispatch: 1, token: randomUUID(), workerId, serves, takesSuspect: false };
  const answer = await store.claim(request);
  if (!answer.claimed) throw new Error(`the claim of ${runId}.${seq} was refused: ${answer.refusal}`);
  return answer;
}

const claimedRuns = async (count: number) => Promise.all((await startRuns(count)).map((runId) => claim(runId)));

async function record({ run, step, now }: Claimed, outcome: Outcome) {
  const token = step.claim?.token ?? '';
  const request = { seq: step.seq, token, outcome, attemptsMade: 0, claimed: step };
  const known = { run, step, now };
  const changed = await store.change(run.id, { seqs: [step.seq] }, (draft) => recordOutcome(draft, request), {
    receipt: token,
    known,
  });
  return changed?.value;
}

const completed = { recorded: true, ended: 'completed' };

async function outputs(claims: readonly Claimed[]): Promise<(string | null)[]> {
  const { rows } = await pool.query<{ id: string; output: string | null }>(
    'select id, output from pawl.runs where id = any($1)',
    [claims.map(({ run }) => run.id)],
  );
  return claims.map(({ run }) => rows.find(({ id }) => id === run.id)?.output ?? null);
}

/** A lane whose statements the test counts, holds back, or loses the replies of. */
function watched(lane: pg.Pool, meanwhile: (sent: number) => Promise<void> | void = () => {}) {
  const statements: unknown[][] = [];
  const answers: pg.QueryResult[] = [];
  const query = async (statement: pg.QueryConfig) => {
    statements.push(statement.values ?? []);
    const sent = statements.length;
    const answer = await lane.query(statement);
    answers.push(answer);
    await meanwhile(sent);
    return answer;
  };
  return { lane: { query } as unknown as pg.Pool, statements, answers };
}

/** A transaction of another process that holds the run's lock. */
async function holdingRun<T>(runId: string, work: () => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query('select 1 from pawl.runs where id = $1 for no key update', [runId]);
    return await work();
  } finally {
    await client.query('rollback');
    client.release();
  }
}

it('claims and records made at once go in one statement each', async () => {
  const claimsLane = watched(lanes.claims);
  const recordsLane = watched(lanes.records);
  store = createStore(pool, { claims: claimsLane.lane, records: recordsLane.lane });
  const claims = await claimedRuns(5);
  expect(await Promise.all(claims.map((each) => record(each, says('done'))))).toEqual(claims.map(() => completed));
  expect(await outputs(claims)).toEqual(claims.map(() => 'done'));
  expect([claimsLane.statements.length, recordsLane.statements.length]).toEqual([1, 1]);
});

it('a lone record is sent in the same turn of the loop; what comes while it is under way is gathered', async () => {
  let letGo = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const { lane, statements } = watched(lanes.records, (sent) => (sent === 1 ? held : undefined));
  store = createStore(pool, { ...lanes, records: lane });
  const [first, ...others] = await claimedRuns(3);
  if (first === undefined) throw new Error('three runs were claimed');
  const recording = [record(first, says('first'))];
  await turn();
  expect(statements).toHaveLength(1);
  recording.push(...others.map((each) => record(each, says('later'))));
  await turn();
  expect(statements).toHaveLength(1);
  letGo();
  await Promise.all(recording);
  expect(statements).toHaveLength(2);
  expect(await outputs([first, ...others])).toEqual(['first', 'later', 'later']);
});

it('a row that Postgres refuses fails alone; its neighbours are recorded', async () => {
  const claims = await claimedRuns(3);
  const answers = await Promise.allSettled(
    claims.map((each, index) => record(each, says(index === 1 ? 'a NUL: \u0000' : 'fine'))),
  );
  expect(answers.map((answer) => (answer.status === 'rejected' ? answer.reason.code : answer.value))).toEqual([
    completed,
    'invalid_input',
    completed,
  ]);
  expect(await outputs(claims)).toEqual(['fine', null, 'fine']);
});

it('a record that cannot even be written down fails alone, and what comes after it is recorded', async () => {
  const [bad, ...good] = await claimedRuns(3);
  if (bad === undefined) throw new Error('three runs were claimed');
  const { run, step, now } = bad;
  const unwritable = store.change(
    run.id,
    { seqs: [step.seq] },
    (draft) => {
      draft.run.output = 1n as unknown as string;
      draft.touch();
    },
    { known: { run, step, now } },
  );
  const answers = await Promise.allSettled([unwritable, ...good.map((each) => record(each, says('fine')))]);
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  expect(await outputs(good)).toEqual(['fine', 'fine']);
  expect(await record(bad, says('later'))).toEqual(completed);
});

it('a batch whose reply was lost is repeated with the same tokens and answered as the first was', async () => {
  const { lane } = watched(lanes.records, (sent) => {
    if (sent === 1) throw new Error('Connection terminated unexpectedly');
  });
  store = createStore(pool, { ...lanes, records: lane });
  const claims = await claimedRuns(3);
  const lost = await Promise.allSettled(claims.map((each) => record(each, says('once'))));
  expect(lost.map((answer) => answer.status === 'rejected' && answer.reason.code)).toEqual(
    claims.map(() => 'database_unreachable'),
  );
  expect(await Promise.all(claims.map((each) => record(each, says('twice'))))).toEqual(claims.map(() => completed));
  expect(await outputs(claims)).toEqual(['once', 'once', 'once']);
});

it('a run that somebody holds is waited for alone; its neighbours are claimed and recorded meanwhile', async () => {
  const [held = '', free = ''] = await startRuns(2);
  const claims = await holdingRun(held, async () => {
    const waiting = claim(held);
    return { waiting, free: await claim(free) };
  });
  const heldClaim = await claims.waiting;
  const recording = await holdingRun(held, async () => {
    const waiting = record(heldClaim, says('waited'));
    expect(await record(claims.free, says('went on'))).toEqual(completed);
    return { waiting };
  });
  expect(await recording.waiting).toEqual(completed);
  expect(await outputs([heldClaim, claims.free])).toEqual(['waited', 'went on']);
});

it('a process that knows how a run began reads only what others have added', async () => {
  const theirs = createStore(pool, lanes);
  const { lane, answers } = watched(lanes.claims);
  const ours = createStore(pool, { ...lanes, claims: lane });
  const runId = await startRun();
  const as = async (process: Store, seq: number, outcome: Outcome) => {
    store = process;
    const claimed = await claim(runId, seq);
    await record(claimed, outcome);
    return claimed.messages.map(({ seq, pos }) => `${seq}.${pos}`);
  };
  expect(await as(ours, 1, asks(call('look')))).toEqual(['0.0']);
  await as(ours, 2, value('seen'));
  await as(theirs, 3, asks(call('look'), call('look')));
  await as(ours, 4, value('seen'));
  await as(theirs, 5, value('seen'));
  expect(await as(ours, 6, asks(call('look')))).toEqual(['0.0', '1.0', '1.1', '3.0', '3.1', '3.2']);
  const loaded = answers
    .flatMap(({ rows }) => rows as { loaded: { messages: { seq: number }[] } | null }[])
    .at(-1)?.loaded;
  expect(loaded?.messages.map(({ seq }) => seq)).toEqual([1, 1, 3, 3, 3]);
  await as(ours, 7, value('seen'));
  const sent = answers.length;
  expect(await as(ours, 8, says('done'))).toEqual(['0.0', '1.0', '1.1', '3.0', '3.1', '3.2', '6.0', '6.1']);
  expect(answers.slice(sent).map(({ rows }) => (rows[0] as { loaded: unknown }).loaded)).toEqual([null]);
});

it('a process that others were faster than reads the runs before it in its thread, and the newest summary', async () => {
  const theirs = createStore(pool, lanes);
  const ours = createStore(pool, lanes);
  const runId = await startRun();
  const as = async (process: Store, seq: number, outcome: Outcome) => {
    store = process;
    const claimed = await claim(runId, seq);
    await record(claimed, outcome);
    return claimed.messages.map(({ seq, pos }) => `${seq}.${pos}`);
  };
  const opening = [{ seq: -1, pos: 0, tokens: 1, message: { role: 'user' as const, content: 'long ago' } }];
  const window = { windowFrom: -1, digestBefore: -1 };
  await as(ours, 1, llmFails({}, { retryInMs: 0 }));
  await as(theirs, 1, { ...asks(call('look')), window, opening });
  await as(ours, 2, value('seen'));
  expect(await as(ours, 3, { ...asks(call('look')), window })).toEqual(['-1.0', '0.0', '1.0', '1.1']);
  await as(ours, 4, value('seen'));
  await as(theirs, 5, sumsUp(3));
  await as(theirs, 6, { ...asks(call('look')), window: { windowFrom: 6, digestBefore: 3 } });
  await as(theirs, 7, value('seen'));
  expect(await as(ours, 8, says('done'))).toEqual(['0.0', '5.0', '6.0', '6.1']);
});

it('whichever processes take turns on a run, each is given the window that its rows hold', async () => {
  const processes = [createStore(pool, lanes), createStore(pool, lanes), createStore(pool, lanes)];
  let state = 7;
  const draw = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state >> 8) % below;
  };
  const claimed = async (seq: number) => {
    store = processes[draw(processes.length)] ?? store;
    return claim(runId, seq);
  };
  const runId = await startRun();
  const turns = [1];
  let windowFrom = 0;
  for (let turn = 0; turn < 12; turn++) {
    const seq = turns.at(-1) ?? 1;
    const asking = await claimed(seq);
    const { rows } = await pool.query(
      `select m.seq, m.pos, m.body::json as message, m.tokens from pawl.messages m join pawl.runs r on r.id = m.run_id
       where r.id = $1 and (m.seq = 0 or m.seq >= r.window_from) order by m.seq, m.pos`,
      [runId],
    );
    expect(asking.messages).toEqual(rows);
    // The window is cut now and then.
    if (turn % 4 === 3) windowFrom = turns.at(-2) ?? 0;
    const calls = Array.from({ length: 1 + draw(3) }, () => call('look'));
    await record(asking, { ...asks(...calls), window: { windowFrom, digestBefore: windowFrom } });
    const answers = calls.map((_, index) => seq + 1 + index).sort(() => draw(3) - 1);
    for (const answer of answers) await record(await claimed(answer), value(`seen ${answer}`));
    turns.push(seq + 1 + calls.length);
  }
});

it('siblings that end at once are recorded one after the other, each on what the one before left', async () => {
  const { lane, statements } = watched(lanes.records);
  store = createStore(pool, { ...lanes, records: lane });
  const runId = await startRun();
  await record(await claim(runId), asks(call('look'), call('look')));
  const [first, second] = await Promise.all([claim(runId, 2), claim(runId, 3)]);
  if (first === undefined || second === undefined) throw new Error('both calls are claimed');
  expect(await Promise.all([record(first, value('one')), record(second, value('two'))])).toEqual([
    completed,
    completed,
  ]);
  expect(statements).toHaveLength(3);
  const joined = await claim(runId, 4);
  expect(joined.messages.map(({ message }) => message.role)).toEqual(['user', 'assistant', 'tool', 'tool']);
});

it('a record leaves in the rows all that this process knows of the run afterwards', async () => {
  const runId = await startRun();
  await record(await claim(runId), asks(call('look')));
  await record(await claim(runId, 2), value('seen'));
  const known = await claim(runId, 3);
  const { token = '', workerId = '' } = known.step.claim ?? {};
  const request = { runId, seq: 3, dispatch: 1, token, workerId, serves, takesSuspect: false };
  const read = await createStore(pool).claim(request);
  if (!read.claimed) throw new Error(read.refusal);
  expect({ run: known.run, messages: known.messages }).toEqual({ run: read.run, messages: read.messages });
  expect(known.step).toEqual({ ...read.step, claim: known.step.claim });
});

it('what another process changed is seen by the next claim, though this one knew the run before', async () => {
  const runId = await startRun();
  await record(await claim(runId), asks(call('look')));
  await createStore(pool).change(runId, 'open', (draft) => {
    draft.touch().limits.maxSteps = 7;
  });
  expect((await claim(runId, 2)).run.limits.maxSteps).toBe(7);
});

/** As a crash of the server leaves a claim that had not reached the disk. */
async function loseClaim({ run, step }: Claimed): Promise<void> {
  await pool.query(
    `update pawl.steps set status = 'pending', attempt = attempt - 1, claim_token = null, worker_id = null,
       claimed_at = null, claim_deadline = null, started_at = null where run_id = $1 and seq = $2`,
    [run.id, step.seq],
  );
}

it('a run that lost its version meanwhile, as by a redrive, has it again by the claim of a process that knew the run', async () => {
  const runId = await startRun();
  await record(await claim(runId), asks(call('look')));
  await createStore(pool).change(runId, { seqs: [] }, (draft) => {
    draft.touch().agentVersion = null;
  });
  expect((await claim(runId, 2)).run.agentVersion).toBe('v1');
  const { rows } = await pool.query('select agent_version from pawl.runs where id = $1', [runId]);
  expect(rows).toEqual([{ agent_version: 'v1' }]);
});

it('outcomes and what is no outcome go in one statement, each written whole', async () => {
  const claims = await claimedRuns(3);
  const { lane, statements } = watched(lanes.records);
  store = createStore(pool, { ...lanes, records: lane });
  await Promise.all(claims.map((each, n) => record(each, n === 1 ? llmFails() : says('done'))));
  expect(statements).toHaveLength(1);
  const { rows } = await pool.query(
    `select status, failures, claim_token is not null as is_claimed, completed_event from pawl.steps where run_id = any($1) order by run_id`,
    [claims.map(({ run }) => run.id)],
  );
  const done = { status: 'completed', failures: 0, is_claimed: true, completed_event: 3 };
  const failed = { status: 'pending', failures: 1, is_claimed: false, completed_event: null };
  expect(rows).toEqual([done, failed, done]);
});

it('the record of a claim that was lost with the memory of the server claims the step as well', async () => {
  const [claimed] = await claimedRuns(1);
  if (claimed === undefined) throw new Error('a run was claimed');
  await loseClaim(claimed);
  expect(await record(claimed, says('kept'))).toEqual(completed);
  const { rows } = await pool.query('select status, attempt, claim_token from pawl.steps where run_id = $1', [
    claimed.run.id,
  ]);
  expect(rows).toEqual([{ status: 'completed', attempt: 1, claim_token: claimed.step.claim?.token }]);
});

it('a claim that was lost is fenced off once another has taken its step', async () => {
  const [lost] = await claimedRuns(1);
  if (lost === undefined) throw new Error('a run was claimed');
  await loseClaim(lost);
  const taken = await claim(lost.run.id);
  expect(await record(lost, says('late'))).toEqual({ recorded: false });
  expect(await record(taken, says('in time'))).toEqual(completed);
  expect(await outputs([taken])).toEqual(['in time']);
});

/** In place of a lane: sends a statement in a transaction, and looks whether its commit waits for the disk. */
function transactions() {
  const commits: string[] = [];
  const query = (statement: pg.QueryConfig) =>
    inTransaction(pool, async (client) => {
      const answer = await client.query(statement);
      const { rows } = await client.query<{ synchronous_commit: string }>('show synchronous_commit');
      commits.push(...rows.map((row) => row.synchronous_commit));
      return answer;
    });
  return { lane: { query } as unknown as pg.Pool, commits };
}

it.each([
  ['a once call waits for the disk', 'once', ['on']],
  ['any other call does not', 'none', ['off']],
] as const)('the claim of %s', async (_, effect, expected) => {
  const runId = await startRun();
  await record(await claim(runId), asks(call('look', { effect })));
  const { lane, commits } = transactions();
  store = createStore(pool, { ...lanes, claims: lane });
  await claim(runId, 2);
  expect(commits).toEqual(expected);
});

it('the claim that begins a run waits for the disk', async () => {
  const { lane, commits } = transactions();
  store = createStore(pool, { ...lanes, claims: lane });
  await claimedRuns(1);
  expect(commits).toEqual(['on']);
});
