/**
 * A worker process that runs steps and carries the maintenance role, as `pawl worker` does. Start it with
 * `node --import tsx workers/all.ts`; SIGTERM ends it in good order. Next: src/cli/serve.ts, src/setup.ts.
 */
import { runProcess } from '../src/cli/process.js';

await runProcess(['worker', '--role', 'all']);
