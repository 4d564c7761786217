/**
 * The Store port in memory: passes the suite of the real one (test/contract/store.ts). One change at a time, so a rule never
 * meets another; times are the given clock's. What lies behind it is shared with memory-watch.ts and memory-workers.ts.
 */
import { isShown } from '../core/context.js';
import type { Draft } from '../core/draft.js';
import { PawlError } from '../core/errors.js';
import { type FactReader, type FactScope, wordsIn } from '../core/fact.js';
import { countFailure, type Outage, takeTrial } from '../core/outage.js';
import { isFinal } from '../core/run.js';
import type { StepState } from '../core/step.js';
import { canonicalJson } from '../core/storable.js';
import type { StoppedTool, ToolStop } from '../core/tool-stop.js';
import type { AgentListing, NewRun } from '../core/view.js';
import type { Acceptance, Store, StoredResult } from '../ports.js';
import type { FakeClock } from './fake-clock.js';
import { acceptRun, changeRun, claimStep, inOrder, isOfThread, type KeptFact, type RunRows } from './memory-runs.js';

export interface WorkerRows {
  id: string;
  serves: { agent: string; version: string }[];
  state: 'live' | 'stopped' | 'dead';
  beat: number;
  /** Claim tokens listed by the last beat and by the one before, and when those beats began. */
  tokens: readonly string[];
  tokensBefore: readonly string[];
  beatAt: Date;
  beatBeforeAt: Date;
  endedAt: Date | null;
}

/** All that a database would hold. */
export interface Tables {
  facts: KeptFact[];
  clock: FakeClock;
  reachable: boolean;
  runs: Map<string, RunRows>;
  /** In the order of their first registration. */
  agents: AgentListing[];
  workers: Map<string, WorkerRows>;
  queueEpoch: number;
  results: Map<string, { body: string; expiresAt: Date }>;
  stops: ToolStop[];
  outages: Map<string, { agent: string; tool: string; outage: Outage }>;
}

export function emptyTables(clock: FakeClock): Tables {
  return {
    clock,
    reachable: true,
    facts: [],
    runs: new Map(),
    agents: [],
    workers: new Map(),
    queueEpoch: 0,
    results: new Map(),
    stops: [],
    outages: new Map(),
  };
}

export function requireReachable(tables: Tables): void {
  if (!tables.reachable) throw new PawlError('database_unreachable', 'the database in memory does not answer');
}

