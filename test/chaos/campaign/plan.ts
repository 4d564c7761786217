/**
 * The plan of a run: what its model asks for, what goes wrong on the way, and how it ends, as a function of the seed and
 * the plan's number. What a turn asks for depends on the results of the turns before it, so that a result lost, swapped or
 * doubled leads elsewhere and ends in another output. Shared by the model, the world outside and the clients.
 */
import type { Effect } from '../../../src/core/step.js';
import type { Expected, Hit } from './evidence.js';
import { type Random, randomOf, tokenOf } from './random.js';
import { crewNamed, crews, type ToolName, tools } from './trade.js';

export interface PlannedCall {
  /** Names the call: plan, turn, place; of a tool whose results are kept, the thing it is about. */
  ref: string;
  tool: ToolName | 'nonsense';
  effect: Effect;
  token: string;
  /** What the world answers at each hit; `ok` after the last. */
  answers: Exclude<Hit['answer'], 'ok'>[];
  /** Refused whenever it is tried. */
  refusedForGood: boolean;
  delayMs: number;
}

/** What the model does before it answers a turn as planned. */
export type ModelFault =
  | '429'
  | '429 with retry-after'
  | '500'
  | '503 page'
  | 'reset'
  | 'malformed'
  | 'empty'
  | 'error in 200'
  | 'hang'
  | '400';

export interface Turn {
  faults: ModelFault[];
  /** The fault comes for ever: the run cannot go on. */
  fails: ModelFault | null;
  delayMs: number;
  /** Empty: the turn answers with text. */
  calls: PlannedCall[];
  text: string | null;
}

export interface Plan {
  n: number;
  task: string;
  key: string;
  agent: string;
  /** Milliseconds after its start was answered; null: nobody cancels it. */
  cancelAfterMs: number | null;
  /** Starts of the same key beside the first, by milliseconds after it began. */
  duplicates: number[];
  expected: Expected;
}

/** The shape of a plan that is drawn before its first turn. */
interface Shape {
  agent: string;
  steps: number;
  failsAt: number | null;
  failsBy: ModelFault;
  stumblesAt: number | null;
  /** Its first answer is objected to. */
  objected: boolean;
  thread: string | null;
  /** The turn from which on the first of its models does not answer. */
  fallsBackAt: number | null;
}

/** Of so many plans in a row those of one agent share a thread. */
const plansOfThread = 12;
/** So many plans in a row ask for results of the same few things. */
const plansOfItems = 40;
const itemsOfPlans = 2;

function shapeOf(seed: number, n: number): Shape {
  const random = randomOf(seed, 'plan', n);
  const long = random.next() ** 5;
  const agent = random.weighted(Object.entries(crews).map(([item, { weight = 1 }]) => ({ item, weight })));
  const crew = crewNamed(agent);
  // Half of the runs have 3 or 4 steps, few have 30; whoever makes others of its thread wait has 8 at most.
  const usual = 3 + Math.floor((crew.thread === undefined ? 28 : 6) * long);
  const steps = crew.windowTokens === undefined ? usual : random.int(22, 30);
  const failsAt = random.chance(0.04) ? random.int(0, 2) : null;
  const failsBy = random.pick<'400' | '500'>(['400', '500']);
  const stumblesAt = random.chance(0.06) ? random.int(0, 2) : null;
  return {
    agent,
    steps,
    failsAt,
    // One that is asked again and again would fail for as long.
    failsBy: crew.mode === 'reflect' ? '400' : failsBy,
    // Whoever redrives could not tell a stumble from the end that it looks like.
    stumblesAt: failsAt !== null && (failsBy === '400' || crew.mode === 'reflect') ? null : stumblesAt,
    objected: (crew.objects !== undefined || crew.mode === 'reflect') && random.chance(0.4),
    thread: crew.thread === undefined ? null : `${agent} ${Math.floor(n / plansOfThread)}`,
    fallsBackAt: crew.models !== undefined && random.chance(0.8) ? random.int(0, 2) : null,
  };
}

/** What the model does at a turn whose history holds these marks, one for each result so far. */
export function turnOf(seed: number, n: number, turn: number, marks: readonly string[]): Turn {
  const shape = shapeOf(seed, n);
  const random = randomOf(seed, 'turn', n, turn, ...marks);
  // Steps so far: one for each earlier turn and each of its calls.
  const left = shape.steps - turn - marks.length - 1;
  const fails = turn === shape.failsAt ? shape.failsBy : null;
  const faults: ModelFault[] = random.chance(0.12) ? modelFaults(random) : [];
  if (turn === shape.stumblesAt) faults.unshift('400');
  const delayMs = random.chance(0.05) ? random.int(200, 600) : random.int(2, 40);
  const base = { faults, fails, delayMs };
  if (left <= 0) return { ...base, calls: [], text: answerOf(shape, n, turn, marks) };
  const most = crewNamed(shape.agent).windowTokens === undefined ? left : Math.min(left, 2);
  const asked = Math.min(most, random.weighted([1, 2, 3, 4].map((item) => ({ item, weight: 5 - item }))));
  const calls = Array.from({ length: asked }, (_, place) => callOf(random, seed, shape.agent, `${n}.${turn}.${place}`));
  return { ...base, calls, text: null };
}

