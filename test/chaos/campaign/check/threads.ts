/**
 * Section 8: the runs of a thread go one after the other. No claim of one is made while another of it is between its first
 * claim and its end; one that waits for its turn has it soon after the thread is free; one is refused only while another is
 * not at its end; and each is shown what was said before it.
 */
import type { Message } from '../../../../src/core/message.js';
import type { Evidence } from '../evidence.js';
import { crews } from '../trade.js';
import { type Breach, breachOf, byKey, type Dossier, dataOf, ms, numbered, see, tracesOf } from './dossier.js';
import { type Span, unableSpans, union, without } from './spans.js';

const name = 'section 8';
const turnWithinMs = 20_000;
/** A busy machine. */
const slackMs = 2_000;
/** An end is dated before it is recorded, and what is broken may hold its record up. */
const recordedWithinMs = 20_000;
const clockSlackMs = 50;

export function checkThreads(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const found = dossiers.flatMap(ofOwnThread);
  const unable = unableSpans(evidence);
  for (const [thread, all] of byKey(dossiers, ({ run }) => run.thread_id)) {
    if (thread === null) continue;
    const runs = all.map((dossier) => ({
      dossier,
      active: activeSpans(dossier),
      unfinished: unfinishedSpans(dossier),
    }));
    for (const run of runs) {
      const others = runs.filter((other) => other !== run);
      found.push(...ofClaims(run.dossier, others), ...ofTurn(run.dossier, others, unable, evidence.meta.endedAt));
      found.push(...ofHistory(run.dossier, others));
    }
    found.push(...ofRefusals(evidence, runs));
  }
  return found;
}

interface ThreadRun {
  dossier: Dossier;
  /** From a first claim to an end. */
  active: Span[];
  /** From its creation, or a redrive, to an end. */
  unfinished: Span[];
}

function ofOwnThread(dossier: Dossier): Breach[] {
  const { run, expected } = dossier;
  if (expected === null || run.thread_id === expected.thread) return [];
  return [
    breachOf(name, dossier, `is of the thread ${run.thread_id}, and not of ${expected.thread}`, see('runs', run)),
  ];
}

const isEnd = (type: string) => /^run\.(completed|failed|cancelled)$/.test(type);

function spansBetween(begins: readonly number[], dossier: Dossier): Span[] {
  const ends = dossier.events.flatMap(({ type, at }) => (isEnd(type) ? [ms(at)] : []));
  const spans: Span[] = [];
  for (const from of [...begins].sort((a, b) => a - b)) {
    if (from < (spans.at(-1)?.to ?? Number.NEGATIVE_INFINITY)) continue;
    spans.push({ from, to: ends.find((end) => end >= from) ?? Number.POSITIVE_INFINITY });
  }
  return spans;
}

function claimsOf(dossier: Dossier) {
  return dossier.steps.flatMap((step) => tracesOf(dossier, step));
}

function activeSpans(dossier: Dossier): Span[] {
  return spansBetween(
    claimsOf(dossier).map(({ startedAt }) => startedAt),
    dossier,
  );
}

function unfinishedSpans(dossier: Dossier): Span[] {
  const redriven = dossier.events.flatMap(({ type, at }) => (type === 'run.redriven' ? [ms(at)] : []));
  return spansBetween([ms(dossier.run.created_at), ...redriven], dossier);
}

function ofClaims(dossier: Dossier, others: readonly ThreadRun[]): Breach[] {
  for (const { startedAt, where } of claimsOf(dossier)) {
    const other = others.find(({ active }) => active.some(({ from, to }) => from < startedAt && startedAt < to));
    if (other === undefined) continue;
    const text = `was claimed while ${other.dossier.run.id} of its thread ${dossier.run.thread_id} was under way`;
    return [breachOf(name, dossier, text, where, see('runs', other.dossier.run))];
  }
  return [];
}

