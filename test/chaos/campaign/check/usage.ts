/**
 * I10: for every attempt the run's usage counts at least what was billed, or an estimate so flagged; the run's totals are
 * the sum of its attempts; and its limits hold.
 */
import { type Breach, breachOf, type Dossier, see, type Trace, tracesOf } from './dossier.js';

export function checkUsage(dossier: Dossier): Breach[] {
  const found: Breach[] = [];
  const all: Trace[] = [];
  for (const step of dossier.steps) {
    const traces = tracesOf(dossier, step);
    all.push(...traces);
    // What a call under way has cost is not known yet; what one cost that the server forgot, never.
    if (dossier.forgotten.some(({ seq }) => seq === step.seq)) continue;
    if (step.kind !== 'llm' || step.status === 'running' || traces.some(isEstimate)) continue;
    const billed = dossier.modelCalls.filter((call) => call.seq === step.seq && call.usage !== null);
    for (const what of ['inputTokens', 'outputTokens'] as const) {
      const owed = billed.reduce((sum, { usage }) => sum + (usage?.[what] ?? 0), 0);
      const counted = sumOf(traces, what);
      if (counted >= owed) continue;
      const text = `step ${step.seq} counts ${counted} ${what} and was billed ${owed}, without the flag of an estimate`;
      const where = traces.map((trace) => trace.where);
      found.push(breachOf('I10', dossier, text, see('model', ...billed), ...where));
      break;
    }
  }
  return [...found, ...ofTotals(dossier, all), ...ofLimits(dossier)];
}

function ofTotals(dossier: Dossier, traces: readonly Trace[]): Breach[] {
  const { run } = dossier;
  const found: Breach[] = [];
  const counted = { inputTokens: Number(run.input_tokens), outputTokens: Number(run.output_tokens) };
  for (const what of ['inputTokens', 'outputTokens'] as const) {
    const sum = sumOf(traces.filter(isCharged), what);
    // For a claim that was taken away the run counts what was reserved; a late reply leaves its true cost in that place.
    if (traces.every(isCharged) ? counted[what] !== sum : counted[what] < sum)
      found.push(breachOf('I10', dossier, `counts ${counted[what]} ${what}, its attempts ${sum}`, see('runs', run)));
  }
  if (traces.some(isEstimate) && !run.usage_estimated)
    found.push(breachOf('I10', dossier, 'holds an estimate and does not say so', see('runs', run)));
  return found;
}

function ofLimits(dossier: Dossier): Breach[] {
  const { run } = dossier;
  const found: Breach[] = [];
  if (run.steps_used > run.max_steps)
    found.push(breachOf('I10', dossier, `used ${run.steps_used} steps of ${run.max_steps}`, see('runs', run)));
  if (run.turns_used > run.max_turns)
    found.push(breachOf('I10', dossier, `used ${run.turns_used} turns of ${run.max_turns}`, see('runs', run)));
  return found;
}

/** The true cost of a late reply stands on its attempt alone: the run was charged an estimate when the claim was taken. */
function isCharged({ ended }: Trace): boolean {
  return ended === null || ended.recorded || ended.lateNote === null;
}

function isEstimate(trace: Trace): boolean {
  return trace.usage.estimated || (!isCharged(trace) && trace.usage.inputTokens !== null);
}

function sumOf(traces: readonly Trace[], what: 'inputTokens' | 'outputTokens'): number {
  return traces.reduce((sum, { usage }) => sum + (usage[what] ?? 0), 0);
}
