/**
 * Lets the commands that name a run find those of the last demo, which lie in a database of their own: `pawl runs show`
 * works for them in the folder where the demo ran. Lists stay what they are, so that no demo is counted among real runs.
 */
import type { Client } from '../app.js';
import { PawlError } from '../core/errors.js';
import type { Runs } from '../engine/runs.js';

/** Name of the demo's database in the embedded server. */
export const demoDatabase = 'pawl_demo';

/** `openDemo` is called for the first id that `main` does not know; it fails where there was no demo. */
export function findingDemoRuns(main: Client, openDemo: () => Promise<Client>): Client {
  let opened: Promise<Client | null> | null = null;

  async function first<T>(ask: (runs: Runs) => Promise<T>): Promise<T> {
    try {
      return await ask(main.runs);
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== 'not_found') throw error;
      opened ??= openDemo().catch(() => null);
      const demo = await opened;
      if (demo === null) throw error;
      return ask(demo.runs);
    }
  }

  return {
    ...main,
    runs: {
      ...main.runs,
      get: (id) => first((runs) => runs.get(id)),
      steps: (id) => first((runs) => runs.steps(id)),
      attempts: (id) => first((runs) => runs.attempts(id)),
      messages: (id) => first((runs) => runs.messages(id)),
      events: (id, after, limit) => first((runs) => runs.events(id, after, limit)),
      async *watch(id, options) {
        const owner = await first(async (runs) => {
          await runs.get(id);
          return runs;
        });
        yield* owner.watch(id, options);
      },
      cancel: (id) => first((runs) => runs.cancel(id)),
      pause: (id) => first((runs) => runs.pause(id)),
      resume: (id, raised) => first((runs) => runs.resume(id, raised)),
      resolve: (id, resolution) => first((runs) => runs.resolve(id, resolution)),
      redrive: (id) => first((runs) => runs.redrive(id)),
    },
    async close() {
      const demo = await opened;
      await demo?.close();
      await main.close();
    },
  };
}
