/**
 * The model of a campaign: an OpenAI-compatible server that answers by the plan of the run that asks, and writes down every
 * request. It reads where the run stands from the history it is sent, so a history that is not the plan's is seen here.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Script,
  type ScriptedAnswer,
  type ScriptedFault,
  type ScriptedModel,
  type ScriptedRequest,
  startScriptedModel,
} from '../../../src/testing/index.js';
import type { ModelCall } from './evidence.js';
import { type ModelFault, markOf, planOf, type Turn, tokenIn, turnOf } from './plan.js';

export interface CampaignModelOptions {
  seed: number;
  apiKey: string;
  now: () => number;
  write(call: ModelCall): void;
}

export function startCampaignModel({ seed, apiKey, now, write }: CampaignModelOptions): Promise<ScriptedModel> {
  let n = 0;
  /** Requests so far for a turn of a run, by which its faults are spent. */
  const asked = new Map<string, number>();
  const llmSeqs = new Map<number, readonly number[]>();

  const script: Script = async (request, { signal }) => {
    const at = now();
    n += 1;
    const base = { n, at, fault: null, usage: null };
    const history = readHistory(seed, request);
    if (typeof history === 'string') {
      write({ ...base, plan: null, turn: null, seq: null, breach: history, reply: 'fault', delivered: true });
      return { fault: 'status', status: 400, message: history };
    }
    const { plan, turn, marks, breach } = history;
    const planned = turnOf(seed, plan, turn, marks);
    const id = `${plan}.${turn}`;
    const times = asked.get(id) ?? 0;
    asked.set(id, times + 1);
    const fault = planned.faults[times] ?? planned.fails;
    const seqs = llmSeqs.get(plan) ?? planOf(seed, plan).expected.llmSeqs;
    llmSeqs.set(plan, seqs);
    const call = { ...base, plan, turn, seq: seqs[turn] ?? null, breach };
    await delay(planned.delayMs, undefined, { signal }).catch(() => {});
    if (fault !== null) {
      write({ ...call, reply: 'fault', fault, delivered: !signal.aborted });
      return faults[fault];
    }
    const usage = { inputTokens: Math.ceil(JSON.stringify(request.body).length / 4), outputTokens: 5 };
    const answer = answerOf(planned);
    write({ ...call, reply: planned.calls.length > 0 ? 'calls' : 'text', usage, delivered: !signal.aborted });
    return {
      ...answer,
      usage: {
        prompt_tokens: usage.inputTokens,
        completion_tokens: usage.outputTokens,
        total_tokens: usage.inputTokens + usage.outputTokens,
      },
    };
  };

  return startScriptedModel({
    script,
    apiKey,
    log({ breach }) {
      if (breach === null) return;
      n += 1;
      const nothing = { plan: null, turn: null, seq: null, fault: null, usage: null };
      write({ ...nothing, n, at: now(), breach: breach.message, reply: 'fault', delivered: true });
    },
  });
}

interface History {
  plan: number;
  turn: number;
  marks: string[];
  breach: string | null;
}

/** Where the run stands by its history; a text says what is wrong with that. */
function readHistory(seed: number, { messages }: ScriptedRequest): History | string {
  const task = messages.find((message) => message.role === 'user')?.content ?? '';
  const named = /^seed (\d+) plan (\d+)$/.exec(task);
  if (named === null || Number(named[1]) !== seed)
    return `the task is not one of this campaign's: ${task.slice(0, 80)}`;
  const plan = Number(named[2]);
  const marks: string[] = [];
  const expected: string[] = [];
  let turn = 0;
  for (const message of messages) {
    if (message.role === 'assistant') {
      expected.push(...turnOf(seed, plan, turn, expected).calls.map(markOf));
      turn += 1;
    }
    if (message.role === 'tool') marks.push(expected[marks.length] === '-' ? '-' : (tokenIn(message.content) ?? '?'));
  }
  const breach =
    marks.join() === expected.join() ? null : `the results ${marks.join(' ')} are not the plan's ${expected.join(' ')}`;
  return { plan, turn, marks, breach };
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
