/**
 * defineAgent: a named definition of instructions, model, tools and limits, checked when it is defined. Its version is a
 * hash of whatever the model is shown, so that a run stays with the definition it began with. Marked by a symbol of the
 * registry, not by its class. Next: tool.ts, config.ts, limits.ts for how the limits act.
 */
import { readAnswer } from './answer.js';
import { longestCycle } from './conduct.js';
import { describeThrown, PawlError } from './errors.js';
import { hash } from './hash.js';
import { instructInJson } from './json-calls.js';
import { type Language, languages } from './language.js';
import type { LoopRule } from './loop.js';
import { type Mode, type ModeOption, modeOf } from './mode.js';
import { Options } from './options.js';
import { updatePlanName, updatePlanTool } from './plan.js';
import { readOutputName, readOutputTool } from './read-output.js';
import { type Limits, onLimits, type Usage } from './run.js';
import { type CompiledSchema, compileSchema, type JsonSchema, type SchemaInput, type ValueOf } from './schema.js';
import { canonicalJson } from './storable.js';
import { type BusyThread, busyThreads } from './thread.js';
import { isTool, maxTimerMs, type Tool } from './tool.js';
import type { AgentListing } from './view.js';
import { replaceWords, type Words, wordNames, wordsOf } from './words.js';

export interface AgentOptions<Output extends SchemaInput | undefined = SchemaInput | undefined> {
  name: string;
  /** Left out: the model named by the environment. Of a list the first is preferred, the others are fallbacks in order. */
  model?: string | readonly string[];
  instructions: string;
  tools?: readonly Tool[];
  /** Of Pawl's own words to the model. */
  language?: Language;
  /** Replaces some of them; what each is given stands at its name in Words. */
  words?: Partial<Words>;
  /** The final answer must satisfy it: a zod schema or a JSON Schema object. */
  output?: Output;
  limits?: {
    maxSteps?: number;
    maxTurns?: number;
    deadlineMs?: number | null;
    maxTokens?: number | null;
    /** Kept where the price of the model is known. */
    maxCostUsd?: number | null;
    onLimit?: Limits['onLimit'];
  };
  /** What becomes of a run that is started while another of its thread is not at its end. */
  busyThread?: BusyThread;
  /** Tries of an LLM step, the first included, and the delays between them. */
  retry?: { attempts?: number; baseMs?: number; capMs?: number };
  llmTimeoutMs?: number;
  context?: {
    /** Left out: what the model holds. */
    windowTokens?: number | null;
    /** Shares of the window: above the first, history is cut down to the second. */
    compactAt?: number;
    compactTo?: number;
    /** The newest turns, kept while they fit. */
    keepTurns?: number;
    /** Whether turns are summed up, by a step of its own, before they are left out. */
    summary?: boolean;
    /** Facts that a run begins with, by relevance to its task. Left out: 10 where one of its tools says or recalls any. */
    facts?: number;
  };
  temperature?: number | null;
  maxOutputTokens?: number | null;
  /** Left out: a hash of what the model is shown. */
  version?: string;
  /** What is asked of the model beside its turns: nothing, a plan before the first, or judgements of its final answers. */
  mode?: ModeOption;
  /** `json`: for models without function calling; the tools are described in the instructions, and calls are JSON text. */
  toolCalling?: (typeof toolCallings)[number];
  /**
   * Judges a final answer that satisfies `output`: text is an objection, which is handed back to the model, at most 3 times in
   * a run together with those to `output`; the fourth ends the run with `invalid_output`. See numbersFromTools.
   */
  verify?: (answer: AnswerOf<Output>, look: AnswerLook) => string | undefined | Promise<string | undefined>;
  /** When a run that does not get on is stopped. */
  loop?: Partial<LoopRule>;
  /** Asked for each call of a turn that succeeded, before the model is: true ends the run with that result as its output. */
  stopWhen?: (look: StopLook) => boolean | Promise<boolean>;
}

/** The final answer: its value where the agent has an `output`, else its text. */
export type AnswerOf<Output> = Output extends SchemaInput ? ValueOf<Output> : string;

/** What a tool call came to. */
export interface ToolResult {
  name: string;
  arguments: unknown;
  /** What the model is told; for `verify` the whole, where the model was told a part. */
  text: string;
  /** The value of the text where it is JSON, else the text. */
  value: unknown;
}

