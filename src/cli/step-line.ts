/**
 * One line a step, for whoever follows a run: number, kind, name, duration, tokens, cost and what was unusual about it.
 * And one line for each other thing that happened to a run. Next: follow.ts.
 */
import type { EventView, StepView } from '../core/view.js';
import { formatCached, formatCost, formatMs, formatSpan, formatTokens } from './format.js';
import type { Colour, Paint } from './terminal.js';
import { clip, oneLine, padEnd, padStart } from './width.js';

const nameColumns = 24;

/** The line of a step that has its outcome. `asked`: how many tools an LLM step asked for. */
export function stepLine(step: StepView, paint: Paint, more: { asked?: number; now: Date }): string {
  const [mark, colour] = markOf(step);
  const notes: string[] = [];
  if (more.asked !== undefined) notes.push(`asks for ${more.asked === 1 ? 'a tool' : `${more.asked} tools`}`);
  if (step.note === 'cache') notes.push('from the cache');
  const cached = formatCached(step.usage);
  if (cached !== '') notes.push(cached);
  if (step.attempt > 1) notes.push(`attempt ${step.attempt}`);
  if (step.crashes > 0) notes.push(`survived ${step.crashes === 1 ? 'a crash' : `${step.crashes} crashes`}`);
  if (step.error !== null) notes.push(`${step.error.code}: ${clip(oneLine(step.error.message), 100)}`);
  const columns = [
    paint(colour, mark),
    head(step.seq, step.kind, step.name),
    padStart(formatSpan(step.startedAt, step.finishedAt, more.now), 7),
    padStart(formatTokens(step.usage), step.kind === 'llm' ? 20 : 0),
    formatCost(step.usage),
    paint(step.error === null ? 'dim' : 'yellow', notes.join(' · ')),
  ];
  return columns
    .filter((column) => column !== '')
    .join('  ')
    .trimEnd();
}

function markOf(step: StepView): [string, Colour] {
  switch (step.status) {
    case 'completed':
      return step.error === null ? ['✓', 'green'] : ['!', 'yellow'];
    case 'dead':
      return ['✗', 'red'];
    case 'cancelled':
      return ['–', 'dim'];
    case 'pending':
    case 'running':
    case 'suspended':
      return ['·', 'dim'];
  }
}

function head(seq: number | null, kind: string, name: string): string {
  return `${padStart(seq === null ? '' : String(seq), 3)}  ${padEnd(kind, 4)}  ${padEnd(clip(oneLine(name), nameColumns), nameColumns)}`;
}

/** What is under way now, as one line: each running step with its time so far, or what is waited for. */
export function statusLine(steps: readonly StepView[], now: Date): string {
  const running = steps.filter((step) => step.status === 'running');
  if (running.length > 0) {
    return running
      .map(
        (step) =>
          `${step.seq} ${oneLine(step.name)} ${formatSpan(step.startedAt, null, now)}${step.attempt > 1 ? `, attempt ${step.attempt}` : ''}`,
      )
      .join(' · ');
  }
  const next = steps.find((step) => step.status === 'pending');
  if (next === undefined) return 'waiting';
  return `${next.seq} ${oneLine(next.name)} ${next.attempt > 0 ? 'waits for its next attempt' : 'is next'}`;
}

/** An event in words; null for those that say nothing a step's own line does not say. */
export function eventLine(event: EventView, paint: Paint): string | null {
  const words = wordsOfEvent(event);
  if (words === null) return null;
  const { mark, colour, text } = words;
  if (event.seq === null) return `${paint(colour, mark)}       ${text}`;
  const kind = typeof event.data.kind === 'string' ? event.data.kind : '';
  const name = typeof event.data.name === 'string' ? event.data.name : '';
  return `${paint(colour, mark)}  ${head(event.seq, kind, name)}  ${text}`;
}

interface EventWords {
  mark: string;
  colour: Colour;
  text: string;
}

