/** An agent that nobody registered is answered with the names of those that are. */
import { PawlError } from '../core/errors.js';
import { didYouMean } from '../core/nearest.js';
import type { Runs } from '../engine/runs.js';

export async function suggestAgent<T>(runs: Pick<Runs, 'agents'>, agent: string, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== 'unknown_agent') throw error;
    const known = await runs.agents().then(
      (agents) => agents.map(({ name }) => name),
      () => [],
    );
    if (known.length === 0) throw error;
    const hint = `the agents are ${known.join(', ')}${didYouMean(agent, known)}`;
    throw new PawlError('unknown_agent', `${error.message}. In this database ${hint}.`, { cause: error });
  }
}
