/** The least that a campaign must show, until a whole checker is asked: see evidence.ts. */
import type { Evidence, Hit, Report } from './evidence.js';
import { readEvidence } from './read-evidence.js';

export async function checkMinimally(folder: string): Promise<Report> {
  const evidence = await readEvidence(folder);
  const breaches = [...ofRuns(evidence), ...ofEffects(evidence), ...ofModel(evidence), ...ofProcesses(evidence)];
  const counts = countsOf(evidence);
  const missing = Object.entries(counts).flatMap(([name, count]) =>
    count === 0 && mustHappen.has(name) ? [name] : [],
  );
  return {
    verdict: breaches.length > 0 ? 'failed' : missing.length > 0 ? 'inconclusive' : 'passed',
    breaches,
    counts,
    missing,
  };
}

type Breach = Report['breaches'][number];

function ofRuns({ meta, expected, tables, clients }: Evidence): Breach[] {
  const found: Breach[] = [];
  const say = (invariant: string, runId: string | null, text: string) =>
    found.push({ invariant, runId, text: `${invariant}: ${text}` });
  if (meta.settledAt === null)
    say('liveness', null, `not every run was at its end ${meta.livenessMs} ms after the last fault`);
  for (const plan of expected) {
    const runs = tables.runs.filter((run) => run.key === plan.key);
    const [run] = runs;
    if (run === undefined || runs.length > 1) {
      say('I1', null, `plan ${plan.plan} has ${runs.length} runs`);
      continue;
    }
    const cancelled = clients.some((call) => call.op === 'cancel' && call.runId === run.id && call.answer.ok);
    const ended = `${run.status} ${run.reason ?? ''}`;
    if (cancelled && run.status !== 'cancelled') say('output', run.id, `was cancelled and is ${ended}`);
    else if (run.status === 'cancelled' && plan.cancels) continue;
    else if (run.status !== plan.status || (run.status === 'failed' && run.reason !== plan.reason)) {
      say('output', run.id, `plan ${plan.plan} ends as ${plan.status} ${plan.reason ?? ''}, and the run is ${ended}`);
    } else if (run.status === 'completed' && run.output !== plan.output) {
      say('output', run.id, `plan ${plan.plan} ends with ${plan.output}, and the run with ${run.output}`);
    }
  }
  if (tables.runs.length !== expected.length)
    say('I1', null, `${expected.length} plans and ${tables.runs.length} runs`);
  return found;
}

function ofEffects({ expected, tables, ledger }: Evidence): Breach[] {
  const found: Breach[] = [];
  const runOf = new Map(tables.runs.map((run) => [run.key, run]));
  const hitsOf = new Map<string, Hit[]>();
  for (const hit of ledger) {
    const id = `${hit.runId}.${hit.seq}`;
    hitsOf.set(id, [...(hitsOf.get(id) ?? []), hit]);
  }
  const stepOf = new Map(tables.steps.map((step) => [`${step.run_id}.${step.seq}`, step]));
  for (const plan of expected) {
    const run = runOf.get(plan.key);
    if (run === undefined) continue;
    for (const call of plan.calls) {
      const id = `${run.id}.${call.seq}`;
      const hits = hitsOf.get(id) ?? [];
      const applied = hits.filter((hit) => hit.applied).length;
      const step = stepOf.get(id);
      const say = (invariant: string, text: string) =>
        found.push({ invariant, runId: run.id, text: `${invariant}: step ${call.seq} (${call.tool}) ${text}` });
      const denied = tables.events.filter(
        (event) => event.run_id === run.id && event.seq === call.seq && event.type === 'step.did_not_happen',
      ).length;
      if (call.effect === 'once' && hits.length > 1 + denied)
        say('I6', `started ${hits.length} times, ${denied} denied`);
      if (new Set(hits.map((hit) => hit.key)).size > 1) say('I5', 'carried several keys');
      if (step?.status !== 'completed') continue;
      const isWrong = call.applies === 'at most 1' ? applied > 1 : applied !== call.applies;
      if (isWrong) say('I5', `took effect ${applied} times instead of ${call.applies}`);
    }
  }
  return found;
}

function ofModel({ model }: Evidence): Breach[] {
  return model.flatMap(({ plan, turn, breach }) =>
    breach === null ? [] : [{ invariant: 'I7', runId: null, text: `I7: plan ${plan}, turn ${turn}: ${breach}` }],
  );
}

/** A process that ended though nothing was done to it. */
function ofProcesses({ workers, nemesis, meta }: Evidence): Breach[] {
  const hit = new Set(nemesis.map(({ details }) => details.pid));
  const ready = new Set(workers.flatMap((line) => (line.what === 'ready' ? [line.pid] : [])));
  return workers.flatMap((line) => {
    if (line.what !== 'exited' || hit.has(line.pid) || !ready.has(line.pid)) return [];
    if (meta.settledAt !== null && line.at > meta.settledAt) return [];
    const text = `process ${line.worker} ended by itself: ${line.code ?? line.signal}`;
    return [{ invariant: 'I3', runId: null, text: `I3: ${text}` }];
  });
}

const mustHappen = new Set([
  'runs',
  'kills in flight',
  'rescues',
  'fenced writes',
  'swallowed records',
  'deduped effects',
  'redispatches',
]);

function countsOf({ expected, tables, ledger, nemesis, workers }: Evidence): Record<string, number> {
  const done = nemesis.filter((fault) => fault.failed === null);
  const of = (...kinds: string[]) => done.filter(({ kind }) => kinds.includes(kind));
  const kills = of('kill', 'kill_at_gap', 'clock_off', 'clock_jump');
  const logged = (msg: string) => workers.filter((line) => line.what === 'log' && line.msg === msg).length;
  const swallowed = (what: string) => of('reply_swallowed').filter(({ details }) => details.what === what).length;
  const events = (type: string) => tables.events.filter((event) => event.type === type).length;
  return {
    runs: expected.length,
    steps: tables.steps.length,
    kills: kills.length,
    'kills in flight': kills.filter(({ inFlight }) => inFlight.length > 0).length,
    zombies: of('zombie').length,
    'queues lost': of('queue_wiped', 'queue_restarted_empty', 'queue_restored_old', 'queue_dropped').length,
    'postgres restarts': of('postgres_fast_restart', 'postgres_immediate_restart').length,
    'swallowed records': swallowed('record'),
    'swallowed claims': swallowed('claim'),
    'declared dead': logged('a worker is declared dead'),
    rescues: events('step.rescued'),
    redispatches: logged('due steps were missing in the queue and are dispatched again'),
    'fenced writes': tables.attempts.filter((attempt) => attempt.late_note !== null).length,
    'deduped effects': ledger.filter((hit) => hit.deduped).length,
    hits: ledger.length,
    'unknown fates': events('step.unknown'),
    redrives: events('run.redriven'),
  };
}