/** What `stopWhen` is shown. */
export interface StopLook {
  lastToolResult: ToolResult;
  usage: Usage;
}

/** What `verify` is shown beside the answer. */
export interface AnswerLook {
  /** The run's input, as the model was given it. */
  task: string;
  /** Of all calls of the run so far, in order, also of those no longer sent to the model; `error`: the code of one that failed. */
  toolResults: readonly (ToolResult & { error: string | null })[];
  /** What the run began with beside its task: facts, and what the earlier runs of its thread were asked, got and answered. */
  known?: readonly string[];
  /** Of the agent. */
  language?: Language;
}

export interface Agent {
  readonly name: string;
  readonly version: string;
  /** The model's name; null until withDefaultModel gives it one. */
  readonly model: string | null;
  /** Tried in order when `model` cannot answer. */
  readonly fallbacks: readonly string[];
  readonly instructions: string;
  readonly tools: readonly Tool[];
  readonly language: Language;
  readonly words: Words;
  readonly outputSchema: JsonSchema | null;
  readonly toolCalling: (typeof toolCallings)[number];
  readonly mode: Mode;
  readonly limits: Limits;
  readonly retry: Readonly<{ attempts: number; baseMs: number; capMs: number }>;
  readonly busyThread: BusyThread;
  readonly llmTimeoutMs: number;
  readonly context: Readonly<{
    windowTokens: number | null;
    compactAt: number;
    compactTo: number;
    keepTurns: number;
    summary: boolean;
    facts: number;
  }>;
  readonly temperature: number | null;
  readonly maxOutputTokens: number | null;
  readonly loop: Readonly<LoopRule>;
  readonly stopWhen: ((look: StopLook) => unknown) | null;
  /** `answer` as `checkOutput` gave its value. May throw anything. */
  readonly verify: ((answer: unknown, look: AnswerLook) => unknown) | null;
  tool(name: string): Tool | undefined;
  /** Reads a final answer: `text` is what the run keeps as its output, `fault` what the model is told. Never throws. */
  checkOutput(answer: string): { ok: true; value: unknown; text: string } | { ok: false; fault: string };
  withDefaultModel(model: string): Agent;
  /** As registered in the database. */
  toListing(): AgentListing;
}

const mark = Symbol.for('pawl.agent');
const toolCallings = ['native', 'json'] as const;
const optionNames = [
  ...[
    'name',
    'model',
    'instructions',
    'tools',
    'language',
    'words',
    'output',
    'limits',
    'retry',
    'llmTimeoutMs',
    'context',
    'busyThread',
  ],
  ...['temperature', 'maxOutputTokens', 'version', 'mode', 'toolCalling', 'verify', 'loop', 'stopWhen'],
];
const yearMs = 366 * 24 * 3_600_000;
/** What the providers that state a limit take, read_output apart; an agent that plans has update_plan as well. */
const maxTools = 127;

export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && mark in value;
}

/** Defines an agent. Throws a PawlError that names the agent, the field and the fix. */
export function defineAgent<const Output extends SchemaInput | undefined = undefined>(
  options: AgentOptions<Output>,
): Agent {
  const given = Options.of('defineAgent', options).given;
  const name = new Options('an agent', given).name();
  const check = new Options(`agent "${name}"`, given);
  check.knowsOnly(optionNames);
  const mode = modeOf(check);
  const schema = outputSchemaOf(check);
  const language = check.oneOf('language', languages, 'en');
  const words = wordsIn(check.nested('words'), language);
  const tools = toolsOf(check, words, mode);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const definition = {
    [mark]: true,
    name,
    instructions: check.text('instructions', 1_000_000),
    tools,
    language,
    words,
    outputSchema: schema?.json ?? null,
    toolCalling: check.oneOf('toolCalling', toolCallings, 'native'),
    mode,
    limits: limitsOf(check.nested('limits')),
    retry: retryOf(check.nested('retry')),
    busyThread: check.oneOf('busyThread', busyThreads, 'wait'),
    llmTimeoutMs: check.integer('llmTimeoutMs', 120_000, 1, maxTimerMs),
    context: contextOf(check.nested('context'), tools),
    temperature: check.optionalNumber('temperature', 0, 2),
    maxOutputTokens: check.optionalInteger('maxOutputTokens', 1, 10_000_000),
    loop: loopOf(check.nested('loop')),
    stopWhen: functionOf(check, 'stopWhen') as Agent['stopWhen'],
    verify: functionOf(check, 'verify') as Agent['verify'],
    tool: (tool: string) => byName.get(tool),
    checkOutput: (answer: string) => readAnswer(schema, answer, words),
  };
  const [model = null, ...fallbacks] = modelsOf(check);
  return withModel({ ...definition, fallbacks }, model, versionOf(check));
}

