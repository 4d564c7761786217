/** `pawl runs …`: the four forms of each result, one page about a run, and commands on one run or on many. */
import { describe, expect, it } from 'vitest';
import { PawlError } from '../../../src/core/errors.js';
import type { RunFilter, RunView } from '../../../src/core/view.js';
import type { Resolve, Runs } from '../../../src/engine/runs.js';
import { anEvent, aRun, aStep, pawl, watching } from './fake-world.js';

const page = (data: RunView[], next: string | null = null) => ({ data, page: { next } });
const two = [
  aRun({ id: 'run_2', input: '汇总上周的销售额，并写一份报告', status: 'failed', reason: 'deadline' }),
  aRun(),
];
const lines = (text: string): string[] => text.trimEnd().split('\n');

describe('runs list', () => {
  const runs: Partial<Runs> = { list: async () => page(two) };

  it('is a table for people', async () => {
    const ran = await pawl(['runs', 'list'], { runs });
    expect(lines(ran.out)).toEqual([
      'ID     AGENT    STATUS             STEPS     COST  AGE  INPUT',
      'run_2  analyst  failed (deadline)      2  $0.0021   1m  汇总上周的销售额，并写一份报告',
      'run_1  analyst  completed              2  $0.0021   1m  Sum the sales',
    ]);
    expect(ran).toMatchObject({ exit: 0, err: '', leftOpen: 0 });
  });

  it('is cut to the window on a terminal, by columns and not by characters', async () => {
    const ran = await pawl(['runs', 'list'], { runs, isTTY: true, columns: 75 });
    expect(lines(ran.out)[1]).toBe('run_2  analyst  failed (deadline)      2  $0.0021   1m  汇总上周的销售额，…');
  });

  it('is JSON in the documented envelope, an object a line, or ids', async () => {
    expect(JSON.parse((await pawl(['runs', 'list', '-o', 'json'], { runs })).out)).toEqual(page(two));
    expect(lines((await pawl(['runs', 'list', '-o', 'jsonl'], { runs })).out).map((line) => JSON.parse(line))).toEqual(
      two,
    );
    expect((await pawl(['runs', 'list', '-o', 'id'], { runs })).out).toBe('run_2\nrun_1\n');
  });

  it('is nothing but a message when there is nothing, and an empty list as JSON', async () => {
    const none: Partial<Runs> = { list: async () => page([]) };
    expect(await pawl(['runs', 'list'], { runs: none })).toMatchObject({
      exit: 0,
      out: '',
      err: 'there are no runs yet; start one with pawl run\n',
    });
    expect((await pawl(['runs', 'list', '--agent', 'x'], { runs: none })).err).toBe('no run fits\n');
    expect(JSON.parse((await pawl(['runs', 'list', '-o', 'json'], { runs: none })).out)).toEqual(page([]));
  });

  it('asks with every filter, by pages, and says how to go on', async () => {
    const asked: Partial<RunFilter>[] = [];
    const list: Runs['list'] = async (filter = {}) => {
      asked.push(filter);
      return page(
        Array.from({ length: filter.limit ?? 0 }, () => aRun()),
        `after${asked.length}`,
      );
    };
    const args = [
      '--agent',
      'a',
      '--status',
      'failed',
      '--reason',
      'deadline',
      '--tag',
      'k=v',
      '--since',
      '2026-03-01T00:00Z',
      '--limit',
      '600',
    ];
    const ran = await pawl(['runs', 'list', ...args], { runs: { list } });
    const filter = {
      agent: 'a',
      status: 'failed',
      reason: 'deadline',
      tag: { k: 'v' },
      since: new Date('2026-03-01T00:00Z'),
    };
    expect(asked).toEqual([
      { ...filter, limit: 500 },
      { ...filter, limit: 100, cursor: 'after1' },
    ]);
    expect(ran.err).toContain('--cursor after2');
  });
});

