/**
 * A run whose preferred model answers no more goes on with the next one, and stays with it: what a step's record says of the
 * model is what the model's own log says, and a run that has fallen back asks the first one for nothing further.
 */
import { planName, reflectionName, summaryName } from '../../../../src/core/step.js';
import { crews } from '../trade.js';
import { type Breach, breachOf, type Dossier, dataOf, eventsOf, see } from './dossier.js';

const name = 'section 5';
/** Steps in the place of a turn bear their own names. */
const asides: ReadonlySet<string> = new Set([summaryName, planName, reflectionName]);

export function checkModels(dossier: Dossier): Breach[] {
  const { run, steps, modelCalls } = dossier;
  const models: readonly string[] = crews[run.agent]?.models ?? ['scripted'];
  const found: Breach[] = [];
  const strange = modelCalls.filter(({ model }) => model !== null && !models.includes(model));
  if (strange.length > 0)
    found.push(
      breachOf(name, dossier, `asked ${strange[0]?.model}, which is no model of its agent`, see('model', ...strange)),
    );
  for (const step of steps) {
    if (step.kind !== 'llm' || step.status !== 'completed') continue;
    const answered = modelCalls.filter((call) => call.seq === step.seq && call.reply !== 'fault');
    if (answered.some(({ model, reply }) => (asides.has(step.name) ? reply : model) === step.name)) continue;
    const text = `step ${step.seq} was answered by ${step.name}, and its model's log does not say so`;
    found.push(breachOf(name, dossier, text, see('steps', step), see('model', ...answered)));
  }
  return [...found, ...ofFallingBack(dossier, models)];
}

function ofFallingBack(dossier: Dossier, models: readonly string[]): Breach[] {
  const { steps, modelCalls, expected } = dossier;
  const fell = dossier.events.filter(({ type }) => type === 'step.fell_back');
  const wrong = fell.filter((event) => dataOf(event).from !== models[0] || dataOf(event).to !== models[1]);
  if (wrong.length > 0) return [breachOf(name, dossier, 'fell back to what is not next', see('events', ...wrong))];
  // A redrive begins with the preferred model again.
  if (eventsOf(dossier, 'run.redriven').length > 0) return [];
  if (fell.length > 1) return [breachOf(name, dossier, `fell back ${fell.length} times`, see('events', ...fell))];
  const [once] = fell;
  const due = expected?.fallsBackAt == null ? null : expected.llmSeqs[expected.fallsBackAt];
  const isPast = steps.some((step) => step.seq === due && step.status === 'completed');
  if (once === undefined)
    return isPast ? [breachOf(name, dossier, `went on past step ${due} without its next model`)] : [];
  const late = modelCalls.filter(({ seq, model }) => seq !== null && seq > (once.seq ?? 0) && model === models[0]);
  if (late.length === 0) return [];
  const text = `asked ${models[0]} again after step ${once.seq}, at which it had fallen back`;
  return [breachOf(name, dossier, text, see('events', once), see('model', ...late))];
}
