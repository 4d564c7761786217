/**
 * I1: at most one completed outcome per step, and seqs 1..n without a gap. An outcome shows as the step's status, as one
 * event and as one message; a turn is joined once, by one LLM step that follows all of its calls.
 */
import { reflectionName } from '../../../../src/core/step.js';
import { type Breach, breachOf, type Dossier, eventsOf, isSummary, see } from './dossier.js';

export function checkSeqs(dossier: Dossier): Breach[] {
  return [...ofNumbers(dossier), ...ofOutcomes(dossier), ...ofTurns(dossier)];
}

function ofNumbers(dossier: Dossier): Breach[] {
  const { run, steps, events } = dossier;
  const found: Breach[] = [];
  const seqs = steps.map((step) => step.seq);
  if (seqs.some((seq, index) => seq !== index + 1))
    found.push(breachOf('I1', dossier, `has the steps ${seqs.join(', ')}`, see('steps', ...steps)));
  if (run.next_seq !== steps.length + 1)
    found.push(breachOf('I1', dossier, `has ${steps.length} steps and goes on at ${run.next_seq}`, see('runs', run)));
  if (events.some((event, index) => event.id !== index + 1) || run.last_event !== events.length)
    found.push(breachOf('I1', dossier, `has ${events.length} events, of which the last is ${run.last_event}`));
  return found;
}

function ofOutcomes(dossier: Dossier): Breach[] {
  const found: Breach[] = [];
  for (const step of dossier.steps) {
    const wanted = step.status === 'completed' ? 1 : 0;
    const told = eventsOf(dossier, 'step.completed', step.seq);
    const name = `step ${step.seq} is ${step.status}`;
    if (told.length !== wanted) {
      const text = `${name} and has ${told.length} completed outcomes`;
      found.push(breachOf('I1', dossier, text, see('steps', step), see('events', ...told)));
    }
    const [seq, pos] = step.kind === 'llm' ? [step.seq, 0] : [step.turn_seq, step.position];
    const said = dossier.messages.filter((message) => message.seq === seq && message.pos === pos);
    // What a cancelled call of the model returns is kept on its step, and is nobody's to read.
    const isKept = step.kind === 'llm' && dossier.run.status === 'cancelled' && said.length === 0;
    // A judgement is told, where it objects, as what is said to the answer.
    const isJudgement = step.kind === 'llm' && step.name === reflectionName;
    if (said.length !== (isJudgement ? 0 : wanted) && !isKept) {
      const text = `${name} and left ${said.length} messages`;
      found.push(breachOf('I1', dossier, text, see('steps', step), see('messages', ...said)));
    }
  }
  return found;
}

/** Events are numbered under the run's lock, so their order is the order of what happened. */
function ofTurns(dossier: Dossier): Breach[] {
  const { steps, events } = dossier;
  const found: Breach[] = [];
  const llmSteps = steps.filter((step) => step.kind === 'llm');
  for (const [index, step] of llmSteps.entries()) {
    const next = llmSteps[index + 1];
    if (next === undefined) continue;
    const begun = events.find((event) => event.seq === next.seq);
    for (const call of steps.filter((candidate) => candidate.turn_seq === step.seq)) {
      const [ended] = eventsOf(dossier, 'step.completed', call.seq);
      if (ended !== undefined && (begun === undefined || ended.id < begun.id)) continue;
      const text = `step ${next.seq} joins the turn of step ${step.seq} before its call ${call.seq} was over`;
      found.push(breachOf('I1', dossier, text, see('steps', call, next)));
    }
    const isAside = isSummary(step) || [step, next].some(({ seq }) => dossier.expected?.asides.includes(seq) === true);
    const isOver =
      isAside || steps.some((candidate) => candidate.turn_seq === step.seq) || wasObjectedTo(dossier, step.seq);
    if (!isOver) {
      const text = `step ${next.seq} follows step ${step.seq}, which asked for nothing`;
      found.push(breachOf('I1', dossier, text, see('steps', step, next)));
    }
  }
  return found;
}

function wasObjectedTo({ messages }: Dossier, seq: number): boolean {
  return messages.some((message) => message.seq === seq && message.pos === 1);
}