describe('runs show', () => {
  const silent = { events: async () => [] };

  it('is a page that says what a run waits for and how to answer', async () => {
    const run = aRun({
      status: 'suspended',
      waitingFor: { kind: 'outcome', step: 2, detail: null },
      output: null,
      finishedAt: null,
      key: 'k1',
      tags: { team: 'sales' },
    });
    const steps = [
      aStep(),
      aStep({
        seq: 2,
        kind: 'tool',
        name: 'charge',
        status: 'suspended',
        waitingFor: 'outcome',
        usage: null,
        finishedAt: null,
      }),
    ];
    const ran = await pawl(['runs', 'show', 'run_1'], {
      runs: { ...silent, get: async () => run, steps: async () => steps },
    });
    expect(ran.exit).toBe(0);
    expect(ran.out).toContain('status  suspended');
    expect(ran.out).toContain('waits   step 2 (charge) was cut short and is never repeated on its own');
    expect(ran.out).toContain('  pawl runs resolve run_1 --step 2 --as done     # it happened');
    expect(ran.out).toContain('used    2 steps · 1 turn · tokens 1,204 in, 88 out · $0.0021');
    expect(ran.out).toContain('limits  60 steps · 25 turns · no deadline · then finish');
    expect(ran.out).toContain('key     k1');
    expect(ran.out).toContain('tags    team=sales');
    expect(ran.out).toContain('waits: outcome');
  });

  it('says why a run failed, in words, and what can be done', async () => {
    const run = aRun({
      status: 'failed',
      reason: 'quota_exhausted',
      error: { code: 'quota_exhausted', message: 'pay\nfirst' },
      output: null,
    });
    const ran = await pawl(['runs', 'show', 'run_1'], {
      runs: { ...silent, get: async () => run, steps: async () => [] },
    });
    expect(ran.out).toContain("status  failed (quota_exhausted): the model provider's quota is used up");
    expect(ran.out).toContain('error   quota_exhausted: pay first');
    expect(ran.out).toContain('pawl runs redrive run_1');
  });

  it('says what rules and operators did on the way, in words', async () => {
    const loop = { period: 1, turns: 3, sameResults: true, tools: ['look'] };
    const events = [
      anEvent(1, 'run.created'),
      anEvent(2, 'step.completed', { seq: 1 }),
      anEvent(3, 'step.retry', {
        seq: 2,
        data: { attempt: 1, inMs: 1_000, error: { code: 'threw', message: 'down' } },
      }),
      anEvent(4, 'run.loop', { seq: 7, data: { ...loop, rung: 'tell' } }),
      anEvent(5, 'run.loop', { seq: 9, data: { ...loop, turns: 4, rung: 'withhold', reworded: true } }),
      anEvent(6, 'run.loop', { seq: 11, data: { ...loop, turns: 5, rung: 'answer' } }),
      anEvent(7, 'run.limit_reached', { data: { reason: 'max_tokens' } }),
      anEvent(8, 'run.trimmed', { seq: 11, data: { from: 5 } }),
      anEvent(9, 'run.digested', { seq: 13, data: { before: 9 } }),
      anEvent(10, 'run.compacted', { seq: 15, data: { before: 9, tokensBefore: 8_100, tokensAfter: 4_050 } }),
      anEvent(11, 'run.price_unknown', { data: { model: 'our-model' } }),
      anEvent(12, 'run.reflected', { seq: 17, data: { round: 2, rounds: 2, verdict: 'none' } }),
      anEvent(13, 'run.answer_unjudged', { seq: 19, data: { because: 'rounds' } }),
      anEvent(14, 'run.answer_unjudged', { seq: 21, data: { because: 'limit' } }),
    ];
    const runs = { events: async () => events, get: async () => aRun(), steps: async () => [] };
    const { out } = await pawl(['runs', 'show', 'run_1'], { runs });
    expect(lines(out).slice(lines(out).indexOf('what happened on the way') + 1, -3)).toEqual([
      '    2  attempt 1 failed (threw: down); again in 1.0 s',
      '    7  the model repeats itself (look, 3 turns in a row): it was told',
      '    9  the model repeats itself in other words (look, 4 turns in a row): the same calls are withheld',
      '   11  the model repeats itself (look, 5 turns in a row): this was its last answer, without tools',
      '       limit reached: max_tokens; one last answer, without tools',
      '   11  the turns before step 5 are left out of the prompt',
      '   13  tool results before step 9 are shortened to a line in the prompt',
      '   15  the turns before step 9 are summed up: the prompt shrank from 8100 to 4050 tokens',
      '       no price is known for our-model: the limit of cost is not kept, only tokens are counted',
      '   17  judgement 2 of 2 came to nothing: the answer stands',
      '   19  the answer stands: the last round of judgements is over',
      '   21  the answer stands unjudged: a limit leaves no room for it',
    ]);
  });

  it('says of the run and of each step what share of the prompts the provider had cached', async () => {
    const usage = { ...aRun().usage, inputTokens: 2_000, cachedInputTokens: 1_500 };
    const runs = { ...silent, get: async () => aRun({ usage }), steps: async () => [aStep({ usage })] };
    const { out } = await pawl(['runs', 'show', 'run_1'], { runs });
    expect(out).toContain('tokens 2,000 in, 88 out (75 % cached)');
    expect(out).toMatch(/gpt-4o-mini.* 75 % cached/);
    expect((await pawl(['runs', 'steps', 'run_1'], { runs })).out).toMatch(/CACHED.*\n.*gpt-4o-mini.* 75 % /);
  });

  it('says of a limit of cost that it is not kept where no price is known', async () => {
    const limits = { ...aRun().limits, maxTokens: 5_000, maxCostUsd: 0.5 };
    const priced = { ...silent, get: async () => aRun({ limits }), steps: async () => [] };
    expect((await pawl(['runs', 'show', 'run_1'], { runs: priced })).out).toContain(
      '5,000 tokens · $0.5 · no deadline',
    );
    const usage = { ...aRun().usage, costUsd: null };
    const unpriced = { ...priced, get: async () => aRun({ limits, usage }) };
    const { out } = await pawl(['runs', 'show', 'run_1'], { runs: unpriced });
    expect(out).toContain('$0.5 (not kept: the price of the model is not known)');
  });

  it('shows of a long run the first and the last steps', async () => {
    const steps = Array.from({ length: 500 }, (_, index) => aStep({ seq: index + 1 }));
    const ran = await pawl(['runs', 'show', 'run_1'], {
      runs: { ...silent, get: async () => aRun(), steps: async () => steps },
    });
    expect(ran.out).toContain('… 480 more steps: pawl runs steps run_1');
    expect(ran.out.match(/gpt-4o-mini/g)).toHaveLength(20);
  });

  it('is the run as JSON exactly, without asking for its steps', async () => {
    const runs = { get: async () => aRun() };
    expect(JSON.parse((await pawl(['runs', 'show', 'run_1', '-o', 'json'], { runs })).out)).toEqual(aRun());
    expect((await pawl(['runs', 'show', 'run_1', '-o', 'id'], { runs })).out).toBe('run_1\n');
  });

  it('of no run ends with 6', async () => {
    const get = async (): Promise<never> => {
      throw new PawlError('not_found', 'there is no run "run_9"');
    };
    expect(await pawl(['runs', 'show', 'run_9'], { runs: { get } })).toMatchObject({
      exit: 6,
      out: '',
      err: 'error: there is no run "run_9"\n',
      leftOpen: 0,
    });
  });
});

