/**
 * Each run ends as its plan says: with exactly that output, or for that reason, or cancelled by a client that asked for it;
 * and it went there by the plan's own steps.
 */
import { type Breach, breachOf, type Dossier, eventsOf, isRunFinal, isSummary, see } from './dossier.js';

export function checkOutput(dossier: Dossier): Breach[] {
  const { run, expected } = dossier;
  if (expected === null) return [];
  return [...(isRunFinal(run) ? ofEnd(dossier) : []), ...ofSteps(dossier), ...ofObjections(dossier)];
}

function ofEnd(dossier: Dossier): Breach[] {
  const { run, expected } = dossier;
  const wrong = (text: string) => [breachOf('output', dossier, text, see('runs', run))];
  if (run.status === 'cancelled') {
    const asked = dossier.clients.some((call) => call.op === 'cancel');
    return expected?.cancels === true && asked ? [] : wrong('is cancelled, and nobody asked for it');
  }
  if (run.status !== expected?.status || (run.status === 'failed' && run.reason !== expected.reason)) {
    const name = (status: string | undefined, reason: string | null | undefined) =>
      reason == null ? status : `${status} (${reason})`;
    return wrong(`is ${name(run.status, run.reason)}, and not ${name(expected?.status, expected?.reason)}`);
  }
  const isSame = plain(run.output, run.output_is_json) === plain(expected.output, run.output_is_json);
  return isSame ? [] : wrong(`answers ${run.output}, and not ${expected.output}`);
}

/** An answer is objected to by the agent's schema or its judge, and what they say is recorded with it: once. */
function ofObjections(dossier: Dossier): Breach[] {
  const { run, expected } = dossier;
  const told = eventsOf(dossier, 'run.answer_refused');
  const planned = expected?.objections ?? 0;
  const isWhole = run.status === 'completed' || run.status === 'failed';
  if (told.length === planned || (told.length < planned && !isWhole)) return [];
  const text = `${told.length} of its answers were objected to, and not ${planned}`;
  return [breachOf('output', dossier, text, see('runs', run), see('events', ...told))];
}

function plain(text: string | null, isJson: boolean): string | null {
  return text === null || !isJson ? text : JSON.stringify(JSON.parse(text));
}

function ofSteps(dossier: Dossier): Breach[] {
  const { run, expected } = dossier;
  // Where a run needs a summary no plan says: long-runs.ts.
  const steps = dossier.steps.filter((step) => !isSummary(step));
  const planned = new Map<number, string>([
    ...[...(expected?.llmSeqs ?? []), ...(expected?.asides ?? [])].map((seq) => [seq, 'llm'] as const),
    ...(expected?.calls ?? []).map((call) => [call.seq, call.tool] as const),
  ]);
  const strange = steps.filter((step) => planned.get(step.seq) !== (step.kind === 'llm' ? 'llm' : step.name));
  const found = strange.map((step) => {
    const text = `step ${step.seq} is ${step.kind} ${step.name}, and not ${planned.get(step.seq) ?? 'planned at all'}`;
    return breachOf('output', dossier, text, see('steps', step));
  });
  const isWhole = run.status === 'completed' || run.status === 'failed';
  if (isWhole && steps.length < planned.size)
    found.push(breachOf('output', dossier, `took ${steps.length} of its ${planned.size} steps`, see('runs', run)));
  return found;
}