function wordsOfEvent({ type, data }: EventView): EventWords | null {
  const plain = (text: string): EventWords => ({ mark: '·', colour: 'dim', text });
  const warning = (text: string): EventWords => ({ mark: '↻', colour: 'yellow', text });
  const error = errorOf(data.error);
  switch (type) {
    case 'run.created':
    case 'run.started':
    case 'run.completed':
    case 'run.failed':
    case 'run.cancelled':
    case 'run.suspended':
    case 'step.completed':
      return null;
    case 'step.retry':
      return warning(`attempt ${text(data.attempt)} failed (${error}); again in ${formatMs(Number(data.inMs))}`);
    case 'step.fell_back':
      return warning(`fell back from ${text(data.from)} to ${text(data.to)} (${error})`);
    case 'step.rescued':
      return warning(`rescued from attempt ${text(data.attempt)}: ${causeOf(data.cause)}`);
    case 'step.dead':
      return {
        mark: '✗',
        colour: 'red',
        text: `dead after attempt ${text(data.attempt)}, ${text(data.reason)} (${error})`,
      };
    case 'step.unknown':
      return {
        mark: '?',
        colour: 'yellow',
        text: `nobody knows whether it took effect${error === '' ? '' : ` (${error})`}`,
      };
    case 'step.suspended':
      return {
        mark: '‖',
        colour: 'yellow',
        text: `waits: ${text(data.waitingFor)}${data.detail === null ? '' : `, ${text(data.detail)}`}`,
      };
    case 'step.resolved':
      return plain(`an operator answered: ${text(data.as)}`);
    case 'step.did_not_happen':
      return plain('it did not happen, says the operator');
    case 'run.resumed':
      return plain('resumed');
    case 'run.paused':
      return plain('paused by an operator');
    case 'run.unpaused':
      return plain('no longer paused');
    case 'run.cancel_requested':
      return plain('cancel asked for');
    case 'run.redriven':
      return plain(`redriven (${text(data.by)})`);
    case 'run.limit_reached':
      return warning(`limit reached: ${text(data.reason)}; one last answer, without tools`);
    case 'run.tool_closed':
      return warning(`${text(data.tool)} refused permission: it is closed for the rest of the run`);
    case 'run.answer_refused':
      return warning(`the answer was handed back: ${clip(text(data.objection).replace(/^\[Pawl\] /, ''), 160)}`);
    case 'run.planned':
      return plain(data.replaces === true ? 'the plan was replaced' : 'the plan was made');
    case 'run.reflected':
      return wordsOfReflection(data);
    case 'run.answer_unjudged':
      return plain(
        data.because === 'rounds'
          ? 'the answer stands: the last round of judgements is over'
          : 'the answer stands unjudged: a limit leaves no room for it',
      );
    case 'run.trimmed':
      return plain(`the turns before step ${text(data.from)} are left out of the prompt`);
    case 'step.remembered':
      return plain(`remembered: ${Array.isArray(data.keys) ? data.keys.map(text).join(', ') : ''}`);
    case 'run.digested':
      return plain(`tool results before step ${text(data.before)} are shortened to a line in the prompt`);
    case 'run.compacted':
      return plain(
        `the turns before step ${text(data.before)} are summed up: the prompt shrank from ${text(data.tokensBefore)} to ${text(data.tokensAfter)} tokens`,
      );
    case 'run.price_unknown':
      return warning(
        `no price is known for ${text(data.model)}: the limit of cost is not kept, only tokens are counted`,
      );
    case 'run.loop':
      return warning(wordsOfLoop(data));
    case 'run.limits_changed':
      return plain(
        `limits changed: ${Object.entries(data)
          .map(([name, value]) => `${name} ${text(value)}`)
          .join(', ')}`,
      );
    default:
      return plain(`${type}${Object.keys(data).length === 0 ? '' : ` ${clip(oneLine(JSON.stringify(data)), 100)}`}`);
  }
}

function wordsOfReflection(data: EventView['data']): EventWords {
  const judgement = `judgement ${text(data.round)} of ${text(data.rounds)}`;
  if (data.verdict === 'objected') {
    return { mark: '↻', colour: 'yellow', text: `${judgement} objects: ${clip(text(data.objection), 160)}` };
  }
  const rest = data.verdict === 'accepted' ? 'accepts the answer' : 'came to nothing: the answer stands';
  return { mark: '·', colour: 'dim', text: `${judgement} ${rest}` };
}

function wordsOfLoop(data: EventView['data']): string {
  const tools = Array.isArray(data.tools) ? data.tools.map(text).join(', ') : '';
  const inOtherWords = data.reworded === true ? ' in other words' : '';
  const what = `the model repeats itself${inOtherWords} (${tools}, ${text(data.turns)} turns in a row)`;
  switch (data.rung) {
    case 'tell':
      return `${what}: it was told`;
    case 'withhold':
      return `${what}: the same calls are withheld`;
    default:
      return `${what}: this was its last answer, without tools`;
  }
}

/** What rules and operators did to a run, beside its steps. */
const rulings: ReadonlySet<string> = new Set([
  ...[
    'run.answer_refused',
    'run.limit_reached',
    'run.limits_changed',
    'run.loop',
    'run.price_unknown',
    'run.planned',
    'run.reflected',
    'run.answer_unjudged',
    'run.trimmed',
    'run.digested',
    'step.remembered',
    'run.compacted',
    'run.redriven',
    'run.tool_closed',
  ],
  ...['step.retry', 'step.fell_back', 'step.rescued', 'step.unknown', 'step.resolved', 'step.dead'],
]);

/** Why a run went as it went: its steps' number and what happened to them, for each thing that was no ordinary step. */
export function rulingLines(events: readonly EventView[]): string[] {
  return events
    .filter((event) => rulings.has(event.type))
    .map((event) => `${padStart(event.seq === null ? '' : String(event.seq), 3)}  ${eventText(event)}`.trimEnd());
}

/** The text of an event for a table of events: that of its line, or its type's own. */
export function eventText(event: EventView): string {
  return wordsOfEvent(event)?.text ?? '';
}

function text(value: unknown): string {
  return typeof value === 'string' ? oneLine(value) : (JSON.stringify(value) ?? '');
}

function errorOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, message } = error as { code?: unknown; message?: unknown };
  return clip(
    [code, message]
      .filter((part) => typeof part === 'string' && part !== '')
      .map((part) => oneLine(String(part)))
      .join(': '),
    120,
  );
}

function causeOf(cause: unknown): string {
  switch (cause) {
    case 'crash':
      return 'its worker died';
    case 'dropped':
      return 'its worker no longer worked on it';
    case 'overdue':
      return 'it was past its deadline';
    default:
      return text(cause);
  }
}