describe('the parts of a run', () => {
  it('steps are a list with their errors or outputs on one line', async () => {
    const data = [
      aStep(),
      aStep({
        seq: 2,
        kind: 'tool',
        name: 'sql_query',
        output: 'a\nb\x1b[2J',
        usage: null,
        error: { code: 'threw', message: 'no\nline' },
      }),
    ];
    const runs = { steps: async () => data };
    const ran = await pawl(['runs', 'steps', 'run_1'], { runs });
    expect(lines(ran.out)[1]).toMatch(
      /^1 {2}llm +gpt-4o-mini +completed +1 +1\.2 s +1,204 in, 88 out +\$0\.0021 +The sum is 7$/,
    );
    expect(lines(ran.out)[2]).toMatch(/threw: no line$/);
    expect(JSON.parse((await pawl(['runs', 'steps', 'run_1', '-o', 'json'], { runs })).out)).toEqual({
      data,
      page: { next: null },
    });
    expect((await pawl(['runs', 'steps', 'run_1', '-o', 'id'], { runs })).out).toBe('1\n2\n');
  });

  it('messages are a transcript', async () => {
    const messages: Runs['messages'] = async () => [
      { seq: 0, pos: 0, tokens: null, message: { role: 'user', content: 'Sum\nit' } },
      {
        seq: 1,
        pos: 0,
        tokens: 9,
        message: {
          role: 'assistant',
          content: null,
          toolCalls: [{ id: 'c00000002', name: 'sql_query', arguments: '{"sql":"select 1"}' }],
        },
      },
      {
        seq: 1,
        pos: 1,
        tokens: 3,
        message: { role: 'tool', callId: 'c00000002', name: 'sql_query', content: '7\x1b[2J' },
      },
    ];
    const ran = await pawl(['runs', 'messages', 'run_1'], { runs: { messages } });
    expect(ran.out).toBe(
      'user\n  Sum\n  it\n\nassistant  step 1\n  → sql_query {"sql":"select 1"}  (c00000002)\n\ntool sql_query  (c00000002)\n  7\n',
    );
    expect((await pawl(['runs', 'messages', 'run_1', '-o', 'id'], { runs: { messages } })).out).toBe('0.0\n1.0\n1.1\n');
  });

  it('events are the whole log, read by pages, from wherever it is wanted', async () => {
    const all = Array.from({ length: 2_500 }, (_, index) => anEvent(index + 1, 'run.paused'));
    const pages: number[] = [];
    const events: Runs['events'] = async (_, after = 0, limit = 0) => {
      pages.push(after);
      return all.slice(after, after + limit);
    };
    const ran = await pawl(['runs', 'events', 'run_1', '-o', 'jsonl'], { runs: { events } });
    expect(lines(ran.out).map((line) => JSON.parse(line))).toEqual(all);
    expect(pages).toEqual([0, 1_000, 2_000]);
    const rest = await pawl(['runs', 'events', 'run_1', '--after', '2499'], { runs: { events } });
    expect(lines(rest.out)[1]).toMatch(/^2500 .* run\.paused +paused by an operator$/);
  });

  it('JSON never holds what a terminal would obey', async () => {
    const runs = { get: async () => aRun({ output: 'a\x1b[2J\u009b2Jb' }) };
    const ran = await pawl(['runs', 'show', 'run_1', '-o', 'jsonl'], { runs });
    expect(ran.out).toContain('a\\u001b[2J\\u009b2Jb');
    expect(JSON.parse(ran.out)).toMatchObject({ output: 'a\x1b[2J\u009b2Jb' });
  });
});

