/**
 * I1 of facts: they are written with the record of the call that says them, so once for each that succeeded and never for
 * another, and the newest value of a key is the one that was said last.
 */
import type { Evidence, StepDump } from '../evidence.js';
import { type ToolName, tools } from '../trade.js';
import { type Breach, breachOf, breachOfAll, byKey, type Dossier, type Line, numbered, see } from './dossier.js';

export function checkFacts({ tables }: Evidence, dossiers: readonly Dossier[]): Breach[] {
  const facts = byKey(numbered(tables.facts), ({ run_id, seq }) => `${run_id} ${seq}`);
  const found = dossiers.flatMap((dossier) =>
    dossier.steps.flatMap((step) => {
      const key = `${step.run_id} ${step.seq}`;
      const said = facts.get(key) ?? [];
      facts.delete(key);
      return ofStep(dossier, step, said);
    }),
  );
  const strange = [...facts.values()].flat();
  return [
    ...found,
    ...strange.map((fact) => breachOfAll('I1', `nobody said the fact ${fact.key}`, see('facts', fact))),
  ];
}

function ofStep(dossier: Dossier, step: Line<StepDump>, said: Line<Evidence['tables']['facts'][number]>[]): Breach[] {
  const { run, expected } = dossier;
  const saysOne =
    tools[step.name as ToolName]?.saysFact === true && step.status === 'completed' && step.error_code === null;
  if (said.length !== (saysOne ? 1 : 0)) {
    const text = `step ${step.seq} (${step.name}, ${step.status}) left ${said.length} facts`;
    return [breachOf('I1', dossier, text, see('steps', step), see('facts', ...said))];
  }
  const token = expected?.calls.find((call) => call.seq === step.seq)?.token;
  const owner = run.thread_id ?? run.agent;
  const wrong = said.filter((fact) => fact.value !== token || fact.owner !== owner);
  return wrong.map((fact) => {
    const text = `step ${step.seq} left the fact ${fact.owner}/${fact.key}: ${fact.value}, and not ${owner}: ${token}`;
    return breachOf('I1', dossier, text, see('facts', fact));
  });
}