/** From each wait for the thread to the end of that wait: for how long nobody had it. */
function ofTurn(dossier: Dossier, others: readonly ThreadRun[], unable: readonly Span[], endedAt: number): Breach[] {
  const { events } = dossier;
  const waits = events.filter((event) => event.type === 'step.suspended' && dataOf(event).waitingFor === 'slot');
  return waits.flatMap((wait) => {
    const over = events.find(({ id, type }) => id > wait.id && (type === 'run.resumed' || isEnd(type)));
    const span = { from: ms(wait.at), to: over === undefined ? endedAt : ms(over.at) };
    const taken = others.flatMap(({ unfinished, dossier: { events: theirs } }) =>
      without(unfinished, slotWaits(theirs, endedAt)),
    );
    const free = without([span], union([...taken, ...unable]));
    const longest = Math.max(0, ...free.map(({ from, to }) => to - from));
    if (longest <= turnWithinMs + slackMs) return [];
    const text = `waited for the thread ${dossier.run.thread_id} while nobody had it for ${Math.round(longest / 1_000)} s`;
    return [breachOf(name, dossier, text, see('events', wait))];
  });
}

function slotWaits(events: Dossier['events'], endedAt: number): Span[] {
  return events.flatMap((wait) => {
    if (wait.type !== 'step.suspended' || dataOf(wait).waitingFor !== 'slot') return [];
    const over = events.find(({ id, type }) => id > wait.id && (type === 'run.resumed' || isEnd(type)));
    return [{ from: ms(wait.at), to: over === undefined ? endedAt : ms(over.at) }];
  });
}

/** Where no run of the thread was redriven it is plain which one ended last. */
function ofHistory(dossier: Dossier, others: readonly ThreadRun[]): Breach[] {
  const [active] = activeSpans(dossier);
  const isRedriven = [dossier, ...others.map((other) => other.dossier)].some(({ events }) =>
    events.some(({ type }) => type === 'run.redriven'),
  );
  if (active === undefined || dossier.run.status !== 'completed' || isRedriven) return [];
  const before = others
    .filter(({ dossier: { run } }) => run.turns_used > 0)
    .flatMap(({ dossier: { run, expected }, active: theirs }) => theirs.map(({ to }) => ({ to, run, expected })))
    .filter(({ to }) => to <= active.from)
    .sort((a, b) => b.to - a.to)[0];
  const shown = dossier.messages.find(({ seq, pos }) => seq === -1 && pos === 0);
  const said = shown === undefined ? null : (JSON.parse(shown.body) as Message).content;
  if (said === (before?.expected?.task ?? null)) return [];
  const text = `was shown ${said ?? 'nothing'} of its thread, in which ${before?.run.id ?? 'nobody'} came before it`;
  return [breachOf(name, dossier, text, see('runs', dossier.run), ...(shown ? [see('messages', shown)] : []))];
}

/** Who does not wait is refused while another goes on, and only then. */
function ofRefusals({ clients, expected }: Evidence, runs: readonly ThreadRun[]): Breach[] {
  const found: Breach[] = [];
  for (const { dossier } of runs) {
    const [, second] = dossier.events;
    const mayNotWait = crews[dossier.run.agent]?.thread === 'refuse';
    if (mayNotWait && second?.type === 'step.suspended' && dataOf(second).waitingFor === 'slot')
      found.push(breachOf(name, dossier, 'waits for its thread, and was to be refused', see('events', second)));
  }
  const thread = runs[0]?.dossier.run.thread_id;
  const plans = new Set(expected.flatMap((plan) => (plan.thread === thread ? [plan.plan] : [])));
  for (const call of numbered(clients)) {
    if (call.op !== 'start' || !plans.has(call.plan) || call.answer.ok || call.answer.code !== 'conflict') continue;
    const span = { from: call.beganAt - recordedWithinMs, to: call.endedAt + clockSlackMs };
    const busy = runs.filter(({ dossier: { expected: plan } }) => plan?.plan !== call.plan);
    if (busy.some(({ unfinished }) => unfinished.some(({ from, to }) => from <= span.to && to >= span.from))) continue;
    const text = `${name}: the start of ${call.key} was refused while no other run of ${thread} went on`;
    found.push({ invariant: name, runId: null, text: `${text} [${see('clients', call)}]` });
  }
  return found;
}
