/** The Watch port in memory: each question of maintenance as a filter over all rows. */
import { deadlineActsAt, isPastDeadline } from '../core/limits.js';
import { isFinal, type RunState } from '../core/run.js';
import type { StepState } from '../core/step.js';
import type { Dispatch, DueStep, HeldClaim, Watch } from '../ports.js';
import type { RunRows } from './memory-runs.js';
import { isOfThread } from './memory-runs.js';
import { requireReachable, type Tables, type WorkerRows } from './memory-store.js';

const dayMs = 86_400_000;

export function createMemoryWatch(tables: Tables): Watch {
  const now = () => tables.clock.now().getTime();

  function* steps(status: StepState['status']): Generator<{ run: RunState; step: StepState }> {
    requireReachable(tables);
    for (const { run, steps } of tables.runs.values()) {
      for (const step of steps.values()) if (step.status === status) yield { run, step };
    }
  }

  function claims(limit: number, isWanted: (claimed: Claimed) => boolean): HeldClaim[] {
    const found: HeldClaim[] = [];
    for (const { run, step } of steps('running')) {
      if (step.claim === null) continue;
      const { token, workerId, startedAt, deadlineAt } = step.claim;
      const worker = tables.workers.get(workerId);
      if (worker === undefined || !isWanted({ token, startedAt, deadlineAt, worker })) continue;
      found.push({ runId: run.id, seq: step.seq, token, workerId, stopped: worker.state === 'stopped' });
    }
    return found.slice(0, limit);
  }

  function serves(agent: string, version: string | null): boolean {
    return [...tables.workers.values()].some(
      (worker) =>
        worker.state === 'live' &&
        worker.serves.some((served) => served.agent === agent && (version === null || served.version === version)),
    );
  }

  return {
    async breathe() {
      requireReachable(tables);
      return tables.clock.now();
    },
    async liveWorkers() {
      requireReachable(tables);
      return [...tables.workers.values()].filter(({ state }) => state === 'live').map(({ id, beat }) => ({ id, beat }));
    },
    async declareDead(workerId, beat) {
      requireReachable(tables);
      const worker = tables.workers.get(workerId);
      if (worker?.state !== 'live' || worker.beat !== beat) return false;
      worker.state = 'dead';
      worker.endedAt = tables.clock.now();
      return true;
    },
    claimsOfDeadWorkers: async (limit) => claims(limit, ({ worker }) => worker.state !== 'live'),
    droppedClaims: async (limit) =>
      claims(
        limit,
        ({ token, startedAt, worker }) =>
          worker.state === 'live' &&
          startedAt < worker.beatBeforeAt &&
          !worker.tokens.includes(token) &&
          !worker.tokensBefore.includes(token),
      ),
    overdueClaims: async (graceMs, limit) => claims(limit, ({ deadlineAt }) => deadlineAt.getTime() < now() - graceMs),
    async dueSteps(overdueMs, after, limit) {
      return [...steps('pending')]
        .filter(({ step }) => step.dueAt.getTime() < now() - overdueMs)
        .map(({ run, step }) => ({ ...dispatchOf(run, step), dueAt: step.dueAt }))
        .filter((due) => after === null || compareDue(due, after) > 0)
        .sort(compareDue)
        .slice(0, limit);
    },
    async unshownDeaths(limit) {
      return [...steps('dead')]
        .filter(({ step }) => step.shownAttempts === null && (step.finishedAt?.getTime() ?? 0) < now() - 2_000)
        .map(({ run, step }) => dispatchOf(run, step))
        .slice(0, limit);
    },
    async raiseDispatch(asked) {
      requireReachable(tables);
      return asked.flatMap(({ runId, seq, dispatch }): Dispatch[] => {
        const rows = tables.runs.get(runId);
        const step = rows?.steps.get(seq);
        if (rows === undefined || step === undefined || step.dispatch !== dispatch) return [];
        const isUnshown = step.status === 'dead' && step.shownAttempts === null;
        if (step.status !== 'pending' && !isUnshown) return [];
        const raised = { ...step, dispatch: dispatch + 1 };
        rows.steps.set(seq, raised);
        return [dispatchOf(rows.run, raised)];
      });
    },
    async runsPastDeadline(limit) {
      requireReachable(tables);
      return [...tables.runs.values()]
        .filter((rows) => needsDeadline(rows, tables.clock.now()))
        .map(({ run }) => run.id)
        .slice(0, limit);
    },
    async runsServedAgain(limit) {
      const waiting = [...steps('suspended')].filter(
        ({ run, step }) => step.waitingFor === 'worker' && serves(run.agent, run.agentVersion),
      );
      return [...new Set(waiting.map(({ run }) => run.id))].slice(0, limit);
    },
    async runsAwaitingThread(limit) {
      const oldest = new Map<string, RunState>();
      for (const { run, step } of steps('suspended')) {
        const key = JSON.stringify([run.tenant, run.threadId]);
        const isHeld = [...tables.runs.values()].some(({ run: other }) => other.holdsThread && isOfThread(other, run));
        const mayTake = run.endingAs === null && run.pauseAt === null && !isHeld;
        if (step.waitingFor !== 'slot' || step.dueAt.getTime() > now() || !mayTake) continue;
        const known = oldest.get(key);
        if (known === undefined || run.createdAt < known.createdAt) oldest.set(key, run);
      }
      return [...oldest.values()].map(({ id }) => id).slice(0, limit);
    },
    async isServed(agent, version) {
      requireReachable(tables);
      return serves(agent, version);
    },
    async queueEpoch() {
      requireReachable(tables);
      return tables.queueEpoch;
    },
    async raiseQueueEpoch(from) {
      requireReachable(tables);
      if (tables.queueEpoch !== from) return false;
      tables.queueEpoch += 1;
      return true;
    },
    async sweepWorkers() {
      const busy = new Set([...steps('running')].map(({ step }) => step.claim?.workerId));
      for (const { id, endedAt } of tables.workers.values()) {
        if (endedAt !== null && endedAt.getTime() < now() - dayMs && !busy.has(id)) tables.workers.delete(id);
      }
    },
    async sweepResults(limit) {
      requireReachable(tables);
      const expired = [...tables.results].filter(([, { expiresAt }]) => expiresAt.getTime() < now()).slice(0, limit);
      for (const [key] of expired) tables.results.delete(key);
      return expired.length;
    },
  };
}

interface Claimed {
  token: string;
  startedAt: Date;
  deadlineAt: Date;
  worker: WorkerRows;
}

function dispatchOf(run: RunState, { queue, seq, dispatch }: StepState): Dispatch {
  return { queue, runId: run.id, seq, dispatch };
}

function compareDue(a: DueStep, b: DueStep): number {
  const byRun = a.runId < b.runId ? -1 : a.runId > b.runId ? 1 : 0;
  return a.dueAt.getTime() - b.dueAt.getTime() || byRun || a.seq - b.seq;
}

function needsDeadline({ run, steps }: RunRows, now: Date): boolean {
  const actsAt = deadlineActsAt(run);
  if (isFinal(run.status) || run.endingAs !== null || actsAt === null || !isPastDeadline(run, now)) return false;
  const { onLimit } = run.limits;
  if (onLimit === 'suspend') return [...steps.values()].some((step) => step.status === 'pending');
  return onLimit === 'fail' || run.finishingAs !== 'deadline' || (run.deadlineAt !== null && now >= run.deadlineAt);
}
