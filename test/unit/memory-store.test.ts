/** The database in memory passes the suites of the real one, or it proves nothing. */
import { inOrder } from '../../src/testing/memory-runs.js';
import { memoryWorld } from '../../src/testing/memory-world.js';
import { storeContract } from '../contract/store.js';
import type { StoreWorld } from '../contract/store-world.js';
import { watchContract } from '../contract/watch.js';

async function openWorld(): Promise<StoreWorld> {
  const world = memoryWorld({ beatEveryMs: 100 });
  return {
    ...world,
    pass: (ms) => world.clock.jump(ms),
    moment: () => world.clock.advance(50),
    async rows(runId) {
      const found = structuredClone(world.rows(runId));
      if (found === undefined) throw new Error(`there is no run ${runId}`);
      return {
        run: found.run,
        steps: [...found.steps.values()].sort((a, b) => a.seq - b.seq),
        messages: inOrder(found.messages),
        attempts: found.attempts,
        eventTypes: found.events.map((event) => event.type),
        eventIds: found.events.map((event) => event.id),
      };
    },
    close: async () => world.workers.stopAll(),
  };
}

storeContract('the memory fake', openWorld);
watchContract('the memory fake', openWorld);
