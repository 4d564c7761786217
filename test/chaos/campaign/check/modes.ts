/**
 * What is asked of the model beside its turns. A run that plans has its plan from its first step on, made once; that each later
 * request holds it, the model's log says. A run whose answers are judged is told once of each judgement, and gives out what the
 * last one accepts.
 */
import { planName } from '../../../../src/core/step.js';
import { crews } from '../trade.js';
import { type Breach, breachOf, type Dossier, dataOf, eventsOf, see } from './dossier.js';

export function checkModes(dossier: Dossier): Breach[] {
  const { run, steps } = dossier;
  const mode = crews[run.agent]?.mode;
  const planned = eventsOf(dossier, 'run.planned');
  const judged = [...eventsOf(dossier, 'run.reflected'), ...eventsOf(dossier, 'run.answer_unjudged')];
  const wrong = (text: string, ...where: string[]) => breachOf('output', dossier, text, ...where);
  const found: Breach[] = [];
  const first = steps.find(({ seq }) => seq === 1);
  // What a cancelled call of the model returns is kept on its step, under the model's name.
  const isPlanned = mode === 'plan' && first?.status === 'completed' && first.name === planName;
  if (planned.length !== (isPlanned ? 1 : 0) || (isPlanned && first.error_code !== null))
    found.push(
      wrong(`made ${planned.length} plans`, see('steps', ...(first ? [first] : [])), see('events', ...planned)),
    );
  const verdicts = judged.map((event) => (event.type === 'run.reflected' ? String(dataOf(event).verdict) : 'not'));
  const due = mode === 'reflect' ? verdictsOf(dossier) : [];
  const isWhole = run.status === 'completed' ? verdicts.length === due.length : verdicts.length <= due.length;
  if (!isWhole || verdicts.some((verdict, at) => verdict !== due[at]))
    found.push(wrong(`was judged ${verdicts.join()}, and not ${due.join()}`, see('events', ...judged)));
  return found;
}

function verdictsOf({ expected }: Dossier): string[] {
  const { asides = [], status } = expected ?? {};
  return asides.map((_, at) => (status === 'completed' && at === asides.length - 1 ? 'accepted' : 'objected'));
}
