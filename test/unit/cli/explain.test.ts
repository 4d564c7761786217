/** What is said about a run that waits or failed: words for each case, and commands that the command line really has. */
import { describe, expect, it } from 'vitest';
import { commandsAfter, explainWait, wordsOfReason } from '../../../src/cli/explain.js';
import { reasons } from '../../../src/core/run.js';
import { waitKinds } from '../../../src/core/step.js';
import type { WaitingFor } from '../../../src/core/view.js';
import { aRun, pawl } from './fake-world.js';

const kinds = waitKinds.filter((kind) => kind !== 'step');
const waits: WaitingFor[] = [
  ...kinds.map((kind) => ({ kind, step: 3, detail: null })),
  { kind: 'operator', step: 3, detail: 'paused' },
  { kind: 'operator', step: 3, detail: 'identical:2' },
  ...['max_steps', 'max_turns', 'max_tokens', 'max_cost', 'deadline'].map((detail) => ({
    kind: 'limit' as const,
    step: 3,
    detail,
  })),
];

it('there are words for every reason', () => {
  for (const reason of reasons) expect(wordsOfReason(reason)).toMatch(/^\S.*[a-z]$/);
});

describe('a run that waits', () => {
  it.each(waits)('for $kind $detail is explained', (wait) => {
    const { what, needsSomeone } = explainWait(aRun(), wait);
    expect(what).toMatch(/^\S.*\S$/);
    expect(needsSomeone).toBe(['approval', 'signal', 'outcome', 'operator', 'limit'].includes(wait.kind));
  });

  it('names the step and its tool', () => {
    expect(explainWait(aRun(), { kind: 'outcome', step: 3, detail: null }, { name: 'charge' }).what).toContain(
      'step 3 (charge)',
    );
  });
});

it('every command that is proposed is one', async () => {
  const proposed = new Set([
    ...waits.flatMap((wait) => explainWait(aRun(), wait).commands),
    ...commandsAfter(aRun({ status: 'failed', reason: 'deadline' })),
  ]);
  const act = async () => aRun();
  const runs = { resume: act, resolve: act, redrive: act, steps: async () => [] };
  const startWorker = async () => ({
    agents: [],
    queueKind: 'redis' as const,
    stop: async () => {},
    stopped: Promise.resolve(),
  });
  for (const command of proposed) {
    const [program, ...args] = (command.split('#')[0] ?? '').trim().split(/ +/);
    expect(program).toBe('pawl');
    expect(await pawl(args, { runs, services: { startWorker } }), command).toMatchObject({ exit: 0 });
  }
  expect(proposed.size).toBeGreaterThan(8);
});