function modelFaults(random: Random): ModelFault[] {
  const kinds: { item: ModelFault; weight: number }[] = [
    { item: '429', weight: 4 },
    { item: '429 with retry-after', weight: 2 },
    { item: '500', weight: 4 },
    { item: '503 page', weight: 2 },
    { item: 'reset', weight: 2 },
    { item: 'malformed', weight: 1 },
    { item: 'empty', weight: 1 },
    { item: 'error in 200', weight: 1 },
    { item: 'hang', weight: 0.3 },
  ];
  return Array.from({ length: random.int(1, 3) }, () => random.weighted(kinds));
}

/** What the model does before it sums up, plans or judges: nothing that would be the same at another try, or the run goes on without. */
export function asideFaultOf(
  seed: number,
  n: number,
  ...which: [aside: 'summary' | 'plan' | 'reflection', at: number]
): { fault: ModelFault | null; delayMs: number } {
  const random = randomOf(seed, which[0], n, which[1]);
  const fault = random.chance(0.2) ? random.pick<ModelFault>(['429', '500', '503 page', 'reset']) : null;
  return { fault, delayMs: random.int(2, 40) };
}

/** The last words; the auditor's must be JSON. What is objected to is none, or a draft. */
function answerOf(shape: Shape, n: number, turn: number, marks: readonly string[]): string {
  const digest = tokenOf('digest', n, ...marks);
  const { objects } = crewNamed(shape.agent);
  const isObjected = shape.objected && isFirstAnswer(shape, turn, marks);
  if (objects === 'output') return isObjected ? 'all is well' : JSON.stringify({ digest });
  return isObjected ? `${draft} of plan ${n}` : `plan ${n} is done: ${digest}`;
}

/** What an answer begins with that its agent's judge objects to. */
export const draft = 'a draft';

/** The plan that the model makes for a run, which every later request has to hold. */
export const planTextOf = (seed: number, n: number) =>
  `1. carry it out\n2. say what came of it ${tokenOf(seed, 'plan of', n)}`;

/** Before an objection, the turns and their results make up all steps but the last. */
function isFirstAnswer({ steps }: Shape, turn: number, marks: readonly string[]): boolean {
  return turn + marks.length + 1 === steps;
}

function callOf(random: Random, seed: number, agent: string, ref: string): PlannedCall {
  const token = tokenOf(seed, 'result', ref);
  const tool = random.chance(0.02) ? 'nonsense' : random.pick(crewNamed(agent).tools);
  if (tool === 'quote') return quoteOf(seed, itemFor(Number(ref.split('.')[0]), random));
  const delayMs = random.chance(0.06) ? random.int(300, 1_500) : random.int(1, 60);
  const call: Omit<PlannedCall, 'effect'> = { ref, tool, token, delayMs, answers: [], refusedForGood: false };
  if (tool === 'nonsense') return { ...call, effect: 'none' };
  const { effect } = tools[tool];
  if (effect === 'once') {
    const trouble = random.weighted<'refused' | 'lost' | 'late' | 'ok'>([
      { item: 'ok', weight: 90 },
      { item: 'refused', weight: 4 },
      { item: 'lost', weight: 5 },
      { item: 'late', weight: 1 },
    ]);
    // Whatever is asked again after a refusal is refused again: the outcome is known beforehand.
    if (trouble === 'refused') return { ...call, effect, refusedForGood: true };
    return { ...call, effect, answers: trouble === 'ok' ? [] : [trouble] };
  }
  if (random.chance(0.02)) return { ...call, effect, refusedForGood: true };
  if (!random.chance(0.12)) return { ...call, effect };
  const troubles = Array.from({ length: random.int(1, 2) }, () =>
    random.weighted<'refused' | 'lost' | 'late'>([
      { item: 'refused', weight: 5 },
      { item: 'lost', weight: 5 },
      { item: 'late', weight: 1 },
    ]),
  );
  return { ...call, effect, answers: troubles };
}

const itemFor = (n: number, random: Random) => `item ${Math.floor(n / plansOfItems)}.${random.int(1, itemsOfPlans)}`;

