/**
 * The model of a campaign: an OpenAI-compatible server that answers by the plan of the run that asks, and writes down every
 * request. It reads where the run stands from the history it is sent, so a history that is not the plan's is seen here.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Message } from '../../../src/core/message.js';
import {
  type Script,
  type ScriptedAnswer,
  type ScriptedFault,
  type ScriptedModel,
  type ScriptedRequest,
  startScriptedModel,
} from '../../../src/testing/index.js';
import type { Expected, ModelCall } from './evidence.js';
import {
  asideFaultOf,
  draft,
  type ModelFault,
  markOf,
  planNamed,
  planOf,
  planTextOf,
  type Turn,
  threadOf,
  tokenIn,
  turnOf,
} from './plan.js';
import { asksForSummary, summaryIn, writeSummary } from './summary.js';
import { crewNamed } from './trade.js';

export interface CampaignModelOptions {
  seed: number;
  apiKey: string;
  callMs: number;
  now: () => number;
  write(call: ModelCall): void;
}

export function startCampaignModel({ seed, apiKey, callMs, now, write }: CampaignModelOptions): Promise<ScriptedModel> {
  let n = 0;
  /** Requests so far for a turn of a run, by which its faults are spent. */
  const asked = new Map<string, number>();
  const plans = new Map<number, Expected>();

  const script: Script = async (request, { signal }) => {
    const at = now();
    n += 1;
    const base = { n, at, model: request.model, fault: null, usage: null };
    if (request.tools.some(({ name }) => name === 'die')) return { calls: [{ name: 'die', arguments: {} }] };
    const history = readHistory(seed, request);
    if (typeof history === 'string') {
      write({ ...base, plan: null, turn: null, seq: null, breach: history, reply: 'fault', delivered: true });
      return { fault: 'status', status: 400, message: history };
    }
    const { plan, turn, marks, summaries, breach } = history;
    const sumsUp = asksForSummary(request.messages.at(-1)?.content);
    const aside = asideIn(request.messages);
    const planned = sumsUp
      ? summaryTurn(plan, history)
      : aside === null
        ? turnOf(seed, plan, turn, marks)
        : asideTurn(plan, turn, aside);
    const expected = plans.get(plan) ?? planOf(seed, plan).expected;
    plans.set(plan, expected);
    const isPlanLost =
      aside === null && expected.asides[0] === 1 && !isPlanShown(request.messages, planTextOf(seed, plan));
    const name =
      aside !== null ? `${plan}.${aside.kind} ${turn}` : sumsUp ? `${plan}.summary ${summaries}` : `${plan}.${turn}`;
    const fault = isSilent(expected, request.model, turn) ? '503 page' : nextFault(name, planned);
    const seq = aside === null ? expected.llmSeqs[turn] : asideSeq(expected, turn, aside);
    const wrong = breach ?? (isPlanLost ? 'the plan of the run is not shown' : null);
    const call = { ...base, plan, turn, seq: seq === undefined ? null : seq + summaries, breach: wrong };
    await delay(callMs + planned.delayMs, undefined, { signal }).catch(() => {});
    if (fault !== null) {
      write({ ...call, reply: 'fault', fault, delivered: !signal.aborted });
      return faults[fault];
    }
    const usage = { inputTokens: Math.ceil(JSON.stringify(request.body).length / 4), outputTokens: 5 };
    const answer = answerOf(planned);
    const reply = aside !== null ? aside.kind : sumsUp ? 'summary' : planned.calls.length > 0 ? 'calls' : 'text';
    write({ ...call, reply, usage, delivered: !signal.aborted });
    return {
      ...answer,
      usage: {
        prompt_tokens: usage.inputTokens,
        completion_tokens: usage.outputTokens,
        total_tokens: usage.inputTokens + usage.outputTokens,
      },
    };
  };

  function summaryTurn(plan: number, { turn: turns, marks, summaries }: History): Turn {
    const { fault, delayMs } = asideFaultOf(seed, plan, 'summary', summaries);
    const text = writeSummary({ turns, marks, count: summaries + 1 });
    return { faults: fault === null ? [] : [fault], fails: null, delayMs, calls: [], text };
  }

  function asideTurn(plan: number, turn: number, { kind, text = planTextOf(seed, plan) }: Aside): Turn {
    const { fault, delayMs } = asideFaultOf(seed, plan, kind, turn);
    return { faults: fault === null ? [] : [fault], fails: null, delayMs, calls: [], text };
  }

  function nextFault(id: string, { faults, fails }: Turn): ModelFault | null {
    const times = asked.get(id) ?? 0;
    asked.set(id, times + 1);
    return faults[times] ?? fails;
  }

  return startScriptedModel({
    script,
    apiKey,
    log({ breach }) {
      if (breach === null) return;
      n += 1;
      const nothing = { model: null, plan: null, turn: null, seq: null, fault: null, usage: null };
      write({ ...nothing, n, at: now(), breach: breach.message, reply: 'fault', delivered: true });
    },
  });
}

/** What is asked for that is no turn, and is answered with `text`. */
interface Aside {
  kind: 'plan' | 'reflection';
  text?: string;
}

