/**
 * A worker is told to end (SIGTERM) and has less time than its calls take: from the moment it let go of a step, or was told where it
 * had only fetched the job, to the step's next claim in another process. The others have room for what it gives back.
 */
import type { Evidence, WorkerLine } from '../campaign/evidence.js';
import { percentiles } from '../campaign/recovery.js';
import { tryCampaign } from '../campaign/try-campaign.js';
import { paced } from './kills.js';
import type { Setting } from './measure.js';

export async function measureHandOver(setting: Setting): Promise<object> {
  const { report, evidence } = await tryCampaign({
    ...setting,
    profile: 'real',
    runs: 20_000,
    minutes: setting.minutes ?? 8,
    layout: 'aaaa',
    only: ['sigterm'],
    openRuns: 15,
    startEveryMs: 100,
    callMs: 900,
    shutdownMs: 1_000,
    paces: paced({ pauseMs: [2_000, 4_000], steps: 0, longestMs: 0 }),
  });
  const times = handOvers(evidence);
  const sigterms = evidence.nemesis.filter(({ kind, failed }) => kind === 'sigterm' && failed === null).length;
  return { sigterms, breaches: report.breaches.length, 'steps handed over': times.length, ms: percentiles(times) };
}

type GapLine = Extract<WorkerLine, { what: 'gap' }>;

/** Without `once` calls, about whose fate nobody asks before their deadline, and calls that failed: the queue retries those later. */
function handOvers({ nemesis, workers, tables }: Evidence): number[] {
  const lines = workers.filter((line): line is GapLine => line.what === 'gap');
  const once = new Set(
    tables.steps.filter(({ effect }) => effect === 'once').map((step) => `${step.run_id} ${step.seq}`),
  );
  return nemesis
    .filter(({ kind, failed }) => kind === 'sigterm' && failed === null)
    .flatMap(({ details: { pid, hitAt }, inFlight }) =>
      inFlight.flatMap(({ runId, seq }) => {
        if (typeof hitAt !== 'number' || once.has(`${runId} ${seq}`)) return [];
        const mine = lines.filter((line) => line.runId === runId && line.seq === seq && line.at > hitAt);
        const next = mine.find((line) => line.gap === 'after_claim' && line.pid !== pid);
        if (next === undefined) return [];
        const letGo = mine.findLast((line) => line.pid === pid && line.gap === 'after_record' && line.at < next.at);
        if (letGo !== undefined && letGo.dispatch === next.dispatch) return [];
        return [Math.round(next.at - (letGo?.at ?? hitAt))];
      }),
    );
}
