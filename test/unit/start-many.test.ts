/** Many runs in one call: what is refused before anything is stored, and what each run is answered. */
import { beforeEach, describe, expect, it } from 'vitest';
import { PawlError } from '../../src/core/errors.js';
import type { NewRun } from '../../src/core/view.js';
import { type StartManyParts, startMany } from '../../src/engine/start-many.js';
import type { StartRun } from '../../src/engine/start-run.js';
import type { Dispatch } from '../../src/ports.js';
import { listing } from '../support/scenario.js';

let stored: (readonly NewRun[])[];
let handedOver: (readonly Dispatch[])[];
let queueAnswers: boolean;
let made: number;

beforeEach(() => {
  stored = [];
  handedOver = [];
  queueAnswers = true;
  made = 0;
});

const parts: StartManyParts = {
  store: {
    async createRuns(runs) {
      stored.push(runs);
      return runs.map((run) => {
        if (run.key === 'taken') return { refused: new PawlError('key_conflict', 'the key "taken" belongs to run_0') };
        if (run.key === 'mine') return { id: 'run_0', created: false, dispatches: [] };
        return { id: run.id, created: true, dispatches: [{ queue: 'llm', runId: run.id, seq: 1, dispatch: 1 }] };
      });
    },
  },
  reads: { agent: async (name) => (name === 'nobody' ? null : listing) },
  ids: {
    runId: () => {
      made += 1;
      return `run_${made}`;
    },
  },
  async dispatch(dispatches) {
    handedOver.push(dispatches);
    return queueAnswers;
  },
};

const run = (given: Partial<StartRun> = {}): StartRun => ({ agent: 'helper', input: 'the task', ...given });
const runs = (count: number, given: Partial<StartRun> = {}) => Array.from({ length: count }, () => run(given));

describe('many runs', () => {
  it('are answered one by one, in the order given', async () => {
    const started = await startMany(parts, [run(), run({ key: 'taken' }), run({ key: 'mine' }), run()]);
    expect(started).toMatchObject([
      { id: 'run_1', created: true, error: null },
      { id: null, created: false, error: { code: 'key_conflict' } },
      { id: 'run_0', created: false, error: null },
      { id: 'run_4', created: true, error: null },
    ]);
    expect(handedOver.flat().map(({ runId }) => runId)).toEqual(['run_1', 'run_4']);
  });

  it('are stored and handed over in pieces', async () => {
    expect(await startMany(parts, runs(1_201))).toHaveLength(1_201);
    expect(stored.map(({ length }) => length)).toEqual([500, 500, 201]);
    expect(handedOver.map(({ length }) => length)).toEqual([500, 500, 201]);
  });

  it('with long tasks are stored in smaller pieces', async () => {
    await startMany(parts, runs(10, { input: 'x'.repeat(900_000) }));
    expect(stored.map(({ length }) => length)).toEqual([5, 5]);
  });

  it('are all stored when the queue does not answer, which is asked once', async () => {
    queueAnswers = false;
    expect(await startMany(parts, runs(2_000))).toHaveLength(2_000);
    expect(handedOver).toHaveLength(1);
  });

  it('are none at all for none', async () => {
    expect(await startMany(parts, [])).toEqual([]);
  });
});

describe('nothing is stored', () => {
  async function refused(given: readonly StartRun[]): Promise<PawlError> {
    const error = await startMany(parts, given).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(stored).toEqual([]);
    expect(error).toBeInstanceOf(PawlError);
    return error as PawlError;
  }

  it('when a run is malformed: each is named with its place and its field', async () => {
    const bad = [run(), run({ input: '' }), run({ key: '' }), run(), run({ limits: [] as object })];
    const { code, message } = await refused(bad);
    expect(code).toBe('invalid_input');
    expect(message).toContain('nothing was stored: 3 of 5 runs');
    expect(message).toContain('runs[1]: input must be');
    expect(message).toContain('runs[2]: key must be');
    expect(message).toContain('runs[4]: ');
  });

  it('when a thousand are malformed: some are named, and the others counted', async () => {
    const { message } = await refused(runs(1_000, { input: null }));
    expect(message.split('\n')).toHaveLength(22);
    expect(message).toContain('and 980 more');
  });

  it('when an agent is not registered', async () => {
    const { code, message } = await refused([run(), run({ agent: 'nobody' })]);
    expect(code).toBe('unknown_agent');
    expect(message).toContain('"nobody" (runs[1])');
  });

  it('when it is no list, or holds what is no run', async () => {
    expect((await refused('run' as unknown as StartRun[])).message).toContain('an array');
    expect((await refused([null] as unknown as StartRun[])).message).toContain('runs[0]: agent must be');
  });
});
