/**
 * Starts many runs with few statements. Everything that can be said of a run without storing it is said of all of them
 * first: either none is malformed, or none is stored. After that each answers for itself: made, found by its key, or its
 * key belongs to another input.
 */
import { describeThrown, PawlError } from '../core/errors.js';
import type { Acceptance, Dispatch, Ids, Reads, Store } from '../ports.js';
import { readStart, type StartRun } from './start-run.js';

export interface StartedRun {
  id: string;
  /** False when the key names a run that exists, with the same input. */
  created: boolean;
}

/** What became of one of many. `error`: its key belongs to a run with another input; nothing was stored for it. */
export type StartedOfMany = (StartedRun & { error: null }) | { id: null; created: false; error: PawlError };

export interface StartManyParts {
  store: Pick<Store, 'createRuns'>;
  reads: Pick<Reads, 'agent'>;
  ids: Pick<Ids, 'runId'>;
  /** Hands steps to the queue; false when it does not answer. Never throws. */
  dispatch(dispatches: readonly Dispatch[]): Promise<boolean>;
}

/** Runs of one statement, and the most characters of their tasks: more gain nothing, and hold their locks for longer. */
const storedAtOnce = 500;
const storedChars = 4_000_000;

export async function startMany(parts: StartManyParts, runs: readonly StartRun[]): Promise<StartedOfMany[]> {
  refuseMalformed(runs);
  await refuseUnknownAgents(parts.reads, runs);
  const started: StartedOfMany[] = [];
  // The queue is handed one chunk while the next is stored. One that does not answer is not asked again.
  let handedOver = Promise.resolve(true);
  try {
    for (const chunk of inChunks(runs)) {
      const accepted = await parts.store.createRuns(chunk.map((run) => ({ ...run, id: parts.ids.runId() })));
      const dispatches = accepted.flatMap((one) => ('refused' in one ? [] : one.dispatches));
      if (await handedOver) handedOver = parts.dispatch(dispatches);
      for (const one of accepted) started.push(startedOf(one));
    }
  } finally {
    await handedOver;
  }
  return started;
}

function startedOf(accepted: Acceptance): StartedOfMany {
  if ('refused' in accepted) return { id: null, created: false, error: accepted.refused };
  return { id: accepted.id, created: accepted.created, error: null };
}

/** Faults named in one message at most. */
const namedFaults = 20;

function refuseMalformed(runs: readonly StartRun[]): void {
  if (!Array.isArray(runs)) throw new PawlError('invalid_input', 'startMany takes an array of runs');
  const faults: { index: number; error: PawlError }[] = [];
  runs.forEach((run, index) => {
    try {
      readStart(run ?? {});
    } catch (error) {
      faults.push({ index, error: asInvalid(error) });
    }
  });
  const [first] = faults;
  if (first === undefined) return;
  const lines = faults.slice(0, namedFaults).map(({ index, error }) => `\n- runs[${index}]: ${error.message}`);
  const more = faults.length > namedFaults ? `\n- and ${faults.length - namedFaults} more` : '';
  throw new PawlError(
    first.error.code,
    `nothing was stored: ${faults.length} of ${runs.length} runs cannot be started${lines.join('')}${more}`,
    { cause: new AggregateError(faults.map(({ error }) => error)) },
  );
}

/** An input that cannot be written as JSON. */
function asInvalid(error: unknown): PawlError {
  if (error instanceof PawlError) return error;
  return new PawlError('invalid_input', describeThrown(error), { cause: error });
}

/** An agent that is registered stays so: what is asked here still holds when the runs are stored. */
async function refuseUnknownAgents(reads: Pick<Reads, 'agent'>, runs: readonly StartRun[]): Promise<void> {
  for (const name of new Set(runs.map(({ agent }) => agent))) {
    if ((await reads.agent(name)) !== null) continue;
    const index = runs.findIndex(({ agent }) => agent === name);
    throw new PawlError(
      'unknown_agent',
      `nothing was stored: no worker has registered an agent named ${JSON.stringify(name)} (runs[${index}]); start a worker whose config defines it`,
    );
  }
}

type ReadRun = ReturnType<typeof readStart>;

/** Read a second time, so that only one chunk is ever held twice. */
function* inChunks(runs: readonly StartRun[]): Iterable<ReadRun[]> {
  let chunk: ReadRun[] = [];
  let chars = 0;
  for (const given of runs) {
    const run = readStart(given);
    chunk.push(run);
    chars += typeof run.input === 'string' ? run.input.length : JSON.stringify(run.input).length;
    if (chunk.length < storedAtOnce && chars < storedChars) continue;
    yield chunk;
    chunk = [];
    chars = 0;
  }
  if (chunk.length > 0) yield chunk;
}
