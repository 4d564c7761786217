/**
 * The use cases that doors offer: start runs, look at them, command them. Each command moves rows first and then tells the
 * queue; when the queue does not answer, nothing is lost, since the sweep dispatches what is due.
 */
import { cancelRun, pauseRun, type Resolution, redriveRun, resolveStep, resumeRun } from '../core/commands.js';
import type { Draft } from '../core/draft.js';
import { PawlError } from '../core/errors.js';
import type { StoredMessage } from '../core/message.js';
import { isFinal, type Limits } from '../core/run.js';
import type { AttemptRecord } from '../core/step.js';
import { toStorableText } from '../core/storable.js';
import type { AgentListing, EventView, RunFilter, RunPage, RunView, StepView, ToolListing } from '../core/view.js';
import type { Clock, Dispatch, Ids, Log, Queue, Reads, StepScope, Store } from '../ports.js';
import { type StartedOfMany, type StartedRun, startMany } from './start-many.js';
import { readStart, type StartRun } from './start-run.js';
import { disableTool, enableTool, type ToolSwitch } from './switch-tool.js';

export type Resolve = { step: number; as: 'done' | 'failed'; result?: unknown } | { step: number; as: 'rerun' };

export type RaisedLimits = Partial<Record<keyof Omit<Limits, 'onLimit'>, number>>;

export interface Runs {
  /** Accepts a run and returns at once. Throws `unknown_agent`, `invalid_input`, `key_conflict`. */
  start(run: StartRun): Promise<StartedRun>;
  /**
   * Accepts many runs with few statements, and answers for each in the order given. Throws `invalid_input` or
   * `unknown_agent`, naming the runs, before anything is stored. When Postgres fails on the way some are stored: give each a
   * key, and the same call goes on where it stopped.
   */
  startMany(runs: readonly StartRun[]): Promise<StartedOfMany[]>;
  /** Throws `not_found`, as every call here that takes an id. */
  get(id: string): Promise<RunView>;
  list(filter?: Partial<RunFilter>): Promise<RunPage>;
  steps(id: string): Promise<StepView[]>;
  attempts(id: string): Promise<AttemptRecord[]>;
  messages(id: string): Promise<StoredMessage[]>;
  /** Events after the given id (0: from the start), at most `limit` (1,000). */
  events(id: string, after?: number, limit?: number): Promise<EventView[]>;
  /** Events as they come, from `after` on, until the run is final or suspended (`untilFinal`: only final) or the signal aborts. */
  watch(id: string, options?: { after?: number; untilFinal?: boolean; signal?: AbortSignal }): AsyncIterable<EventView>;
  cancel(id: string): Promise<RunView>;
  pause(id: string): Promise<RunView>;
  resume(id: string, raised?: RaisedLimits): Promise<RunView>;
  resolve(id: string, resolve: Resolve): Promise<RunView>;
  redrive(id: string): Promise<RunView>;
  agents(): Promise<AgentListing[]>;
  tools(): Promise<ToolListing[]>;
  /** Withdraws a tool from every run at once, from the next step on. Throws `not_found`, `unknown_agent`. */
  disableTool(tool: string, options?: ToolSwitch): Promise<ToolListing>;
  /** Gives it back. Throws `conflict` for an agent alone where the tool was withdrawn from all. */
  enableTool(tool: string, options?: ToolSwitch): Promise<ToolListing>;
}

export interface RunsParts {
  store: Store;
  reads: Reads;
  queue: Queue;
  clock: Clock;
  ids: Ids;
  log: Log;
}

/** How often a watcher looks for new events. */
const watchEveryMs = 250;

export function createRuns(parts: RunsParts): Runs {
  const { store, reads, queue, clock, ids, log } = parts;

  /** False when the queue does not answer. */
  async function dispatch(dispatches: readonly Dispatch[]): Promise<boolean> {
    if (dispatches.length === 0) return true;
    try {
      await queue.add(dispatches);
      return true;
    } catch (error) {
      log.warn(
        { steps: dispatches.length, cause: String(error) },
        'the queue does not answer; the sweep will dispatch',
      );
      return false;
    }
  }

  async function get(id: string): Promise<RunView> {
    const run = await reads.run(id);
    if (run === null) throw new PawlError('not_found', `there is no run ${JSON.stringify(id)}`);
    return run;
  }

  async function command<T>(id: string, scope: StepScope, rule: (draft: Draft) => T): Promise<T> {
    const changed = await store.change(id, scope, rule);
    if (changed === null) throw new PawlError('not_found', `there is no run ${JSON.stringify(id)}`);
    await dispatch(changed.dispatches);
    return changed.value;
  }

  return {
    async start(run) {
      const [accepted] = await store.createRuns([{ ...readStart(run), id: ids.runId() }]);
      if (accepted === undefined) throw new PawlError('internal', 'the store did not answer for the run');
      if ('refused' in accepted) throw accepted.refused;
      await dispatch(accepted.dispatches);
      return { id: accepted.id, created: accepted.created };
    },
    startMany: (runs) => startMany({ store, reads, ids, dispatch }, runs),
    get,
    list: (filter = {}) => reads.runs({ limit: 50, ...filter }),
    async steps(id) {
      await get(id);
      return reads.steps(id);
    },
    async attempts(id) {
      await get(id);
      return reads.attempts(id);
    },
    async messages(id) {
      await get(id);
      return reads.messages(id);
    },
    async events(id, after = 0, limit = 1_000) {
      await get(id);
      return reads.events(id, after, limit);
    },
    async *watch(id, { after = 0, untilFinal = false, signal } = {}) {
      let last = after;
      while (signal?.aborted !== true) {
        // The state is read before the events, so that an end seen here has all its events behind it.
        const run = await get(id);
        for (;;) {
          const events = await reads.events(id, last, 500);
          for (const event of events) {
            last = event.id;
            yield event;
          }
          if (events.length < 500) break;
        }
        if (isFinal(run.status) || (run.status === 'suspended' && !untilFinal)) return;
        await clock.sleep(watchEveryMs, signal);
      }
    },
    async cancel(id) {
      await command(id, 'open', cancelRun);
      return get(id);
    },
    async pause(id) {
      await command(id, 'open', pauseRun);
      return get(id);
    },
    async resume(id, raised = {}) {
      await command(id, 'open', (draft) => resumeRun(draft, raised));
      return get(id);
    },
    async resolve(id, resolve) {
      await command(id, { seqs: [resolve.step] }, (draft) => resolveStep(draft, resolve.step, resolutionOf(resolve)));
      return get(id);
    },
    async redrive(id) {
      const { oldJobs } = await command(id, 'revivable', (draft) => redriveRun(draft, 'command'));
      // The old jobs only show in the failed set; leaving one there is no harm.
      await queue.remove(oldJobs.map((job) => ({ ...job, runId: id }))).catch(() => {});
      return get(id);
    },
    agents: () => reads.agents(),
    tools: () => reads.tools(),
    disableTool: (tool, options) => disableTool(parts, tool, options),
    enableTool: (tool, options) => enableTool(parts, tool, options),
  };
}

/** Characters of an operator's answer that the model sees. */
const maxAnswerChars = 4_000;

function resolutionOf(resolve: Resolve): Resolution {
  if (resolve.as === 'rerun') return { as: 'rerun' };
  const given = resolve.result ?? (resolve.as === 'done' ? 'done' : 'failed');
  const { text, full } = toStorableText(given, maxAnswerChars);
  return { as: resolve.as, observation: { text, full, tokens: Math.ceil(text.length / 3) } };
}