type Definition = Omit<Agent, 'model' | 'version' | 'withDefaultModel' | 'toListing'>;

function withModel(definition: Definition, model: string | null, version: string | null): Agent {
  const agent: Agent = {
    ...definition,
    model,
    version: version ?? hashOf(definition, model),
    withDefaultModel: (byDefault) => (model === null ? withModel(definition, byDefault, version) : agent),
    toListing: () => listingOf(agent),
  };
  return Object.freeze(agent);
}

function hashOf(definition: Definition, model: string | null): string {
  const tools = definition.tools.map(({ name, description, parameters, effect }) => {
    return [name, description, canonicalJson(parameters), effect];
  });
  const { instructions, outputSchema, fallbacks, toolCalling, words, mode } = definition;
  const models = fallbacks.length === 0 ? model : [model, ...fallbacks];
  return hash([
    instructions,
    models,
    tools,
    outputSchema && canonicalJson(outputSchema),
    ...(toolCalling === 'native' ? [] : [instructInJson(definition, words)]),
    ...(mode.is === 'react' ? [] : [canonicalJson(mode)]),
  ]).slice(0, 16);
}

function listingOf(agent: Agent): AgentListing {
  if (agent.model === null) throw new PawlError('internal', `agent "${agent.name}" was never given its model`);
  return {
    name: agent.name,
    version: agent.version,
    model: agent.model,
    fallbacks: agent.fallbacks,
    language: agent.language,
    limits: agent.limits,
    llmTimeoutMs: agent.llmTimeoutMs,
    busyThread: agent.busyThread,
    llmAttempts: agent.retry.attempts,
    reserve: reserveOf(agent),
    price: null,
    tools: agent.tools.map(({ name, description, effect, effectDeclared }) => {
      return { name, description, effect, effectDeclared };
    }),
    registeredAt: null,
  };
}

/** Tokens of an answer that are reserved where the agent names no maximum. */
export const answerTokens = 1_000;

/** Of a first call without its task: what is always sent, roughly, and an answer. */
function reserveOf({ instructions, tools, maxOutputTokens }: Agent): AgentListing['reserve'] {
  const sent = [instructions, ...tools.map((tool) => JSON.stringify([tool.name, tool.description, tool.parameters]))];
  const bytes = sent.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return { inputTokens: Math.ceil(bytes / 3), outputTokens: maxOutputTokens ?? answerTokens };
}

function modelsOf(check: Options): string[] {
  const given = check.given.model;
  if (given === undefined) return [];
  const models: unknown[] = Array.isArray(given) ? given : [given];
  const named = models.filter((model) => typeof model === 'string' && /^\S{1,200}$/.test(model)) as string[];
  if (named.length === 0 || named.length < models.length) check.refuse('model', "a model's name, without spaces");
  const twice = named.find((model, index) => named.indexOf(model) < index);
  if (twice !== undefined) check.fail(`model names ${twice} twice; name each model once`);
  return named;
}

function toolsOf(check: Options, words: Words, mode: Mode): readonly Tool[] {
  const given = check.given.tools ?? [];
  if (!Array.isArray(given)) check.refuse('tools', 'a list of tools');
  const tools: Tool[] = [];
  for (const [index, tool] of (given as unknown[]).entries()) {
    if (!isTool(tool)) check.fail(`tools[${index}] is not a tool; make it with defineTool`);
    if (tools.some((other) => other.name === tool.name)) {
      check.fail(`tools holds two tools named ${tool.name}; rename one`);
    }
    if (tool.name === readOutputName || (tool.name === updatePlanName && mode.is === 'plan')) {
      check.fail(`tools[${index}] has the name of a tool of Pawl's own; rename it`);
    }
    tools.push(tool.describe === null ? tool : Object.freeze({ ...tool, description: tool.describe(words) }));
  }
  const most = mode.is === 'plan' ? maxTools - 1 : maxTools;
  if (tools.length > most) check.fail(`tools holds ${tools.length} tools; models take at most ${most}`);
  if (tools.length === 0) return Object.freeze([]);
  const readOutput = readOutputTool(words, tools);
  // Without a tool nothing can be found out that speaks against a plan.
  return Object.freeze([
    ...tools,
    readOutput,
    ...(mode.is === 'plan' ? [updatePlanTool(words, readOutput.queue)] : []),
  ]);
}