export function createMemoryStore(tables: Tables): Store {
  return {
    async claim(request) {
      requireReachable(tables);
      const workerLives = tables.workers.get(request.workerId)?.state === 'live';
      return claimStep(tables.runs.get(request.runId), request, {
        now: tables.clock.now(),
        workerLives,
        stops: [...tables.stops.map((stop) => ({ ...stop, isOut: false })), ...openOutages(tables)],
      });
    },
    async change(runId, scope, rule, options) {
      requireReachable(tables);
      const rows = tables.runs.get(runId);
      if (rows === undefined) return null;
      const others = [...tables.runs.values()].filter((other) => other !== rows);
      return changeRun(rows, scope, takingFreeThreads(rule, others), {
        now: tables.clock.now(),
        receipt: options?.receipt,
        facts: tables.facts,
      });
    },
    async createRuns(runs) {
      requireReachable(tables);
      return runs.map((run) => createRun(tables, run));
    },
    async recall(reader, { query, most, all }) {
      requireReachable(tables);
      return findFacts(tables, reader, query)
        .filter(({ found }) => all || found > 0)
        .slice(0, most)
        .map(({ fact: { key, value, scope, at } }) => ({ key, value, scope, at }));
    },
    async factsToRank(reader, { query, model, most }) {
      requireReachable(tables);
      return findFacts(tables, reader, query)
        .slice(0, most)
        .map(({ fact, found }) => {
          const { key, value, scope, at, vector } = fact;
          const kept = vector?.model === model ? vector.of : null;
          return { id: tables.facts.indexOf(fact), fact: { key, value, scope, at }, relevance: found, vector: kept };
        });
    },
    async keepVectors(model, vectors) {
      requireReachable(tables);
      for (const { id, vector } of vectors) {
        const fact = tables.facts[id];
        if (fact !== undefined) fact.vector = { model, of: vector };
      }
    },
    async earlierInThread(runId) {
      requireReachable(tables);
      const mine = tables.runs.get(runId)?.run;
      if (mine === undefined) return null;
      const earlier = [...tables.runs.values()]
        .filter(({ run }) => run.id !== runId && isOfThread(run, mine) && isFinal(run.status) && run.turnsUsed > 0)
        .sort((a, b) => (a.run.finishedAt?.getTime() ?? 0) - (b.run.finishedAt?.getTime() ?? 0))
        .at(-1);
      if (earlier === undefined) return null;
      const { run, messages } = earlier;
      return { run, messages: inOrder(messages.filter(({ seq }) => isShown(seq, run))) };
    },
    async openingMessages(runId) {
      requireReachable(tables);
      return inOrder((tables.runs.get(runId)?.messages ?? []).filter(({ seq }) => seq <= 0));
    },
    async noteLate(token, note, usage) {
      requireReachable(tables);
      for (const { attempts } of tables.runs.values()) {
        for (const attempt of attempts) {
          if (attempt.token !== token || attempt.lateNote !== null) continue;
          attempt.lateNote = note;
          attempt.usage = usage ?? attempt.usage;
        }
      }
    },
    async unsettledOnce(runId, callHashes) {
      requireReachable(tables);
      const found = new Map<string, number>();
      for (const step of tables.runs.get(runId)?.steps.values() ?? []) {
        const { callHash, seq } = step;
        if (callHash === null || !callHashes.includes(callHash) || !isUnsettled(step)) continue;
        found.set(callHash, Math.max(seq, found.get(callHash) ?? 0));
      }
      return found;
    },
    async readOutput(runId, { step: seq, offset, limit }) {
      requireReachable(tables);
      const rows = tables.runs.get(runId);
      const step = rows?.steps.get(seq);
      if (step?.kind !== 'tool' || step.status !== 'completed') return null;
      const characters = [...(rows?.outputs.get(seq) ?? step.output ?? '')];
      const text = characters.slice(offset, offset + limit).join('');
      return { name: step.name, text, total: characters.length };
    },
    async keptResult(key) {
      requireReachable(tables);
      const kept = tables.results.get(key);
      return kept !== undefined && kept.expiresAt > tables.clock.now() ? kept.body : null;
    },
    async keepResult(key, body, forMs) {
      requireReachable(tables);
      tables.results.set(key, { body, expiresAt: new Date(tables.clock.now().getTime() + forMs) });
    },
    async stopTool(stop) {
      requireReachable(tables);
      if (tables.stops.some((other) => other.tool === stop.tool && other.agent === stop.agent)) return false;
      tables.stops.push(stop);
      return true;
    },
    async allowTool({ tool, agent }) {
      requireReachable(tables);
      const before = tables.stops.length;
      const isMeant = (of: { tool: string; agent: string | null }) =>
        of.tool === tool && (agent === null || of.agent === agent);
      tables.stops = tables.stops.filter((stop) => !isMeant(stop));
      for (const [key, outage] of tables.outages) if (isMeant(outage)) tables.outages.delete(key);
      return tables.stops.length < before;
    },
    async noteToolFailure(failure) {
      requireReachable(tables);
      const { agent, tool } = failure;
      const key = outageKey(agent, tool);
      const before = tables.outages.get(key)?.outage ?? null;
      const outage = countFailure(before, failure, tables.clock.now());
      tables.outages.set(key, { agent, tool, outage });
      return outage.openedAt !== null && before?.openedAt == null;
    },
    async tryTool(agent, tool, rule) {
      requireReachable(tables);
      const before = tables.outages.get(outageKey(agent, tool))?.outage;
      if (before?.openedAt == null) return true;
      const outage = takeTrial(before, rule, tables.clock.now());
      if (outage !== null) tables.outages.set(outageKey(agent, tool), { agent, tool, outage });
      return outage !== null;
    },
    async endOutage(agent, tool) {
      requireReachable(tables);
      tables.outages.delete(outageKey(agent, tool));
    },
    async toolResults(runId, maxChars) {
      requireReachable(tables);
      const rows = tables.runs.get(runId);
      const results: StoredResult[] = [];
      let chars = 0;
      for (const step of [...(rows?.steps.values() ?? [])].sort((a, b) => b.seq - a.seq)) {
        if (step.kind !== 'tool' || step.status !== 'completed') continue;
        const text = rows?.outputs.get(step.seq) ?? step.output ?? '';
        chars += [...text].length;
        if (chars > maxChars) break;
        results.unshift({ name: step.name, arguments: step.input ?? '', text, error: step.error?.code ?? null });
      }
      return results;
    },
  };
}

