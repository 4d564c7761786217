/**
 * Follows the demo's run to its end: shows each step as it is recorded, kills the worker in the middle, starts another and
 * says what is waited for meanwhile. One loop that looks at the rows; what it shows is what any other reader would see.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { explainWait } from '../cli/explain.js';
import { formatMs } from '../cli/format.js';
import { eventLine, statusLine, stepLine } from '../cli/step-line.js';
import type { Terminal } from '../cli/terminal.js';
import { PawlError } from '../core/errors.js';
import { isFinal } from '../core/run.js';
import type { EventView, RunView, StepView } from '../core/view.js';
import type { Runs } from '../engine/runs.js';
import { mayKill, recorded } from './crash.js';
import { bannerLine, survivorLine } from './show.js';
import type { DemoWorker } from './worker-child.js';

export interface FollowParts {
  runs: Pick<Runs, 'get' | 'steps' | 'events'>;
  id: string;
  terminal: Terminal;
  worker: DemoWorker;
  startAnother(): Promise<DemoWorker>;
  /** How long a heartbeat must stand still before its worker counts as dead. */
  deathMs: number;
  signal: AbortSignal;
}

export interface Followed {
  run: RunView;
  steps: readonly StepView[];
  /** The steps as they stood recorded before the kill; null when the run ended before. */
  survived: readonly StepView[] | null;
}

const lookEveryMs = 100;

export async function followRun(parts: FollowParts): Promise<Followed> {
  const { runs, id, terminal, signal } = parts;
  const news = newsOf(parts);
  let { worker } = parts;
  let survived: readonly StepView[] | null = null;
  for (;;) {
    // The run is read first, so that an end seen here has all its events behind it.
    const run = await runs.get(id);
    const steps = await news.show();
    if (needsNobody(run)) return { run, steps, survived };
    if (worker.ended() !== null) {
      throw new PawlError(
        'internal',
        `the worker (pid ${worker.pid}) is gone in the middle of a step: ${worker.ended()}`,
      );
    }
    if (survived === null && mayKill(steps)) {
      await worker.kill();
      await news.show();
      const killed = worker;
      terminal.out(bannerLine(`worker 1 (pid ${killed.pid}) was killed with SIGKILL`, terminal.paintOut));
      terminal.status(() => 'starting another worker');
      worker = await parts.startAnother();
      survived = await showWhatIsLeft(parts, worker);
      news.awaitVerdict();
    }
    await delay(lookEveryMs, undefined, { signal });
  }
}

/** It is over, or waits for a person. */
function needsNobody(run: RunView): boolean {
  if (isFinal(run.status)) return true;
  return run.status === 'suspended' && run.waitingFor !== null && explainWait(run, run.waitingFor).needsSomeone;
}

/** `show` prints what happened since it was last called, and answers the steps as they are. */
function newsOf({ runs, id, terminal, deathMs }: FollowParts) {
  let last = 0;
  let verdictSince: number | null = null;
  return {
    async show(): Promise<StepView[]> {
      const events = await runs.events(id, last);
      const steps = await runs.steps(id);
      last = events.at(-1)?.id ?? last;
      if (events.length > 0) verdictSince = null;
      for (const event of events) {
        const line = lineOf(event, steps, terminal);
        if (line !== null) terminal.out(line);
      }
      const since = verdictSince;
      const stillMs = () => formatMs(performance.now() - (since ?? 0));
      terminal.status(() =>
        since === null
          ? statusLine(steps, new Date())
          : `worker 2 watches the heartbeat of worker 1: still for ${stillMs()} of ${formatMs(deathMs)}`,
      );
      return steps;
    },
    /** Until something happens, it is the death of the first worker that is waited for. */
    awaitVerdict(): void {
      verdictSince = performance.now();
    },
  };
}

function lineOf(event: EventView, steps: readonly StepView[], { paintOut }: Terminal): string | null {
  const step = event.type === 'step.completed' ? steps.find(({ seq }) => seq === event.seq) : undefined;
  if (step === undefined) return eventLine(event, paintOut);
  const asked = typeof event.data.calls === 'number' ? { asked: event.data.calls } : {};
  return stepLine(step, paintOut, { ...asked, now: new Date() });
}

/** After the second worker has started, so that a record the killed one had sent off has arrived, too. */
async function showWhatIsLeft({ runs, id, terminal, deathMs }: FollowParts, worker: DemoWorker): Promise<StepView[]> {
  const { paintOut } = terminal;
  const steps = await runs.steps(id);
  terminal.out(bannerLine(`worker 2 (pid ${worker.pid}) started; this is what it finds`, paintOut));
  const survived = recorded(steps);
  for (const step of survived) terminal.out(survivorLine(step, paintOut));
  const lost = steps.filter(({ status }) => status === 'running').map(({ seq }) => seq);
  if (lost.length === 0) return survived;
  terminal.out(
    paintOut(
      'dim',
      `Step ${lost.join(', ')} was in flight: what it would have returned is lost with its worker. Worker 2 takes it over once the ` +
        `heartbeat of\nworker 1 has stood still for ${formatMs(deathMs)}; until then it might only be slow, and two workers would do one step.`,
    ),
  );
  return survived;
}
