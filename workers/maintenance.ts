/** A worker process that only rescues, sweeps and meets deadlines; it needs neither agents nor a model. See all.ts. */
import { runProcess } from '../src/cli/process.js';

await runProcess(['worker', '--role', 'maintenance']);
