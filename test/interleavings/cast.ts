/**
 * Who plays: agents whose runs have few steps and a known answer, on tools that keep what they did. Each worker's place has
 * agents of its own, defined once, since to define one takes longer than to play. Next: model.ts.
 */
import { type Agent, defineAgent } from '../../src/core/agent.js';
import { crashLimit } from '../../src/core/step.js';
import { defineTool, type Tool, type ToolContext, type ToolOptions } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';

/** The world outside in one play. */
export interface Outside {
  /** A call that has its turn of the scheduler, made by whoever holds the place now. */
  act<T>(place: number, what: string, act: () => T): Promise<T>;
  /** Whoever holds the place dies. */
  die(place: number): void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** What was done, in order. */
  effects: Effect[];
}

export interface Effect {
  tool: string;
  runId: string;
  seq: number;
  key: string;
}

/** Any number above the crashes and failures that a play has faults for. */
const attempts = 9;
/** Turns by the task of the run. */
export const tasks: Record<string, readonly (readonly string[])[]> = {
  fan: [['look', 'look', 'pay']],
  row: [['step', 'step']],
  pay: [['pay'], ['look']],
  long: [['look'], ['step', 'look']],
  short: [],
  // Takes its process down.
  mine: [['mine', 'look']],
  // Fails for good.
  fail: [['fail'], ['look']],
  // Outgrows its window.
  tall: Array.from({ length: 8 }, () => ['read']),
  // Asks for what is kept.
  quote: [['quote', 'quote'], ['quote']],
  // Finds out by itself whether a call of an unknown fate happened.
  post: [['post'], ['look']],
  // An operator withdraws its tool.
  lend: [['lend'], ['lend', 'look']],
  // Its first answer is refused: by its own judge, or by the model's judgement.
  draft: [['look']],
  edit: [['step']],
  // Plans before its first turn.
  plan: [['look'], ['step']],
};
const crews: Record<string, string> = { draft: 'assessor', edit: 'editor', plan: 'planner' };
const takesMs: Record<string, number> = { look: 700, step: 400, pay: 900, read: 200, quote: 100, post: 500, lend: 300 };
/** The tool that is withdrawn and given back. */
export const lentTool = 'lend';
/** Calls of a mine that are the last of their process: the step is dead by then, and an operator has it tried again. */
const mineKills = 1 + crashLimit;
const failAttempts = 3;
const failure = 'it is broken';
/** What makes a history tall: a line would not halve it, so it is not shortened. */
export const padding = '.'.repeat(300);
const words = wordsOf('en');
const draft = 'a draft: ';

let outside: Outside | null = null;

/** From now on it is this play's. */
export function enter(world: Outside): void {
  outside = world;
}

function world(): Outside {
  if (outside === null) throw new Error('there is no play');
  return outside;
}

/** The agent whose task it is. */
export function agentOf(task: string): string {
  return crews[task] ?? 'helper';
}

/** Agents as the worker in that place has them. */
export function agentsOf(place: number): Agent[] {
  const tools = toolsOf(place);
  const agent = (name: string, more: Partial<Parameters<typeof defineAgent>[0]>) =>
    defineAgent({
      name,
      instructions: 'Help.',
      model: 'scripted',
      retry: { attempts, baseMs: 500, capMs: 2_000 },
      limits: { deadlineMs: 3_600_000 },
      context: { windowTokens: 4_000, keepTurns: 1 },
      // The same is asked for again and again on purpose.
      loop: { identicalCalls: 100, sameArguments: 100 },
      tools,
      ...more,
    });
  const verify = (answer: unknown) =>
    world().act(place, 'an answer is judged', () => (isDraft(String(answer)) ? 'it is a draft' : undefined));
  return [
    agent('helper', {}),
    agent('assessor', { verify }),
    agent('editor', { mode: { reflect: { rounds: 2, criteria: 'It is no draft.' } } }),
    agent('planner', { mode: 'plan' }),
  ];
}

function toolsOf(place: number): Tool[] {
  const done = async (tool: string, { runId, stepSeq, idempotencyKey, signal }: ToolContext) => {
    const { act, effects, die, sleep } = world();
    await act(place, `${tool} begins`, () => {
      effects.push({ tool, runId, seq: stepSeq, key: idempotencyKey });
      if (tool === 'mine' && effectsOf(runId, stepSeq).length <= mineKills) die(place);
    });
    await sleep(takesMs[tool] ?? 0, signal);
    if (tool === 'fail') throw new Error(failure);
    return tool === 'read' ? `${resultOf(tool)}${padding}` : resultOf(tool);
  };
  const look = ({ context: { runId, stepSeq } }: { context: ToolContext }) =>
    world().act(place, 'somebody looks what became of it', () =>
      effectsOf(runId, stepSeq).length > 0 ? { done: resultOf('post') } : ('ask' as const),
    );
  const tool = (name: string, rest: Omit<ToolOptions, 'name' | 'description' | 'execute'>) =>
    defineTool({ name, description: 'does it', ...rest, execute: (_, context) => done(name, context) });
  const idempotent = { effect: 'idempotent', attempts } as const;
  const once = { effect: 'once', timeoutMs: 6_000 } as const;
  return [
    // It says a fact, which is looked for when the call may be too late already.
    tool('look', { ...idempotent, timeoutMs: 3_000, extractFacts: () => [{ key: 'look', value: 'done' }] }),
    tool('read', idempotent),
    tool('mine', idempotent),
    // Nothing but its throws ends a call of it.
    tool('fail', { ...idempotent, attempts: failAttempts, timeoutMs: 600_000 }),
    tool('step', { ...idempotent, sequential: true }),
    tool('quote', { effect: 'none', attempts, cacheMs: 10_000 }),
    tool(lentTool, idempotent),
    tool('pay', once),
    tool('post', { ...once, onUnknown: look }),
  ];
}

function effectsOf(runId: string, seq: number): Effect[] {
  return world().effects.filter((effect) => effect.runId === runId && effect.seq === seq);
}

export function resultOf(tool: string): string {
  return `${tool} is done`;
}

export function answerOf(shown: readonly string[]): string {
  return `shown: ${shown.join(', ')}`;
}

/** Whether what the model says at first is to be refused. */
export function drafts(task: string): boolean {
  return task === 'draft' || task === 'edit';
}

export function draftOf(answer: string): string {
  return `${draft}${answer}`;
}

export function isDraft(answer: string): boolean {
  return answer.startsWith(draft);
}

export function isExpected(task: string, answer: string | null): boolean {
  const failed = words.toolThrew('fail', failure, failAttempts);
  const withdrawn = [false, true].map((tried) => words.disabled(lentTool, tried));
  const shown = (tasks[task] ?? []).flat().map((tool) => {
    if (tool === 'fail') return [failed];
    return tool === lentTool ? [resultOf(tool), ...withdrawn] : [resultOf(tool)];
  });
  const all = shown.reduce<string[][]>((some, ways) => some.flatMap((one) => ways.map((way) => [...one, way])), [[]]);
  return all.some((way) => answerOf(way) === answer);
}
