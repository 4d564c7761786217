/**
 * What a step was asked and what it answered, which is stored once: the arguments of a call stand in the reply that asked
 * for it, an outcome in the message that tells it to the model. The columns `input` and `output` of a step hold only what no
 * message says, and of older rows both. Who needs the texts of a step reads them by `inputOf` and `outputOf`.
 */
import type { StoredMessage } from '../core/message.js';
import type { StepState } from '../core/step.js';
import { type StepRow, writeStep } from './rows.js';

/** SQL of the arguments of the step that goes by this alias. */
export const inputOf = (step: string) => `coalesce(${step}.input, case when ${step}.kind = 'tool' then (
  select m.body::json -> 'toolCalls' -> (${step}.position - 1) ->> 'arguments' from pawl.messages m
  where m.run_id = ${step}.run_id and m.seq = ${step}.turn_seq and m.pos = 0) end)`;

/** SQL of the outcome of the step that goes by this alias. */
export const outputOf = (step: string) => `coalesce(${step}.output, case when ${step}.status = 'completed' then (
  select m.body::json ->> 'content' from pawl.messages m
  where m.run_id = ${step}.run_id and m.seq = coalesce(${step}.turn_seq, ${step}.seq)
    and m.pos = coalesce(${step}.position, 0)) end)`;

/** SQL of the steps of the run `$1`, whole. Of columns with one name the driver keeps the last. */
export const stepsOfRun = `
select s.*, ${inputOf('s')} as input, ${outputOf('s')} as output from pawl.steps s where s.run_id = $1 order by s.seq`;

/** The row of a step without the texts that the messages written with it say. */
export function writeStepOnce(runId: string, step: StepState, messages: readonly StoredMessage[]): StepRow {
  const row = writeStep(runId, step);
  if (row.input !== null && row.input === askedWith(step, messages)) row.input = null;
  if (row.output !== null && step.status === 'completed' && row.output === toldWith(step, messages)) row.output = null;
  return row;
}

function askedWith({ turnSeq, position }: StepState, messages: readonly StoredMessage[]): string | undefined {
  const reply = messages.find(({ seq, pos }) => seq === turnSeq && pos === 0)?.message;
  return reply?.role === 'assistant' ? reply.toolCalls[(position ?? 0) - 1]?.arguments : undefined;
}

function toldWith(
  { seq, turnSeq, position }: StepState,
  messages: readonly StoredMessage[],
): string | null | undefined {
  return messages.find((told) => told.seq === (turnSeq ?? seq) && told.pos === (position ?? 0))?.message.content;
}
