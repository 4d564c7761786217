/** The `pawl` command, as bin/pawl.mjs starts it. Next: process.ts, program.ts. */
import { runProcess } from './process.js';

await runProcess(process.argv.slice(2));