function outputSchemaOf(check: Options): CompiledSchema | null {
  const { output } = check.given;
  if (output === undefined) return null;
  try {
    return compileSchema(output, { refuseUndeclared: false });
  } catch (thrown) {
    return check.fail(`output cannot be used: ${describeThrown(thrown)}`);
  }
}

function versionOf(check: Options): string | null {
  const { version } = check.given;
  if (version === undefined) return null;
  if (typeof version !== 'string' || !/^[a-zA-Z0-9._-]{1,64}$/.test(version)) {
    check.refuse('version', '1 to 64 letters, digits, ., _ or -');
  }
  return version;
}

function limitsOf(limits: Options): Limits {
  limits.knowsOnly(['maxSteps', 'maxTurns', 'maxTokens', 'maxCostUsd', 'deadlineMs', 'onLimit']);
  return Object.freeze({
    maxSteps: limits.integer('maxSteps', 60, 1, 1_000_000),
    maxTurns: limits.integer('maxTurns', 25, 1, 1_000_000),
    maxTokens: limits.optionalInteger('maxTokens', 1, 1e12),
    maxCostUsd: limits.optionalNumber('maxCostUsd', 0.000001, 1e9),
    deadlineMs: limits.optionalInteger('deadlineMs', 1, yearMs),
    onLimit: limits.oneOf('onLimit', onLimits, 'finish'),
  });
}

function retryOf(retry: Options): Agent['retry'] {
  retry.knowsOnly(['attempts', 'baseMs', 'capMs']);
  const attempts = retry.integer('attempts', 4, 1, 100);
  const baseMs = retry.integer('baseMs', 1_000, 0, 3_600_000);
  const capMs = retry.integer('capMs', Math.max(60_000, baseMs), 0, 24 * 3_600_000);
  if (capMs < baseMs) retry.fail(`capMs (${capMs}) must not be below baseMs (${baseMs})`);
  return Object.freeze({ attempts, baseMs, capMs });
}

function loopOf(loop: Options): LoopRule {
  loop.knowsOnly(['identicalCalls', 'cycle', 'sameArguments', 'toolFailures', 'likeness']);
  return Object.freeze({
    identicalCalls: loop.integer('identicalCalls', 3, 2, 1_000),
    cycle: loop.integer('cycle', 4, 1, longestCycle),
    sameArguments: loop.integer('sameArguments', 10, 2, 10_000),
    toolFailures: loop.integer('toolFailures', 3, 1, 1_000),
    likeness: loop.optionalNumber('likeness', 0.5, 1) ?? 0.92,
  });
}

function wordsIn(given: Options, language: Language): Words {
  const names = Object.keys(given.given);
  if (names.length === 0) return wordsOf(language);
  given.knowsOnly(wordNames());
  for (const name of names) functionOf(given, name);
  return replaceWords(wordsOf(language), given.given);
}

function functionOf(check: Options, field: string): unknown {
  const given = check.given[field];
  if (given === undefined) return null;
  if (typeof given !== 'function') check.refuse(field, 'a function');
  return given;
}

/** A tool that says facts or, by its name, recalls them. */
const knowsFacts = ({ extractFacts, name }: Tool) => extractFacts !== null || name === 'recall';

function contextOf(context: Options, tools: readonly Tool[]): Agent['context'] {
  context.knowsOnly(['windowTokens', 'compactAt', 'compactTo', 'keepTurns', 'summary', 'facts']);
  const compactAt = context.optionalNumber('compactAt', 0.1, 1) ?? 0.8;
  const compactTo = context.optionalNumber('compactTo', 0.05, 1) ?? Math.min(0.5, compactAt * 0.625);
  if (compactTo >= compactAt) context.fail(`compactTo (${compactTo}) must be below compactAt (${compactAt})`);
  return Object.freeze({
    windowTokens: context.optionalInteger('windowTokens', 500, 100_000_000),
    compactAt,
    compactTo,
    keepTurns: context.integer('keepTurns', 4, 1, 1_000),
    summary: context.boolean('summary', true),
    facts: context.integer('facts', tools.some(knowsFacts) ? 10 : 0, 0, 100),
  });
}
