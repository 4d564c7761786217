/** A worker process that only runs steps; somewhere a maintenance process has to run beside it. See all.ts. */
import { runProcess } from '../src/cli/process.js';

await runProcess(['worker', '--role', 'steps']);
