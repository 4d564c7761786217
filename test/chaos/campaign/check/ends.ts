/**
 * I2: a final run never changes, except by an explicit redrive that is an event of its own and that somebody asked for.
 * Judged from the order of events, and from what clients saw of a final run at different times.
 */
import type { ClientAnswer, Evidence } from '../evidence.js';
import { type Breach, breachOf, type Dossier, dataOf, eventsOf, isRunFinal, ms, see } from './dossier.js';

export function checkEnd(dossier: Dossier, { nemesis }: Pick<Evidence, 'nemesis'>): Breach[] {
  const wasRetriedByHand = nemesis.some((fault) => fault.kind === 'jobs_retried');
  return [...ofEvents(dossier), ...ofRedrives(dossier, wasRetriedByHand), ...ofLooks(dossier)];
}

function ofEvents(dossier: Dossier): Breach[] {
  const { run, events } = dossier;
  if (!isRunFinal(run)) return [];
  const found: Breach[] = [];
  const ends = events.filter((event) => /^run\.(completed|failed|cancelled)$/.test(event.type));
  const redrives = eventsOf(dossier, 'run.redriven');
  if (ends.length !== redrives.length + 1) {
    const text = `came to ${ends.length} ends with ${redrives.length} redrives`;
    found.push(breachOf('I2', dossier, text, see('events', ...ends, ...redrives)));
  }
  for (const end of ends) {
    const next = events.find((event) => event.id === end.id + 1);
    if (next === undefined || next.type === 'run.redriven') continue;
    found.push(breachOf('I2', dossier, `was changed after its end by ${next.type}`, see('events', end, next)));
  }
  const last = events.at(-1);
  if (last !== undefined && ends.length > 0 && last.type !== `run.${run.status}` && ends.includes(last))
    found.push(breachOf('I2', dossier, `is ${run.status} and ended by ${last.type}`, see('events', last)));
  return found;
}

function ofRedrives(dossier: Dossier, wasRetriedByHand: boolean): Breach[] {
  const asked = dossier.clients.some((call) => call.op === 'redrive');
  return eventsOf(dossier, 'run.redriven').flatMap((event) => {
    const { by } = dataOf(event);
    if (by === 'dashboard' ? wasRetriedByHand : asked) return [];
    return [breachOf('I2', dossier, `was redriven (${String(by)}), and nobody asked for it`, see('events', event))];
  });
}

/** What one look, or the dump at the end, says of a run. */
interface Look {
  from: number;
  to: number;
  says: string;
  isFinal: boolean;
  where: string;
}

/** Client and database read clocks of one machine; what happened is taken for this much earlier or later. */
const clockSlackMs = 50;

function ofLooks(dossier: Dossier): Breach[] {
  const looks = looksAt(dossier);
  const redrivenAt = eventsOf(dossier, 'run.redriven').map((event) => ms(event.at));
  const found: Breach[] = [];
  for (const [index, look] of looks.entries()) {
    const next = looks[index + 1];
    const from = look.from - clockSlackMs;
    const wasRedriven = (to: number) => redrivenAt.some((at) => at >= from && at <= to + clockSlackMs);
    if (!look.isFinal && !wasRedriven(look.to)) {
      // Found final by the client before it asked, whoever redrove it did so in the seconds before.
      if (!redrivenAt.some((at) => at >= from - 5_000 && at <= look.to))
        found.push(breachOf('I2', dossier, `was final, and then ${look.says}`, look.where));
      continue;
    }
    if (next === undefined || !look.isFinal || look.says === next.says || wasRedriven(next.to)) continue;
    const text = `was final as ${look.says}, and without a redrive later ${next.says}`;
    found.push(breachOf('I2', dossier, text, look.where, next.where));
  }
  return found;
}

function looksAt(dossier: Dossier): Look[] {
  const { run, clients } = dossier;
  const looks = clients.flatMap((call) => {
    if (call.op !== 'seen_final' || !call.answer.ok) return [];
    return [lookOf(call.beganAt, call.endedAt, call.answer, see('clients', call))];
  });
  looks.sort((a, b) => a.from - b.from);
  if (!isRunFinal(run)) return looks;
  const output = run.output !== null && run.output_is_json ? JSON.stringify(JSON.parse(run.output)) : run.output;
  const { status, reason } = run;
  const finishedAt = run.finished_at === null ? null : new Date(run.finished_at).toISOString();
  const dumped = { ok: true, status, reason, output, finishedAt, created: null } as const;
  return [...looks, lookOf(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, dumped, see('runs', run))];
}

function lookOf(from: number, to: number, answer: Extract<ClientAnswer, { ok: true }>, where: string): Look {
  const { status, reason, output, finishedAt } = answer;
  const at = finishedAt === null ? null : Date.parse(finishedAt);
  const isFinal = status === 'completed' || status === 'failed' || status === 'cancelled';
  return { from, to, says: JSON.stringify([status, reason, output, at]), isFinal, where };
}