/** A reader's facts, the newest of each key, those with the most words of the query first. */
function findFacts({ facts }: Tables, { tenant, agent, threadId }: FactReader, query: string) {
  const owners: Record<FactScope, string | null> = { agent, tenant: '', thread: threadId };
  const newest = new Map<string, KeptFact>();
  for (const fact of facts) {
    const isMine = fact.tenant === (tenant ?? '') && fact.owner === owners[fact.scope];
    if (isMine) newest.set(JSON.stringify([fact.scope, fact.key]), fact);
  }
  const wanted = wordsIn(query);
  return [...newest.values()]
    .map((fact) => ({ fact, found: wanted.filter((word) => fact.words.split(' ').includes(word)).length }))
    .sort((a, b) => b.found - a.found || facts.indexOf(b.fact) - facts.indexOf(a.fact));
}

/** As a unique index does: no rule gives a run a thread that another has. */
function takingFreeThreads<T>(rule: (draft: Draft) => T, others: readonly RunRows[]): (draft: Draft) => T {
  return (draft) => {
    const value = rule(draft);
    if (draft.run.holdsThread && others.some(({ run }) => run.holdsThread && isOfThread(run, draft.run))) {
      throw new PawlError('conflict', 'another run has the thread: this one waits for its turn');
    }
    return value;
  };
}

function outageKey(agent: string, tool: string): string {
  return `${agent} ${tool}`;
}

function openOutages({ outages }: Tables): StoppedTool[] {
  return [...outages.values()].flatMap(({ agent, tool, outage }) =>
    outage.openedAt === null ? [] : [{ tool, agent, isOut: true }],
  );
}

function isUnsettled(step: StepState): boolean {
  const hasFailed = step.status === 'dead' || (step.status === 'completed' && step.error !== null);
  return step.effect === 'once' && (step.unknown || hasFailed);
}

function createRun(tables: Tables, asked: NewRun): Acceptance {
  const listing = findAgent(tables, asked.agent);
  if (listing === undefined) {
    const message = `no worker has registered an agent named ${JSON.stringify(asked.agent)}`;
    return { refused: new PawlError('unknown_agent', message) };
  }
  const existing = asked.key === null ? undefined : findByKey(tables, asked);
  if (existing !== undefined) {
    if (canonicalJson(existing.input) === canonicalJson(asked.input)) {
      return { id: existing.run.id, created: false, dispatches: [] };
    }
    const owner = `run ${existing.run.id}, which has another input`;
    return { refused: new PawlError('key_conflict', `the key ${JSON.stringify(asked.key)} belongs to ${owner}`) };
  }
  const active = [...tables.runs.values()].filter(({ run }) => isOfThread(run, asked) && !isFinal(run.status));
  if (active.length > 0 && listing.busyThread === 'refuse') {
    const message = `the thread ${JSON.stringify(asked.threadId)} has a run that is not at its end`;
    return { refused: new PawlError('conflict', message) };
  }
  const rows = acceptRun(asked, listing, tables.clock.now(), active.length > 0);
  tables.runs.set(asked.id, rows);
  const isDue = asked.delayMs === 0 && rows.run.status === 'pending';
  const dispatches = isDue ? [{ queue: 'llm', runId: asked.id, seq: 1, dispatch: 1 }] : [];
  return { id: asked.id, created: true, dispatches };
}

/** Of the versions that a live worker serves the newest; of none served, the newest. */
function findAgent({ agents, workers }: Tables, name: string): AgentListing | undefined {
  const live = [...workers.values()].filter((worker) => worker.state === 'live');
  const isServed = ({ version }: AgentListing) =>
    live.some(({ serves }) => serves.some((served) => served.agent === name && served.version === version));
  const known = agents.filter((agent) => agent.name === name);
  return known.findLast(isServed) ?? known.at(-1);
}

function findByKey(tables: Tables, asked: NewRun): RunRows | undefined {
  for (const rows of tables.runs.values()) {
    const { agent, tenant } = rows.run;
    if (rows.key === asked.key && agent === asked.agent && tenant === asked.tenant) return rows;
  }
}
