/** Plays every task on one side with one seed, and counts: from the side what it says of itself, from the model what it was asked. */
import { inLanes } from '../peer.js';
import type { Order } from './data.js';
import type { JudgementModel, Served } from './server.js';
import type { Played, Side } from './side.js';
import { isRight, type Task } from './tasks.js';
import { Warehouse } from './tools.js';

/** Of one task on one side with one seed. */
export interface Trial {
  side: string;
  seed: number;
  set: Task['set'];
  task: string;
  right: boolean;
  answer: string | null;
  ended: string;
  /** Tool calls that the model asked for, and those of them that got a result. */
  calls: number;
  succeeded: number;
  /** Turns that asked for tools. */
  rounds: number;
  /** Model calls and tool calls. */
  steps: number;
  modelCalls: number;
  promptTokens: number;
  cachedTokens: number;
  deadLoop: boolean;
  ms: number;
}

/** In as many turns of one task the same call is a dead loop, whatever ends it. */
const sameCallTurns = 6;
const lanes = 8;

export interface Ask {
  side: Side;
  name: string;
  seed: number;
  tasks: readonly Task[];
  orders: readonly Order[];
  model: JudgementModel;
  services: { databaseUrl: string; redisUrl: string };
}

export async function playTasks({ side, name, seed, tasks, orders, model, services }: Ask): Promise<Trial[]> {
  const warehouse = new Warehouse(
    orders,
    tasks.flatMap(({ cold }) => cold ?? []),
  );
  model.seed = seed;
  model.served = [];
  model.forget();
  const session = await side.open({ modelUrl: model.url, warehouse, ...services });
  const played = new Map<Task, Played>();
  try {
    await inLanes(tasks, lanes, async (task) => played.set(task, await session.play(task.text)));
  } finally {
    await session.close();
  }
  return [...played].map(([task, one]) => {
    const served = model.served.filter((request) => request.task === task.text);
    return trialOf({ side: name, seed, task, played: one, served });
  });
}

interface Counted {
  side: string;
  seed: number;
  task: Task;
  played: Played;
  served: readonly Served[];
}

export function trialOf({ side, seed, task, played, served }: Counted): Trial {
  const calls = served.flatMap((request) => request.calls);
  const sum = (of: (request: Served) => number) => served.reduce((total, request) => total + of(request), 0);
  return {
    side,
    seed,
    set: task.set,
    task: task.text,
    right: played.answer !== null && isRight(task, played.answer),
    answer: played.answer,
    ended: played.ended,
    calls: calls.length,
    succeeded: played.calls.filter(Boolean).length,
    rounds: served.filter((request) => request.calls.length > 0).length,
    steps: served.length + calls.length,
    modelCalls: served.length,
    promptTokens: sum(({ promptTokens }) => promptTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
    deadLoop: played.endedAtLimit || mostTurnsOfOneCall(served) >= sameCallTurns,
    ms: played.ms,
  };
}

function mostTurnsOfOneCall(served: readonly Served[]): number {
  const turns = new Map<string, number>();
  for (const { calls } of served) {
    for (const call of new Set(calls.map(({ name, arguments: given }) => `${name} ${given}`))) {
      turns.set(call, (turns.get(call) ?? 0) + 1);
    }
  }
  return Math.max(0, ...turns.values());
}