/** What is answered of an item, whoever asks: its results are kept. */
function quoteOf(seed: number, ref: string): PlannedCall {
  const random = randomOf(seed, ref);
  const refusedForGood = random.chance(0.15);
  const answers: PlannedCall['answers'] = random.chance(0.3) ? [random.pick(['refused', 'lost'])] : [];
  const delayMs = random.chance(0.3) ? random.int(300, 900) : random.int(1, 60);
  return { ref, tool: 'quote', effect: 'none', token: tokenOf(seed, 'result', ref), answers, refusedForGood, delayMs };
}

/**
 * The mark that a call's result leaves: its token, where whatever happens the result holds it. Not where nobody knows whether
 * the call happened, nor where its tool may be withdrawn, nor where it fails for good: its last failure may be a timeout of
 * a net that was broken.
 */
export function markOf({ tool, effect, token, refusedForGood }: PlannedCall): string {
  if (tool === 'nonsense' || tools[tool].onUnknown === 'tell' || tools[tool].isWithdrawn) return '-';
  return refusedForGood && effect !== 'once' ? '-' : token;
}

/** Text that holds a token, and how it is found again. */
export const withToken = (text: string, token: string) => `${text} [${token}]`;
export const tokenIn = (text: string) => /\[([0-9a-f]{10})\]/.exec(text)?.[1] ?? null;

export function planOf(seed: number, n: number): Plan {
  const shape = shapeOf(seed, n);
  const random = randomOf(seed, 'commands', n);
  const task = `seed ${seed} plan ${n}`;
  const key = `plan-${n}`;
  const cancels = random.chance(0.08);
  return {
    n,
    task,
    key,
    agent: shape.agent,
    cancelAfterMs: cancels ? random.int(0, 2_500) : null,
    duplicates: random.chance(0.25) ? Array.from({ length: random.int(1, 3) }, () => random.int(0, 1_500)) : [],
    expected: { plan: n, task, key, agent: shape.agent, thread: shape.thread, cancels, ...walk(seed, n) },
  };
}

/**
 * The plan that a message names as its run's task; null: it holds no task of this campaign. What several of one role say in a
 * row comes as one message, with empty lines between.
 */
export function planNamed(seed: number, text: string): number | null {
  const tasks = [...text.matchAll(/(?<=^|\n\n)seed (\d+) plan (\d+)(?=$|\n\n)/g)];
  const named = tasks.findLast(([, of]) => Number(of) === seed);
  return named === undefined ? null : Number(named[2]);
}

export const threadOf = (seed: number, n: number) => shapeOf(seed, n).thread;

type Walked = Pick<
  Expected,
  'status' | 'reason' | 'output' | 'calls' | 'llmSeqs' | 'asides' | 'objections' | 'fallsBackAt'
>;

/** Plays the plan through to its end, as it goes when nothing is lost. */
function walk(seed: number, n: number): Walked {
  const shape = shapeOf(seed, n);
  const marks: string[] = [];
  const nothing = { reason: null, output: null, objections: 0, fallsBackAt: null };
  const { mode } = crewNamed(shape.agent);
  const asides = mode === 'plan' ? [1] : [];
  const walked: Walked = { status: 'completed', calls: [], llmSeqs: [], asides, ...nothing };
  let seq = 1 + asides.length;
  for (let turn = 0; ; turn++) {
    const { calls, text, fails } = turnOf(seed, n, turn, marks);
    walked.llmSeqs.push(seq);
    seq += 1;
    if (turn === shape.fallsBackAt) walked.fallsBackAt = turn;
    if (fails !== null) {
      const reason = fails === '400' ? 'invalid_request' : 'attempts_exhausted';
      return { ...walked, status: 'failed', reason };
    }
    for (const call of calls) {
      const { tool, effect, token } = call;
      const applies = isNeverApplied(call) ? 0 : markOf(call) === '-' ? 'at most 1' : 1;
      walked.calls.push({ seq, tool, effect, token, applies });
      marks.push(markOf(call));
      seq += 1;
    }
    if (text === null) continue;
    if (mode === 'reflect') asides.push(seq++);
    if (!shape.objected || !isFirstAnswer(shape, turn, marks)) return { ...walked, output: text };
    if (mode !== 'reflect') walked.objections += 1;
  }
}

function isNeverApplied({ tool, effect, refusedForGood }: PlannedCall): boolean {
  return tool === 'nonsense' || effect === 'none' || refusedForGood;
}

/** The call of that name in a plan that goes as it should. */
export function findCall(seed: number, ref: string): PlannedCall | null {
  if (/^item \d+\.\d+$/.test(ref)) return quoteOf(seed, ref);
  const [n, until] = ref.split('.').map(Number);
  if (n === undefined || until === undefined) return null;
  const marks: string[] = [];
  for (let turn = 0; turn <= until; turn++) {
    const { calls } = turnOf(seed, n, turn, marks);
    const found = calls.find((call) => call.ref === ref);
    if (found !== undefined) return found;
    marks.push(...calls.map(markOf));
  }
  return null;
}