/** A draft is objected to, and every other answer accepted. */
function asideIn(messages: readonly Message[]): Aside | null {
  const last = messages.at(-1)?.content ?? '';
  if (last.includes('write the plan for this task')) return { kind: 'plan' };
  if (!last.includes('Judge it first')) return null;
  const isDraft = messages.at(-2)?.content?.startsWith(draft) === true;
  const text = isDraft ? '{"accepted": false, "objections": "a draft is no answer"}' : '{"accepted": true}';
  return { kind: 'reflection', text };
}

/** A judgement comes after the turn that gave the answer. */
function asideSeq({ asides, llmSeqs }: Expected, turn: number, { kind }: Aside): number | undefined {
  if (kind === 'plan') return asides[0];
  const answered = llmSeqs[turn - 1];
  return answered === undefined ? undefined : answered + 1;
}

const isPlanShown = (messages: readonly Message[], text: string) =>
  messages.some(({ role, content }) => role === 'user' && content?.includes(text) === true);

interface History {
  plan: number;
  turn: number;
  marks: string[];
  /** Of the run so far. */
  summaries: number;
  breach: string | null;
}

/** Where the run stands by its history; a text says what is wrong with that. */
export function readHistory(seed: number, { messages }: Pick<ScriptedRequest, 'messages'>): History | string {
  const planIn = (message: Message) => (message.role === 'user' ? planNamed(seed, message.content) : null);
  const begins = messages.findLastIndex((message) => planIn(message) !== null);
  const task = messages[begins];
  const plan = task === undefined ? null : planIn(task);
  if (plan === null) return `no task is one of this campaign's: ${JSON.stringify(messages).slice(0, 80)}`;
  const strange = strangeBefore(seed, plan, messages.slice(0, begins).map(planIn));
  const summed = summaryIn(task?.content ?? '') ?? { turns: 0, marks: [], count: 0 };
  // What was shown when the summary was written stands in it, and may be shown still.
  const first = summed.count === 0 ? 0 : (turnIn(messages.slice(begins)) ?? summed.turns);
  if (first > summed.turns) return `the turns ${summed.turns} to ${first} are neither shown nor summed up`;
  const expected: string[] = [];
  let turn = 0;
  for (; turn < first; turn++) expected.push(...turnOf(seed, plan, turn, expected).calls.map(markOf));
  const marks = summed.marks.slice(0, expected.length);
  for (const message of messages.slice(begins)) {
    if (message.role === 'assistant') {
      expected.push(...turnOf(seed, plan, turn, expected).calls.map(markOf));
      turn += 1;
    }
    if (message.role === 'tool') marks.push(expected[marks.length] === '-' ? '-' : (tokenIn(message.content) ?? '?'));
  }
  const isSummed = summed.marks.join() === expected.slice(0, summed.marks.length).join() && turn >= summed.turns;
  const isWhole = marks.join() === expected.join() && isSummed;
  const told = (isSummed ? marks : summed.marks).join(' ');
  const breach = isWhole ? null : `the results ${told} are not the plan's ${expected.join(' ')}`;
  return { plan, turn, marks, summaries: summed.count, breach: strange ?? breach };
}

/** The turn that the first reply shown was given in, by the names of its calls. */
function turnIn(messages: readonly Message[]): number | null {
  const calls = messages.flatMap((message) => (message.role === 'assistant' ? message.toolCalls : []));
  // Those of a call that cannot be carried out are kept as text within text.
  const turn = /"ref\\?":\\?"\d+\.(\d+)\.\d+/.exec(calls[0]?.arguments ?? '')?.[1];
  return turn === undefined ? null : Number(turn);
}

/** What stands before the task of a run and does not belong there; only the runs before it in its thread do. */
function strangeBefore(seed: number, plan: number, before: readonly (number | null)[]): string | null {
  if (before.length === 0) return null;
  const thread = threadOf(seed, plan);
  if (thread === null) return 'messages stand before the task of a run without a thread';
  if (before[0] === null) return 'the history of the thread does not begin with a task';
  const strange = before.find((other) => other !== null && (other === plan || threadOf(seed, other) !== thread));
  return strange === undefined ? null : `the history of the thread holds plan ${strange}, which is not of it`;
}

/** Whether the plan lets this model answer no more. */
function isSilent({ agent, fallsBackAt }: Expected, model: string, turn: number): boolean {
  return fallsBackAt !== null && turn >= fallsBackAt && model === crewNamed(agent).models?.[0];
}

function answerOf({ calls, text }: Turn): ScriptedAnswer {
  return {
    text,
    calls: calls.map(({ tool, ref }) => ({ name: tool, arguments: { ref } })),
  };
}

const faults: Record<ModelFault, ScriptedFault> = {
  '429': { fault: 'status', status: 429, message: 'Rate limit reached' },
  '429 with retry-after': { fault: 'status', status: 429, message: 'Rate limit reached', retryAfter: 1 },
  '500': { fault: 'status', status: 500, message: 'The server had an error' },
  '503 page': { fault: 'html', status: 503, title: '503 Service Unavailable' },
  reset: { fault: 'reset' },
  malformed: { fault: 'malformed_json' },
  empty: { fault: 'empty_reply' },
  'error in 200': { fault: 'error_in_200' },
  hang: { fault: 'hang' },
  '400': { fault: 'status', status: 400, message: 'the model is not in the mood' },
};