describe('runs watch', () => {
  const runs: Partial<Runs> = {
    watch: watching([anEvent(1, 'run.created'), anEvent(2, 'run.paused'), anEvent(3, 'run.failed')]),
    get: async () => aRun({ status: 'failed', reason: 'deadline', output: null }),
  };

  it('prints what happens as the result, and ends as the run does', async () => {
    const ran = await pawl(['runs', 'watch', 'run_1'], { runs });
    expect(ran).toMatchObject({ exit: 3, out: '·       paused by an operator\n' });
    expect(ran.err).toContain('failed, deadline');
  });

  it('prints each event with -o jsonl, from wherever it is wanted', async () => {
    const ran = await pawl(['runs', 'watch', 'run_1', '-o', 'jsonl', '--after', '1'], { runs });
    expect(lines(ran.out).map((line) => JSON.parse(line).id)).toEqual([2, 3]);
  });
});

describe('a command on one run', () => {
  it('answers with the run, or a word and how to go on', async () => {
    const run = aRun({ status: 'running' });
    const runs: Partial<Runs> = {
      cancel: async () => run,
      pause: async () => run,
      redrive: async () => run,
      resume: async () => run,
    };
    expect((await pawl(['runs', 'pause', 'run_1'], { runs })).out).toBe('run_1  paused, now running\n');
    expect((await pawl(['runs', 'cancel', 'run_1'], { runs })).out).toBe('run_1  cancelled, now running\n');
    expect(JSON.parse((await pawl(['runs', 'cancel', 'run_1', '-o', 'json'], { runs })).out)).toEqual(run);
    expect(JSON.parse((await pawl(['runs', 'redrive', 'run_1', '-o', 'jsonl'], { runs })).out)).toEqual(run);
    expect((await pawl(['runs', 'resume', 'run_1'], { runs, isTTY: true })).err).toContain(
      'follow it with pawl runs watch run_1',
    );
  });

  it('resumes with the limits that were raised, and no others', async () => {
    let given: unknown;
    const resume: Runs['resume'] = async (_, raised) => {
      given = raised;
      return aRun({ status: 'running' });
    };
    await pawl(['runs', 'resume', 'run_1', '--max-steps', '90', '--deadline', '2h'], { runs: { resume } });
    expect(given).toEqual({ maxSteps: 90, deadlineMs: 7_200_000 });
  });

  it.each<[string[], Resolve]>([
    [['--as', 'done'], { step: 2, as: 'done' }],
    [['--as', 'failed', '--result', '"no money"'], { step: 2, as: 'failed', result: 'no money' }],
    [['--as', 'done', '--result', '{"ok":true}'], { step: 2, as: 'done', result: { ok: true } }],
    [['--as', 'rerun'], { step: 2, as: 'rerun' }],
  ])('resolves a step %j', async (args, expected) => {
    let given: unknown;
    const resolve: Runs['resolve'] = async (_, answer) => {
      given = answer;
      return aRun({ status: 'running' });
    };
    expect((await pawl(['runs', 'resolve', 'run_1', '--step', '2', ...args], { runs: { resolve } })).exit).toBe(0);
    expect(given).toEqual(expected);
  });

  it('in a state that does not allow it is a conflict', async () => {
    const conflict = async (): Promise<never> => {
      throw new PawlError('conflict', 'run run_1 is completed already; nothing to cancel');
    };
    const ran = await pawl(['runs', 'cancel', 'run_1'], { runs: { cancel: conflict } });
    expect(ran).toMatchObject({ exit: 7, out: '', err: 'error: run run_1 is completed already; nothing to cancel\n' });
  });
});

