/**
 * I7: every request sent to a provider is valid and holds the plan's own history, as the model's log says; and the stored
 * history is one from which only valid requests can be made: each call has its step and, once its turn is over, its result.
 */
import type { Message } from '../../../../src/core/message.js';
import type { Evidence } from '../evidence.js';
import { type Breach, breachOf, breachOfAll, type Dossier, numbered, see } from './dossier.js';

export function checkRequests({ model }: Pick<Evidence, 'model'>, dossiers: readonly Dossier[]): Breach[] {
  const runs = new Map(dossiers.flatMap((dossier) => (dossier.expected ? [[dossier.expected.plan, dossier]] : [])));
  return numbered(model).flatMap((call) => {
    if (call.breach === null && call.plan !== null) return [];
    const dossier = runs.get(call.plan ?? -1);
    const text = call.breach ?? 'a request of no plan';
    const where = see('model', call);
    if (dossier === undefined) return [breachOfAll('I7', text, where)];
    return [breachOf('I7', dossier, `step ${call.seq}: ${text}`, where)];
  });
}

export function checkHistory(dossier: Dossier): Breach[] {
  const { steps, messages } = dossier;
  const found: Breach[] = [];
  const said = messages.map((row) => ({ row, message: JSON.parse(row.body) as Message }));
  const task = said.find(({ row }) => row.seq === 0 && row.pos === 0);
  if (dossier.expected !== null && task?.message.content !== dossier.expected.task)
    found.push(breachOf('I7', dossier, 'does not begin with its task', ...(task ? [see('messages', task.row)] : [])));
  for (const { row, message } of said) {
    // What was said before in its thread is a copy, whose steps are those of another run.
    if (message.role !== 'assistant' || row.seq < 0) continue;
    const isOver = steps.some((step) => step.kind === 'llm' && step.seq > row.seq);
    for (const [index, call] of message.toolCalls.entries()) {
      const step = steps.find((candidate) => candidate.turn_seq === row.seq && candidate.position === index + 1);
      if (step?.call_id !== call.id)
        found.push(breachOf('I7', dossier, `call ${call.id} of step ${row.seq} has no step`, see('messages', row)));
      const result = said.find((other) => other.row.seq === row.seq && other.row.pos === index + 1);
      if (result === undefined && !isOver) continue;
      if (result?.message.role === 'tool' && result.message.callId === call.id) continue;
      const text = `call ${call.id} of step ${row.seq} is not answered in its place`;
      found.push(breachOf('I7', dossier, text, see('messages', row, ...(result ? [result.row] : []))));
    }
  }
  return found;
}
