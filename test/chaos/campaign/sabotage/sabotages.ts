/**
 * Ways to break the engine, each a few words of its sources taken out or turned round, so that a promise is no longer kept
 * and nothing else is different. A campaign on a copy so broken must be failed by the checker, under one of the names given.
 * There is no switch for any of them in src. Next: apply.ts, try-sabotages.ts.
 */
import type { CampaignOptions } from '../campaign.js';

export interface Sabotage {
  name: string;
  /** What is no longer so. */
  breaks: string;
  edits: Edit[];
  /** Any of these catches it. */
  caughtBy: string[];
  /** Where faults of every kind, or the runs of any seed, would hit what it breaks too seldom for three minutes. */
  campaign?: Partial<Pick<CampaignOptions, 'only' | 'layout' | 'backend' | 'minutes' | 'seed'>>;
}

export interface Edit {
  file: string;
  /** Stands exactly once in the file. */
  find: string;
  put: string;
}

export const sabotages: Sabotage[] = [
  {
    name: 'fence off',
    breaks: 'a record is carried out whatever claim it comes from, and writes over what stands there',
    edits: [
      {
        file: 'src/core/record.ts',
        find: 'if (step.claim?.token !== request.token) return answerFromReceipt(draft, step);',
        put: 'void answerFromReceipt;',
      },
      { file: 'src/core/record.ts', find: "if (step.status !== 'running') return answerFromStep(step);", put: '' },
      {
        file: 'src/postgres/write.ts',
        find: 'select $2, seq, pos, tokens, body from guard, json_populate_recordset(null::pawl.messages, $5::json)',
        put: `select $2, seq, pos, tokens, body from guard, json_populate_recordset(null::pawl.messages, $5::json)
  on conflict (run_id, seq, pos) do update set body = excluded.body`,
      },
    ],
    caughtBy: ['I1', 'I4'],
    campaign: { only: ['zombie'], layout: 'sssm' },
  },
  {
    name: 'outbox off',
    breaks: 'the sweep takes every due step for one that the queue knows',
    edits: [
      {
        file: 'src/engine/sweep.ts',
        find: "due.filter((step, index) => this.isAbsent(step, presence[index] ?? 'absent', stillActive))",
        put: "due.filter((step, index) => this.isAbsent(step, presence[index] ?? 'absent', stillActive) && false)",
      },
    ],
    caughtBy: ['liveness', 'I3', 'I8'],
  },
  {
    name: 'rescue off',
    breaks: 'the claims of a dead worker are left to it',
    edits: [{ file: 'src/engine/maintain.ts', find: '    await this.releaseClaims();\n', put: '' }],
    caughtBy: ['liveness', 'I3'],
  },
  {
    name: 'intent off',
    breaks: 'a once call whose worker died is repeated like any other',
    edits: [
      {
        file: 'src/core/recover.ts',
        find: "const once = step.effect === 'once' && !step.unknown;",
        put: 'const once = false;',
      },
    ],
    caughtBy: ['I6'],
    campaign: { only: ['kill', 'kill_at_gap'] },
  },
  {
    name: 'fate guessed',
    breaks: 'nobody is asked about a call whose fate is unknown: the model is told so',
    edits: [
      {
        file: 'src/engine/perform-tool.ts',
        find: "if (answer === 'ask') return { kind: 'unknown_settled', observation: null };",
        put: '',
      },
    ],
    caughtBy: ['I6'],
  },
  {
    name: 'key not stable',
    breaks: 'the idempotency key differs from attempt to attempt',
    edits: [
      {
        file: 'src/engine/perform-tool.ts',
        find: "idempotencyKey: step.idempotencyKey ?? '',",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
        put: 'idempotencyKey: `${step.idempotencyKey}.${step.attempt}`,',
      },
    ],
    caughtBy: ['I5'],
  },
  {
    name: 'dispatch not raised',
    breaks: 'a step is handed to the queue again under the job id that it had',
    edits: [
      {
        file: 'src/postgres/watch.ts',
        find: 'update pawl.steps s set dispatch = s.dispatch + 1',
        put: 'update pawl.steps s set dispatch = s.dispatch',
      },
      {
        file: 'src/core/draft.ts',
        find: 'step.dispatch += 1;\n      if (dueAt <= this.now)',
        put: 'if (step.dispatch === 0) step.dispatch = 1;\n      if (dueAt <= this.now)',
      },
    ],
    caughtBy: ['section 2', 'liveness', 'I3', 'I8'],
  },
  {
    name: 'dispatch ignored',
    breaks: 'a job of any dispatch may claim its step',
    edits: [{ file: 'src/postgres/claim.ts', find: 'and s.dispatch = a.dispatch', put: '' }],
    caughtBy: ['section 2'],
    campaign: { only: ['jobs_added', 'jobs_paused', 'kill', 'zombie'], layout: 'aaa' },
  },
  {
    name: 'crash count off',
    breaks: 'no crash of a suspect is counted',
    edits: [{ file: 'src/core/recover.ts', find: 'if (step.suspect) step.crashes += 1;', put: '' }],
    caughtBy: ['section 5'],
    campaign: { only: ['kill', 'kill_at_gap'] },
  },
  {
    name: 'retry without end',
    breaks: 'a tool that fails is tried once more than it may be',
    edits: [
      {
        file: 'src/core/decide.ts',
        find: 'const triesLeft = step.failures + 1 < step.maxAttempts && !isClosed(run, step);',
        put: 'const triesLeft = step.failures < step.maxAttempts && !isClosed(run, step);',
      },
    ],
    caughtBy: ['section 5'],
  },
  {
    name: 'join without lock',
    breaks: 'what a record counts was read before others wrote, and is written over what they counted',
    edits: [
      {
        file: 'src/postgres/store.ts',
        find: 'from pawl.runs where id = $1 for no key update',
        put: 'from pawl.runs where id = $1',
      },
      { file: 'src/postgres/record.ts', find: ' and r.writes = n.writes', put: '' },
      {
        file: 'src/postgres/record.ts',
        find: 'at timestamptz, data text)\n  where run_id = any(array(select id from guard))',
        put: 'at timestamptz, data text)\n  where run_id = any(array(select id from guard)) on conflict (run_id, id) do nothing',
      },
      {
        file: 'src/postgres/write.ts',
        find: 'where id = $2 and writes = $9 for no key update',
        put: 'where id = $2 and $9::int >= 0',
      },
      {
        file: 'src/postgres/write.ts',
        find: 'select $2, id, type, seq, at, data from guard, json_populate_recordset(null::pawl.events, $8::json)',
        put: `select $2, id, type, seq, at, data from guard, json_populate_recordset(null::pawl.events, $8::json)
  on conflict (run_id, id) do nothing`,
      },
    ],
    caughtBy: ['I1', 'I3', 'liveness'],
  },
  {
    name: 'receipts off',
    breaks: 'a record repeated after a lost reply is answered as if its claim had been taken away',
    edits: [
      {
        file: 'src/core/record.ts',
        find: 'if (receipt === null || !receipt.recorded) return { recorded: false };',
        put: 'if (receipt !== undefined) return { recorded: false };',
      },
    ],
    caughtBy: ['I4'],
    campaign: { only: ['reply_swallowed', 'kill'] },
  },
  {
    name: 'claim not repeatable',
    breaks: 'a claim whose answer was lost is refused when it is asked again with its token',
    edits: [
      {
        file: 'src/postgres/claim.ts',
        find: "      or (s.status = 'running' and s.claim_token = a.token)\n",
        put: '',
      },
    ],
    caughtBy: ['I4'],
    campaign: { only: ['reply_swallowed'] },
  },
  {
    name: 'lost usage not counted',
    breaks: 'a model call that was lost with its worker costs nothing',
    edits: [
      {
        file: 'src/core/recover.ts',
        find: '    step.usage = lostUsage(draft.run);\n    draft.charge(step.usage);\n',
        put: '',
      },
    ],
    caughtBy: ['I10'],
  },
  {
    name: 'redrive untold',
    breaks: "an operator's Retry changes a final run and is no event",
    edits: [
      {
        file: 'src/core/commands.ts',
        find: "draft.event('run.redriven', null, { by, steps: dead.map((step) => step.seq) });",
        put: 'void by;',
      },
    ],
    caughtBy: ['I2'],
    // Workers answer a Retry; the command is a client's, whose code is not the sabotaged one.
    campaign: { only: ['jobs_retried', 'kill'] },
  },
  {
    name: 'beats unseen',
    breaks: 'a worker is declared dead however its heart beats',
    edits: [
      {
        file: 'src/engine/maintain.ts',
        find: 'if (known === undefined || known.beat !== beat) this.beats.set',
        put: 'if (known === undefined) this.beats.set',
      },
    ],
    caughtBy: ['section 7'],
  },
  {
    name: 'kept for everyone',
    breaks: "a result that a tool keeps is given to other agents' calls as well",
    edits: [
      {
        file: 'src/engine/perform-tool.ts',
        find: 'const what = [agent.name, agent.version, name, description,',
        put: 'void agent;\n  const what = [name, description,',
      },
    ],
    caughtBy: ['section 3'],
    // Two agents have to ask about one thing within ten seconds, which in many a seed's first runs happens once or not at all.
    campaign: { only: ['kill'], seed: 5 },
  },
  {
    name: 'withdrawal unheard',
    breaks: 'a step that was planned before its tool was withdrawn calls it all the same',
    edits: [
      {
        file: 'src/engine/perform-tool.ts',
        find: 'if (!claim.step.unknown && isWithdrawn(claim.stops, agent.name, tool.name)) {',
        put: 'if (isWithdrawn([], agent.name, tool.name)) {',
      },
    ],
    caughtBy: ['section 6'],
  },
  {
    name: 'secret told',
    breaks: "the model's key stands in the text of an error",
    edits: [
      {
        file: 'src/openai/llm.ts',
        find: 'if (fault !== null) return { ok: false, failure: classify(fault) };',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
        put: 'if (fault !== null) return { ok: false, failure: { ...classify(fault), message: `${endpoint.apiKey}` } };',
      },
    ],
    caughtBy: ['I12'],
  },
];
