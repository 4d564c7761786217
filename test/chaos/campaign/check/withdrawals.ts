/**
 * Section 6: a claim that was made after a tool was withdrawn, and before it was given back, knows of it, on any worker: its
 * step is answered instead of called, and so are calls that an LLM step asks for. Nothing is answered so at another time, nor
 * of another tool, nor for an agent that the operator did not mean.
 */
import type { ClientCall, Evidence, StepDump } from '../evidence.js';
import { type ToolName, tools } from '../trade.js';
import { type Claimed, claimAt, claimOf } from './deliveries.js';
import { type Breach, breachOf, type Dossier, type Line, see } from './dossier.js';
import type { Span } from './spans.js';

const name = 'section 6';

type Switch = Extract<ClientCall, { op: 'disable_tool' | 'enable_tool' }>;

/** What was asked and not answered may still be carried out for as long. */
const underWayMs = 30_000;

export function checkWithdrawals(evidence: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const switches = evidence.clients
    .filter((call): call is Switch => call.op === 'disable_tool' || call.op === 'enable_tool')
    .sort((a, b) => a.beganAt - b.beganAt);
  return dossiers.flatMap((dossier) => {
    const { agent } = dossier.run;
    const of = (tool: string) =>
      spansOf(switches.filter((one) => one.tool === tool && (one.agent === null || one.agent === agent)));
    return dossier.steps.flatMap((step) => {
      if (step.kind === 'llm') return ofTurn(dossier, step, of);
      return [...ofCalls(dossier, step, of), ...ofAnswer(dossier, step, of)];
    });
  });
}

interface Withdrawn {
  certain: Span[];
  possible: Span[];
}

/** One operator asks one thing after the other, and asks again for what was not answered. */
function spansOf(switches: readonly Switch[]): Withdrawn {
  const doubts = switches.flatMap(({ answer, beganAt, endedAt }) =>
    answer.ok ? [] : [{ from: beganAt, to: endedAt + underWayMs }],
  );
  const withdrawn: Withdrawn = { certain: [], possible: [...doubts] };
  for (const [index, { op, answer, beganAt, endedAt }] of switches.entries()) {
    if (op !== 'disable_tool' || !answer.ok) continue;
    const back = switches.slice(index + 1).find((one) => one.op === 'enable_tool');
    const backBy = switches.slice(index + 1).find((one) => one.op === 'enable_tool' && one.answer.ok);
    withdrawn.possible.push({ from: beganAt, to: backBy?.endedAt ?? Number.POSITIVE_INFINITY });
    const certain = { from: endedAt, to: back?.beganAt ?? Number.POSITIVE_INFINITY };
    const isDoubtful = doubts.some(({ from, to }) => from < certain.to && to > certain.from);
    if (!isDoubtful) withdrawn.certain.push(certain);
  }
  return withdrawn;
}

const holds = (spans: readonly Span[], { from, to }: Span) => spans.some((one) => one.from <= from && one.to >= to);
const touches = (spans: readonly Span[], { from, to }: Span) => spans.some((one) => one.from <= to && one.to >= from);

/** The calls that an LLM step asked for are answered in the tool's place. */
function ofTurn(dossier: Dossier, step: Line<StepDump>, of: (tool: string) => Withdrawn): Breach[] {
  if (step.status !== 'completed') return [];
  const claim = claimOf(dossier, step.claim_token);
  if (claim === null) return [];
  return dossier.steps.flatMap((call) => {
    const isAnswered = call.attempt === 0 && call.error_code === 'tool_disabled';
    if (call.turn_seq !== step.seq || isAnswered || !holds(of(call.name).certain, claim)) return [];
    const text = `step ${step.seq} asked for ${call.name}, which was withdrawn when it was claimed, and step ${call.seq} was planned`;
    return [breachOf(name, dossier, text, see('steps', call), see('workers', claim.line))];
  });
}

function ofCalls(dossier: Dossier, step: Line<StepDump>, of: (tool: string) => Withdrawn): Breach[] {
  return dossier.hits.flatMap((hit) => {
    if (hit.seq !== step.seq) return [];
    const claim = claimAt(dossier, step.seq, hit.attempt, hit.at);
    if (claim === null || !holds(of(step.name).certain, claim)) return [];
    const text = `step ${step.seq} called ${step.name}, which was withdrawn when it was claimed`;
    return [breachOf(name, dossier, text, see('ledger', hit), see('workers', claim.line))];
  });
}

function ofAnswer(dossier: Dossier, step: Line<StepDump>, of: (tool: string) => Withdrawn): Breach[] {
  if (step.status !== 'completed') return [];
  const isAnswered = step.error_code === 'tool_disabled';
  if (!isAnswered) return tools[step.name as ToolName]?.isWithdrawn === true ? ofResult(dossier, step) : [];
  const claim = claimThatAnswered(dossier, step);
  if (claim === null || touches(of(step.name).possible, claim)) return [];
  const text = `step ${step.seq} was answered as if ${step.name} were withdrawn, and nobody had withdrawn it`;
  return [breachOf(name, dossier, text, see('steps', step), see('workers', claim.line))];
}

function claimThatAnswered(dossier: Dossier, step: StepDump): Claimed | null {
  if (step.claim_token !== null) return claimOf(dossier, step.claim_token);
  const asking = dossier.steps.find(({ seq }) => seq === step.turn_seq);
  return claimOf(dossier, asking?.claim_token ?? null);
}

/** No plan relies on the result of such a tool, so the model looks at none. */
function ofResult(dossier: Dossier, step: Line<StepDump>): Breach[] {
  if (step.error_code !== null) return [];
  const said = dossier.messages.find(({ seq, pos }) => seq === step.turn_seq && pos === step.position);
  const token = dossier.expected?.calls.find(({ seq }) => seq === step.seq)?.token ?? '';
  if (said?.body.includes(`[${token}]`) === true) return [];
  const text = `step ${step.seq} did not return what ${step.name} had answered`;
  return [breachOf(name, dossier, text, see('steps', step), ...(said === undefined ? [] : [see('messages', said)]))];
}
