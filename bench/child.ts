/**
 * One measurement in a process of its own: `child.ts '{"measure": …}'` does it and prints its result as one line of JSON, the
 * last of stdout. Main starts one for every measurement, so that none inherits another's heap, pools or compiled code.
 */
import { measureEnqueue } from './measures/enqueue.js';
import { measureGrowth } from './measures/growth.js';
import { measureMemory } from './measures/memory.js';
import { measureParts } from './measures/parts.js';
import type { Task } from './measures/task.js';
import { measureThroughput } from './measures/throughput.js';
import { serveWorker } from './measures/worker-process.js';
import { measureWorkers } from './measures/workers.js';

// What a peer has started is ended by its exit listeners.
process.once('SIGTERM', () => process.exit(143));

const task = JSON.parse(process.argv[2] ?? 'null') as Task;

async function measure(): Promise<object | null> {
  switch (task.measure) {
    case 'throughput':
      return measureThroughput(task);
    case 'growth':
      return measureGrowth(task);
    case 'workers':
      return measureWorkers(task);
    case 'memory':
      return measureMemory(task);
    case 'parts':
      return measureParts(task);
    case 'enqueue':
      return measureEnqueue(task);
    case 'worker':
      await serveWorker(task);
      return null;
  }
}

const result = await measure();
if (result !== null) process.stdout.write(`\n${JSON.stringify(result)}\n`, () => process.exit(0));
