/**
 * Conduct: what the row of a run remembers of its turns, so that the loop guard and the breaker judge from rows, after
 * any redelivery and in any process, without a look at the history. It is noted as calls are answered and closed once, when
 * a turn is joined; it holds no setting of an agent. loop.ts judges it.
 */
import { hash } from './hash.js';

/** The longest cycle of turns that is noticed. */
export const longestCycle = 8;

export interface Conduct {
  /** The turn under way. Its sums do not depend on the order in which its calls end. */
  turn: { calls: number; failed: number; answered: number; asked: number; got: number; withheld: boolean };
  /** Of the last turns, the newest first: what was asked for, and with what results. */
  asked: readonly number[];
  got: readonly number[];
  /** By distance, from 1: turns in a row that asked for what the turn so many before them did, and also got the same. */
  sameAsked: readonly number[];
  same: readonly number[];
  /** Turns in a row whose calls were executed and all failed. */
  failedTurns: number;
  /** Of the last call that failed, while the turn or the turns in a row have failures. */
  lastError: string | null;
  /** Tools that refused permission: they are not called again. */
  closed?: readonly string[];
  /** Calls so far of the tools that have a limit of them. */
  calls?: Readonly<Record<string, number>>;
  /** Judgements of final answers so far. */
  reflections?: number;
}

const newTurn: Conduct['turn'] = { calls: 0, failed: 0, answered: 0, asked: 0, got: 0, withheld: false };
const blank: Conduct = {
  turn: newTurn,
  asked: [],
  got: [],
  sameAsked: [],
  same: [],
  failedTurns: 0,
  lastError: null,
};

/** A call as it was answered. */
export interface AnsweredCall {
  name: string;
  callHash: string;
  /** What the model is told. */
  text: string;
  error: { code: string; message: string } | null;
}

const keptErrorChars = 300;
/** Said of calls that no tool was asked for, or that a tool answered: neither a failure of the tool nor a success. */
const saysNothing: ReadonlySet<string> = new Set([
  'not_executed',
  'withheld',
  'permission_denied',
  'tool_disabled',
  'tool_out',
  'objection',
  'no_plan',
  'aborted',
]);

export function noteCall(before: Conduct | null, call: AnsweredCall): Conduct {
  const conduct = before ?? blank;
  const { turn } = conduct;
  const code = call.error?.code ?? null;
  const failed = code !== null && !saysNothing.has(code);
  const asked = askedBy({ ...call, fault: code === 'not_executed' ? call.text : null });
  const got = signature([String(asked), call.text]);
  const closes = code === 'permission_denied' && conduct.closed?.includes(call.name) !== true;
  return {
    ...conduct,
    ...(closes ? { closed: [...(conduct.closed ?? []), call.name] } : {}),
    turn: {
      calls: turn.calls + 1,
      failed: turn.failed + (failed ? 1 : 0),
      answered: turn.answered + (code === null ? 1 : 0),
      asked: add(turn.asked, asked),
      got: add(turn.got, got),
      withheld: turn.withheld || code === 'withheld',
    },
    lastError: failed ? `${call.name}: ${call.error?.message ?? ''}`.slice(0, keptErrorChars) : conduct.lastError,
  };
}

/** Counts a call of a tool that has a limit of calls. */
export function countCall(before: Conduct | null, name: string): Conduct {
  const conduct = before ?? blank;
  return { ...conduct, calls: { ...conduct.calls, [name]: callsOf(conduct, name) + 1 } };
}

/** Calls so far of a tool that has a limit of them. */
export function callsOf(conduct: Conduct | null, name: string): number {
  return conduct?.calls !== undefined && Object.hasOwn(conduct.calls, name) ? (conduct.calls[name] ?? 0) : 0;
}

/** Counts a judgement of a final answer. */
export function countReflection(before: Conduct | null): Conduct {
  return { ...(before ?? blank), reflections: reflectionsOf(before) + 1 };
}

/** Judgements of final answers so far. */
export function reflectionsOf(conduct: Conduct | null): number {
  return conduct?.reflections ?? 0;
}

/** Whether a tool refused permission in this run. */
export function isDenied(conduct: Conduct | null, name: string): boolean {
  return conduct?.closed?.includes(name) === true;
}

/** Closes the turn under way, where it called anything. */
export function closeTurn(conduct: Conduct | null): Conduct | null {
  if (conduct === null || conduct.turn.calls === 0) return conduct;
  const { turn } = conduct;
  const got = turn.withheld ? gotBefore(conduct) : turn.got;
  const distances = Math.min(longestCycle, conduct.asked.length);
  const count = (sums: readonly number[], now: number, counts: readonly number[]) =>
    Array.from({ length: distances }, (_, index) => (sums[index] === now ? (counts[index] ?? 0) + 1 : 0));
  const failedTurns = turn.answered > 0 ? 0 : turn.failed > 0 ? conduct.failedTurns + 1 : conduct.failedTurns;
  const sameAsked = count(conduct.asked, turn.asked, conduct.sameAsked);
  return {
    ...conduct,
    turn: newTurn,
    asked: [turn.asked, ...conduct.asked].slice(0, longestCycle),
    got: [got, ...conduct.got].slice(0, longestCycle),
    sameAsked,
    same: count(conduct.got, got, conduct.same).map((times, index) => Math.min(times, sameAsked[index] ?? 0)),
    failedTurns,
    lastError: failedTurns === 0 ? null : conduct.lastError,
  };
}

/** Calls withheld because they go on with a cycle would have had the results they had: the answers in their place are Pawl's. */
function gotBefore({ turn, asked, got, same }: Conduct): number {
  const equal = asked.flatMap((then, index) => (then === turn.asked ? [index] : []));
  const best = equal.reduce((a, b) => ((same[b] ?? 0) > (same[a] ?? 0) ? b : a), equal[0] ?? 0);
  return got[best] ?? turn.got;
}

/** What a turn asks for. A call that cannot be executed is known by what is wrong with it: its arguments are beside the point. */
export function askedFor(calls: readonly { name: string; callHash: string; fault: { text: string } | null }[]): number {
  return calls.reduce((sum, call) => add(sum, askedBy({ ...call, fault: call.fault?.text ?? null })), 0);
}

function askedBy(call: { name: string; callHash: string; fault: string | null }): number {
  return call.fault === null ? signature([call.callHash]) : signature([call.name, call.fault]);
}

/** 40 bits: eight of them are compared with one another, and their sums stay exact. */
function signature(parts: readonly string[]): number {
  return Number.parseInt(hash(parts).slice(0, 10), 16);
}

function add(a: number, b: number): number {
  return (a + b) % 2 ** 40;
}
