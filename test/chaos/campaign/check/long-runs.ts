/**
 * What is too long to be shown. A result is kept whole, once, beside the part that the model saw; a run that outgrows its
 * window is summed up, by a step of its own that is recorded once like any other, before a turn is left out, and only then.
 */
import type { Message } from '../../../../src/core/message.js';
import type { Evidence, StepDump } from '../evidence.js';
import { resultOf } from '../result.js';
import { crews, type ToolName, tools } from '../trade.js';
import {
  type Breach,
  breachOf,
  breachOfAll,
  byKey,
  type Dossier,
  eventsOf,
  isSummary,
  type Line,
  numbered,
  see,
} from './dossier.js';

export function checkSummaries(dossier: Dossier): Breach[] {
  const { run, steps, messages } = dossier;
  const windowTokens = crews[run.agent]?.windowTokens;
  const summaries = steps.filter(isSummary);
  const told = eventsOf(dossier, 'run.compacted');
  const wrong = (text: string, ...where: string[]) => breachOf('output', dossier, text, ...where);
  if (windowTokens === undefined) {
    if (summaries.length + told.length === 0) return [];
    return [wrong('was summed up in a window that it cannot fill', see('steps', ...summaries), see('events', ...told))];
  }
  const found: Breach[] = [];
  for (const step of summaries) {
    const said = messages.find(({ seq, pos }) => seq === step.seq && pos === 0);
    const message = said === undefined ? null : (JSON.parse(said.body) as Message);
    if (step.error_code !== null || message?.role !== 'user' || message.summary === undefined)
      found.push(wrong(`step ${step.seq} left no summary (${step.error_code})`, see('steps', step)));
    if (told.filter(({ seq }) => seq === step.seq).length !== 1)
      found.push(
        wrong(`step ${step.seq} is a summary, and that the run was summed up is not told once`, see('steps', step)),
      );
  }
  const lost = eventsOf(dossier, 'run.trimmed');
  if (lost.length > 0) found.push(wrong('left turns out without a summary', see('events', ...lost)));
  const last = steps.findLast(({ kind, status }) => kind === 'llm' && status === 'completed')?.seq ?? 0;
  const tokens = messages.reduce((sum, row) => sum + (row.seq < last ? (row.tokens ?? 0) : 0), 0);
  if (summaries.length === 0 && tokens > windowTokens)
    found.push(wrong(`has ${tokens} tokens in a window of ${windowTokens}, and was not summed up`, see('runs', run)));
  return found;
}

export function checkOutputs({ tables }: Pick<Evidence, 'tables'>, dossiers: readonly Dossier[]): Breach[] {
  const outputs = byKey(numbered(tables.outputs), ({ run_id, seq }) => `${run_id} ${seq}`);
  const found = dossiers.flatMap((dossier) =>
    dossier.steps.flatMap((step) => {
      const key = `${step.run_id} ${step.seq}`;
      const kept = outputs.get(key) ?? [];
      outputs.delete(key);
      return ofStep(dossier, step, kept);
    }),
  );
  const strange = [...outputs.values()].flat();
  return [
    ...found,
    ...strange.map((one) =>
      breachOfAll('I1', `step ${one.seq} of ${one.run_id} has an output and is none`, see('outputs', one)),
    ),
  ];
}

function ofStep(dossier: Dossier, step: Line<StepDump>, kept: Line<Evidence['tables']['outputs'][number]>[]): Breach[] {
  const { shownChars = null } = tools[step.name as ToolName] ?? {};
  const isLong = shownChars !== null && step.status === 'completed' && step.error_code === null;
  const where = [see('steps', step), see('outputs', ...kept)];
  if (kept.length !== (isLong ? 1 : 0))
    return [
      breachOf(
        'I1',
        dossier,
        `step ${step.seq} (${step.name}, ${step.status}) left ${kept.length} whole outputs`,
        ...where,
      ),
    ];
  const token = dossier.expected?.calls.find(({ seq }) => seq === step.seq)?.token;
  if (!isLong || token === undefined) return [];
  const whole = resultOf(step.name as ToolName, { token, n: 0 });
  const said = dossier.messages.find(({ seq, pos }) => seq === step.turn_seq && pos === step.position);
  const { content } = JSON.parse(said?.body ?? '{"content":""}') as { content: string };
  // The head, a notice, the tail.
  const isCutOfIt =
    content.length <= shownChars &&
    content.startsWith(whole.slice(0, shownChars / 2)) &&
    content.endsWith(whole.slice(-shownChars / 10));
  if (kept[0]?.body === whole && isCutOfIt) return [];
  return [
    breachOf('I1', dossier, `step ${step.seq} kept or showed something else than ${step.name} returned`, ...where),
  ];
}