describe('a command on many runs', () => {
  const failed = Array.from({ length: 20 }, (_, index) =>
    aRun({ id: `run_${index}`, status: 'failed', reason: 'deadline' }),
  );

  function fleet(refuse: (id: string) => Error | null = () => null) {
    const asked: Partial<RunFilter>[] = [];
    const done: string[] = [];
    const act = async (id: string): Promise<RunView> => {
      const refusal = refuse(id);
      if (refusal !== null) throw refusal;
      done.push(id);
      return aRun({ id, status: 'running' });
    };
    const list: Runs['list'] = async (filter = {}) => {
      asked.push(filter);
      return page(failed.slice(0, filter.limit));
    };
    const runs: Partial<Runs> = { list, get: async (id) => aRun({ id }), redrive: act, cancel: act };
    return { runs, asked, done };
  }

  it('shows what it would do with --dry-run, and does nothing', async () => {
    const { runs, asked, done } = fleet();
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--dry-run', '-o', 'id'], { runs });
    expect(lines(ran.out)).toHaveLength(20);
    expect(ran).toMatchObject({ exit: 0, err: '20 runs would be redriven; nothing was changed\n' });
    expect(asked).toMatchObject([{ agent: 'a', status: ['failed'] }]);
    expect(done).toEqual([]);
  });

  it('asks a person, and takes no for an answer', async () => {
    const { runs, done } = fleet();
    const ran = await pawl(['runs', 'redrive', '--agent', 'a'], { runs, confirm: false });
    expect(ran).toMatchObject({ exit: 0, out: '', err: 'nothing was changed\n' });
    expect(done).toEqual([]);
    expect((await pawl(['runs', 'redrive', '--agent', 'a'], { runs, confirm: true })).err).toBe('20 runs redriven\n');
    expect(done).toHaveLength(20);
  });

  it('refuses where nobody can be asked', async () => {
    const { runs, done } = fleet();
    const ran = await pawl(['runs', 'redrive', '--agent', 'a'], { runs, confirm: null });
    expect(ran).toMatchObject({ exit: 2, out: '' });
    expect(ran.err).toContain('20 runs would be redriven: add --yes to do it, or --dry-run to see them');
    expect(done).toEqual([]);
  });

  it('acts on all with --yes, at most --limit, and prints them in every form', async () => {
    const { runs, done } = fleet();
    const ran = await pawl(['runs', 'redrive', '--reason', 'deadline', '--limit', '3', '--yes'], { runs });
    expect(ran).toMatchObject({ exit: 0, err: '3 runs redriven\n', leftOpen: 0 });
    expect(lines(ran.out)).toEqual(done.map((id) => `${id}  redriven, now running`));
    const json = await pawl(['runs', 'redrive', '--reason', 'deadline', '-y', '-o', 'json'], { runs });
    expect(JSON.parse(json.out)).toMatchObject({ data: failed.map(({ id }) => ({ id })), page: { next: null } });
  });

  it('cancels whatever is not final', async () => {
    const { runs, asked } = fleet();
    await pawl(['runs', 'cancel', '--since', '1h', '--yes'], { runs });
    expect(asked).toMatchObject([{ status: ['pending', 'running', 'suspended'] }]);
  });

  it('goes on after a run in another state, and says so by its status', async () => {
    const { runs, done } = fleet((id) => (id === 'run_3' ? new PawlError('conflict', 'run run_3 is running') : null));
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes'], { runs });
    expect(ran).toMatchObject({ exit: 7, err: 'run run_3 is running\n19 runs redriven, 1 not\n' });
    expect(done).toHaveLength(19);
  });

  it('stops when the database is gone', async () => {
    const { runs, done } = fleet((id) =>
      id === 'run_3' ? new PawlError('database_unreachable', 'Postgres does not answer') : null,
    );
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes'], { runs });
    expect(ran.exit).toBe(8);
    expect(ran.err).toContain('7 runs redriven, 1 not, the rest not tried; the same command goes on with what is left');
    expect(done).toHaveLength(7);
  });

  it('named by ids needs no confirmation', async () => {
    const { runs, done } = fleet();
    const ran = await pawl(['runs', 'cancel', 'run_a', 'run_b', 'run_a', '-o', 'id'], { runs });
    expect(ran).toMatchObject({ exit: 0, out: 'run_a\nrun_b\n', err: '2 runs cancelled\n' });
    expect(done).toEqual(['run_a', 'run_b']);
  });

  it('reads a page when it has acted on the one before, and holds no more', async () => {
    const many = mass(1_000);
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes'], { runs: many.runs });
    expect(ran).toMatchObject({ exit: 0, err: '1,000 runs redriven\n' });
    expect(many.doneAtEachPage.length).toBeGreaterThan(5);
    expect(many.doneAtEachPage).toEqual(many.readAtEachPage);
  });

  it('meets no run twice that fails again at once', async () => {
    const many = mass(300, { failsAgain: true });
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes', '-o', 'id'], { runs: many.runs });
    expect(ran.err).toBe('300 runs redriven\n');
    expect(new Set(lines(ran.out)).size).toBe(300);
  });

  it('writes one JSON document, however many pages it read', async () => {
    const { runs } = mass(300);
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes', '-o', 'json'], { runs });
    expect(JSON.parse(ran.out).data).toHaveLength(300);
    expect(ran.out.trimEnd()).toBe(JSON.stringify(JSON.parse(ran.out), null, 2));
    const none = await pawl(['runs', 'redrive', '--agent', 'a', '--yes', '-o', 'json'], { runs });
    expect(JSON.parse(none.out)).toEqual(page([]));
    expect((await pawl(['runs', 'redrive', '--agent', 'a', '--yes'], { runs })).err).toBe(
      'there is no run to redrive\n',
    );
  });

  it('leaves alone what failed while a person was asked about the others', async () => {
    const late = aRun({ id: 'run_late', status: 'failed', createdAt: '2026-03-01T12:00:01.000Z' });
    let listed = 0;
    const { runs, done } = fleet();
    const list: Runs['list'] = async () => page(listed++ === 0 ? failed : [late, ...failed]);
    await pawl(['runs', 'redrive', '--agent', 'a'], { runs: { ...runs, list }, confirm: true });
    expect(done).toHaveLength(20);
    expect(done).not.toContain('run_late');
  });

  it('stops at an interrupt, says how far it came, and the same command does the rest', async () => {
    const interrupt = new AbortController();
    const many = mass(300, { onDone: (count) => count === 150 && interrupt.abort() });
    const args = ['runs', 'redrive', '--agent', 'a', '--yes', '-o', 'id'];
    const cut = await pawl(args, { runs: many.runs, interrupt: interrupt.signal });
    expect(cut).toMatchObject({
      exit: 130,
      err: '152 runs redriven, the rest not tried; the same command goes on with what is left\n',
    });
    const rest = await pawl(args, { runs: many.runs });
    expect(rest).toMatchObject({ exit: 0, err: '148 runs redriven\n' });
    expect(new Set([...lines(cut.out), ...lines(rest.out)]).size).toBe(300);
  });

  it('says how many are left where it counted them', async () => {
    const interrupt = new AbortController();
    const { runs } = fleet((id) => {
      if (id === 'run_0') interrupt.abort();
      return null;
    });
    const ran = await pawl(['runs', 'redrive', '--agent', 'a'], { runs, confirm: true, interrupt: interrupt.signal });
    expect(ran).toMatchObject({
      exit: 130,
      err: '8 runs redriven, 12 not tried; the same command goes on with what is left\n',
    });
  });

  it('says how far it came when the database goes away between two pages', async () => {
    const many = mass(300);
    const list: Runs['list'] = async (filter = {}) => {
      if (filter.cursor !== undefined) throw new PawlError('database_unreachable', 'Postgres does not answer');
      return (await many.runs.list?.(filter)) ?? page([]);
    };
    const ran = await pawl(['runs', 'redrive', '--agent', 'a', '--yes'], { runs: { ...many.runs, list } });
    expect(ran.exit).toBe(8);
    expect(ran.err).toMatch(/^Postgres does not answer\n\d+ runs redriven, the rest not tried; /);
  });

  /** Failed runs that can be redriven, listed as Postgres does: after the cursor, and only those that are failed still. */
  function mass(size: number, { failsAgain = false, onDone = (_: number): unknown => 0 } = {}) {
    const all = Array.from({ length: size }, (_, at) => ({ id: `run_${at}`, failed: true }));
    const readAtEachPage: number[] = [];
    const doneAtEachPage: number[] = [];
    let read = 0;
    let done = 0;
    const list: Runs['list'] = async ({ cursor, limit = 0 } = {}) => {
      readAtEachPage.push(read);
      doneAtEachPage.push(done);
      const from = cursor === undefined ? 0 : Number(cursor) + 1;
      const rest = all.flatMap(({ failed }, at) => (failed && at >= from ? [at] : []));
      const shown = rest.slice(0, limit);
      read += shown.length;
      return page(
        shown.map((at) => aRun({ id: `run_${at}`, status: 'failed' })),
        rest.length > limit ? String(shown.at(-1)) : null,
      );
    };
    const redrive = async (id: string): Promise<RunView> => {
      const run = all.find((one) => one.id === id);
      if (run?.failed !== true) throw new PawlError('conflict', `run ${id} is running`);
      run.failed = failsAgain;
      onDone(++done);
      return aRun({ id, status: 'running' });
    };
    return { runs: { list, redrive } satisfies Partial<Runs>, readAtEachPage, doneAtEachPage };
  }
});
