/** Whether a peer did the work: a broken peer must be an error, never a fast number. */
import type { Session } from '../peer.js';
import { payloadOf, type Work } from '../work.js';

export interface Played {
  runs: readonly string[];
  steps: number;
}

export async function checkWork(session: Session, work: Work, played: readonly Played[]): Promise<void> {
  const expected = played.reduce((sum, { runs, steps }) => sum + runs.length * steps, 0);
  if (work.calls !== expected) throw new Error(`${work.calls} steps were performed instead of ${expected}`);
  const recorded = await session.recorded();
  if (recorded !== null && recorded !== expected)
    throw new Error(`${recorded} steps are recorded instead of ${expected}`);
  for (const { runs, steps } of played) {
    for (const run of [runs[0], runs.at(Math.floor(runs.length / 2)), runs.at(-1)]) {
      if (run !== undefined) await checkOutputs(session, run, steps);
    }
  }
}

async function checkOutputs(session: Session, run: string, steps: number): Promise<void> {
  const outputs = await session.outputs(run);
  if (outputs === null) return;
  if (outputs.length !== steps) throw new Error(`run ${run} has ${outputs.length} outputs instead of ${steps}`);
  outputs.forEach((output, at) => {
    if (output !== payloadOf(run, at + 1))
      throw new Error(`run ${run}, step ${at + 1}: recorded ${JSON.stringify(output).slice(0, 200)}`);
  });
}
