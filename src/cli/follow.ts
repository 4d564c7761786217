/**
 * Follows a run until it ends, or waits for somebody: a line for each step as it is recorded, and on a terminal what is
 * under way meanwhile. It reads and never changes the run; a database that goes away for a moment is waited for.
 */
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { PawlError } from '../core/errors.js';
import { isFinal } from '../core/run.js';
import type { EventView, RunView, StepView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import { explainWait } from './explain.js';
import { eventLine, statusLine, stepLine } from './step-line.js';
import type { Paint } from './terminal.js';
import type { World } from './world.js';

export interface Follow {
  id: string;
  /** Where each line goes, and how it is coloured there. */
  line: (text: string) => void;
  paint: Paint;
  /** Gets each event instead of its line. */
  onEvent?: ((event: EventView) => void) | undefined;
  /** Only what happened after this event. */
  after?: number | undefined;
  /** Goes on while the run waits for somebody. */
  untilFinal?: boolean | undefined;
  /** Not before then does it wonder where the workers are. */
  dueAt?: Date | undefined;
}

/** How often in a row a database that does not answer is asked again. */
const patientTries = 60;

/** Answers the run as it is at the end, or when nobody listens any more. Throws `not_found`, and what goes on too long. */
export async function followRun(world: World, runs: Runs, follow: Follow): Promise<RunView> {
  const ended = new AbortController();
  const signal = AbortSignal.any([world.interrupt, world.terminal.gone, ended.signal]);
  const under = showWhatIsUnderWay(world, runs, follow, signal);
  let last = follow.after ?? 0;
  let tries = 0;
  try {
    while (!signal.aborted) {
      const attempt = new AbortController();
      const either = AbortSignal.any([signal, attempt.signal]);
      try {
        for await (const events of inBatches(
          runs.watch(follow.id, { after: last, untilFinal: true, signal: either }),
        )) {
          await showEvents(world, runs, follow, events);
          last = events.at(-1)?.id ?? last;
          tries = 0;
          if (
            follow.untilFinal !== true &&
            events.some(({ type }) => type === 'run.suspended') &&
            (await needsSomeone(runs, follow.id))
          ) {
            ended.abort();
          }
        }
        break;
      } catch (error) {
        tries += 1;
        if (!(error instanceof PawlError) || error.code !== 'database_unreachable' || tries > patientTries) throw error;
        if (tries === 1) world.terminal.say('the database does not answer; trying again, the run is safe');
        attempt.abort();
        await delay(world.refreshMs, undefined, { signal }).catch(() => {});
      }
    }
  } finally {
    ended.abort();
    await under;
    world.terminal.status(null);
  }
  return runs.get(follow.id);
}

async function needsSomeone(runs: Runs, id: string): Promise<boolean> {
  const run = await runs.get(id);
  if (run.status !== 'suspended') return false;
  return run.waitingFor === null || explainWait(run, run.waitingFor).needsSomeone;
}

async function showEvents(world: World, runs: Runs, follow: Follow, events: readonly EventView[]): Promise<void> {
  if (follow.onEvent !== undefined) return events.forEach(follow.onEvent);
  const recorded = events.filter(({ type }) => type === 'step.completed').map(({ seq }) => seq);
  const steps = recorded.length === 0 ? [] : await runs.steps(follow.id);
  const bySeq = new Map<number | null, StepView>(steps.map((step) => [step.seq, step]));
  for (const event of events) {
    const step = event.type === 'step.completed' ? bySeq.get(event.seq) : undefined;
    const asked = typeof event.data.calls === 'number' ? { asked: event.data.calls } : {};
    const line =
      step === undefined
        ? eventLine(event, follow.paint)
        : stepLine(step, follow.paint, { ...asked, now: world.now() });
    if (line !== null) follow.line(line);
  }
  if (steps.length > 0) world.terminal.status(() => statusLine(steps, world.now()));
}

/** Keeps the status line, and says once when no worker takes the run up. Ends with the signal; its own failures are silent. */
async function showWhatIsUnderWay(world: World, runs: Runs, follow: Follow, signal: AbortSignal): Promise<void> {
  const { terminal, refreshMs, patienceMs, now } = world;
  const patientUntil = Math.max(now().getTime(), follow.dueAt?.getTime() ?? 0) + patienceMs;
  let mayWonder = true;
  while (!signal.aborted) {
    await delay(refreshMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const wonders: boolean = mayWonder && now().getTime() >= patientUntil;
    if (!wonders && !terminal.hearsMessages) continue;
    try {
      const run = await runs.get(follow.id);
      if (signal.aborted || isFinal(run.status)) return;
      if (run.status !== 'pending') mayWonder = false;
      if (wonders && mayWonder) {
        mayWonder = false;
        terminal.say('no worker has taken the run up yet; if none is running, start one with pawl dev or pawl worker');
      }
      const wait = run.waitingFor === null ? null : explainWait(run, run.waitingFor).what;
      const steps = terminal.hearsMessages && wait === null ? await runs.steps(follow.id) : [];
      if (!signal.aborted) terminal.status(() => wait ?? statusLine(steps, now()));
    } catch {
      // the watch itself reports what goes on failing
    }
  }
}

/** What comes at once is handed on together, so that one look at the steps serves it all. */
export async function* inBatches<T>(source: AsyncIterable<T>): AsyncGenerator<T[]> {
  let arrived: T[] = [];
  let ended: { error: unknown } | 'well' | null = null;
  let wake: () => void = () => {};
  const pump = async (): Promise<void> => {
    for await (const item of source) {
      arrived.push(item);
      wake();
    }
  };
  pump().then(
    () => {
      ended = 'well';
      wake();
    },
    (error: unknown) => {
      ended = { error };
      wake();
    },
  );
  for (;;) {
    if (arrived.length === 0 && ended === null) await new Promise<void>((resolve) => (wake = resolve));
    await turn();
    const batch = arrived;
    arrived = [];
    if (batch.length > 0) yield batch;
    else if (ended !== null) break;
  }
  const end = ended as { error: unknown } | 'well' | null;
  if (end !== null && end !== 'well') throw end.error;
}
