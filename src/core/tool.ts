/**
 * defineTool: what a model may ask for, checked when it is defined, so that a wrong tool stops the worker at its start and
 * not a run at night. A tool is marked by a symbol of the registry, not by its class: a config may load its own copy of this
 * file. Next: arguments.ts for what happens to a call's arguments, agent.ts for who uses tools.
 */
import { type ParsedArguments, parseArguments } from './arguments.js';
import { describeThrown } from './errors.js';
import type { Fact, KnownFact } from './fact.js';
import { Options } from './options.js';
import { longestTrialMs, type OutageRule } from './outage.js';
import { canonicalWithout, splitReasoning, withReasoning } from './reasoning.js';
import { type CompiledSchema, compileSchema, type JsonSchema, type SchemaInput, type ValueOf } from './schema.js';
import { type Effect, effects } from './step.js';
import { type Words, wordsOf } from './words.js';

export { notStarted, permissionDenied, readToolMark } from './tool-answer.js';

/** What a tool is told beside its arguments. */
export interface ToolContext {
  runId: string;
  stepSeq: number;
  /** Counted from 1. */
  attempt: number;
  /** The same for each attempt of this call, and of this call only. */
  idempotencyKey: string;
  /** Aborted at the call's timeout, when its run ends, and at shutdown. */
  signal: AbortSignal;
  log: ToolLog;
  tenant: string | null;
  threadId: string | null;
  /** Facts that the run may see, the most relevant first. A call that recalls says no facts itself (`extractFacts`). */
  recall(query: string, most: number): Promise<KnownFact[]>;
  /** What the model said for this call, where the tool demands a `reasoning`. */
  reasoning?: unknown;
}

interface ToolLog {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** A `once` call whose fate is not known, as `onUnknown` sees it. It may be asked more than once. */
export interface UnknownCall<Args = unknown> {
  args: Args;
  context: ToolContext;
}

/** What `onUnknown` found out: it happened (with its result), it failed, or one of the two fixed policies. */
export type UnknownAnswer = 'ask' | 'tell' | { done: unknown } | { failed: string };

export type OnUnknown<Args = unknown> =
  | 'ask'
  | 'tell'
  | ((call: UnknownCall<Args>) => UnknownAnswer | Promise<UnknownAnswer>);

/** A call as `extractFacts` sees it. */
export interface FactCall<Args = unknown> {
  name: string;
  args: Args;
  tenant: string | null;
  threadId: string | null;
}

type NoInput = Record<string, never>;

type ReasoningOf<R> = R extends SchemaInput ? ValueOf<R> : undefined;

export interface ToolOptions<
  Input extends SchemaInput = SchemaInput,
  Reasoning extends SchemaInput | undefined = SchemaInput | undefined,
> {
  name: string;
  description: string;
  /** A zod schema or a JSON Schema object; left out: the tool takes no arguments. */
  input?: Input;
  /** `none` (safe to repeat; the default), `idempotent` (repeat with the same key), `once` (never repeat). */
  effect?: Effect;
  /** Only with `once`: who says what became of a call that was interrupted. */
  onUnknown?: OnUnknown<ValueOf<Input>>;
  timeoutMs?: number;
  /** Characters of the result that the model sees; the whole is kept aside. */
  maxOutputChars?: number;
  /** Tries, the first included. */
  attempts?: number;
  /** A queue of its own for this tool, served by workers that name it. */
  pool?: string;
  /** Calls within one turn run one after the other, in the model's order. */
  sequential?: boolean;
  execute: (args: ValueOf<Input>, context: ToolContext) => unknown;
  /**
   * When calls of several runs fail, the tool is taken for out of order, and but for a trial from time to time it is not called:
   * after `failures` (10) calls within `windowMs` (a minute), at least half of all, until a trial succeeds, the first after
   * `trialMs` (30 s). False: never.
   */
  outage?: false | Partial<OutageRule>;
  /** Calls that one run may make. */
  maxCalls?: number;
  /**
   * Only with `none`: for so long a result is given again, by any worker, to a call with the same arguments, for the same
   * tenant and version of the agent. 0, the default: each call is executed.
   */
  cacheMs?: number;
  /**
   * Looks at the arguments before the tool acts: text is an objection, which the model gets in place of a result. Asked at
   * each attempt; what it throws counts as a throw of the tool.
   */
  check?: (
    args: ValueOf<Input>,
    context: ToolContext & { reasoning: ReasoningOf<Reasoning> },
  ) => string | undefined | Promise<string | undefined>;
  /**
   * What the model has to give beside the arguments of each call, for `check` to judge: a zod schema or a JSON Schema object. It
   * is no argument: calls that differ in nothing else are the same call.
   */
  reasoning?: Reasoning;
  /** Asked once a call has returned: facts that outlive the run. What it throws is logged, and there are none. */
  extractFacts?: (call: FactCall<ValueOf<Input>>, result: unknown) => readonly Fact[] | Promise<readonly Fact[]>;
  /** Not built in this version: */
  approval?: undefined | false;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly effect: Effect;
  readonly effectDeclared: boolean;
  /** Pawl's own, which the worker carries out itself. */
  readonly builtIn: boolean;
  /** The description in an agent's language, of a tool of Pawl's own that users name; null: there is but the one. */
  readonly describe: ((words: Words) => string) | null;
  readonly onUnknown: OnUnknown;
  readonly timeoutMs: number;
  readonly maxOutputChars: number;
  readonly attempts: number;
  /** `tool`, or the name of the tool's pool. */
  readonly queue: string;
  readonly sequential: boolean;
  /** Null: any number. */
  readonly maxCalls: number | null;
  /** 0: results are not kept. */
  readonly cacheMs: number;
  /** Null: it is called whatever becomes of its calls. */
  readonly outage: Readonly<OutageRule> | null;
  /** JSON Schema of the arguments, as a model is shown it. */
  readonly parameters: JsonSchema;
  /** Reads arguments as a model wrote them. Never throws. */
  parse(argumentsText: string, words?: Words): ParsedArguments;
  /** `args` as `parse` gave them. Null: nothing is checked. May throw anything. */
  readonly check: ((args: unknown, context: ToolContext) => unknown) | null;
  /** Null: a call says no facts. May throw anything. */
  readonly extractFacts: ((call: FactCall, result: unknown) => unknown) | null;
  /** `args` as `parse` gave them. May throw anything. */
  execute(args: unknown, context: ToolContext): unknown;
}

const mark = Symbol.for('pawl.tool');
const optionNames = [
  ...['name', 'description', 'input', 'effect', 'onUnknown', 'timeoutMs', 'maxOutputChars', 'attempts', 'pool'],
  ...['sequential', 'execute', 'approval', 'cacheMs', 'maxCalls', 'check', 'reasoning', 'outage', 'extractFacts'],
];
/** The longest time a Node timer holds. */
export const maxTimerMs = 2_147_483_647;
const yearMs = 366 * 24 * 3_600_000;
/** Of the limits of providers the lowest is 1,024. */
const maxDescriptionChars = 1_000;

export function isTool(value: unknown): value is Tool {
  return typeof value === 'object' && value !== null && mark in value;
}

/** Defines a tool. Throws a PawlError that names the tool, the field and the fix. */
export function defineTool<
  const Input extends SchemaInput = NoInput,
  const Reasoning extends SchemaInput | undefined = undefined,
>(options: ToolOptions<Input, Reasoning>): Tool {
  const check = Options.of('defineTool', options);
  const name = new Options('a tool', check.given).name();
  const tool = new Options(`tool "${name}"`, check.given);
  tool.knowsOnly(optionNames);
  tool.notBuilt('approval', (value) => value === false);
  const effect = tool.oneOf('effect', effects, 'none');
  const schema = schemaOf(tool);
  const { execute } = options;
  if (typeof execute !== 'function') tool.refuse('execute', 'a function');
  return Object.freeze({
    [mark]: true,
    name,
    description: tool.text('description', maxDescriptionChars),
    effect,
    effectDeclared: options.effect !== undefined,
    builtIn: false,
    describe: null,
    onUnknown: onUnknownOf(tool, effect) as OnUnknown,
    timeoutMs: tool.integer('timeoutMs', 30_000, 1, maxTimerMs),
    maxOutputChars: tool.integer('maxOutputChars', 4_000, 100, 1_000_000),
    attempts: attemptsOf(tool, effect),
    queue: queueOf(tool),
    sequential: tool.boolean('sequential', false),
    maxCalls: tool.optionalInteger('maxCalls', 1, 1_000_000),
    cacheMs: cacheMsOf(tool, effect),
    outage: outageOf(tool),
    check: checkOf(tool),
    extractFacts: extractFactsOf(tool),
    parameters: schema.json,
    parse: (text: string, words: Words = wordsOf('en')) => {
      const parsed = parseArguments(name, schema, text, words);
      if (!parsed.ok || options.reasoning === undefined) return parsed;
      const { ok, text: read, args } = parsed;
      return { ok, text: read, ...splitReasoning(args), canonical: canonicalWithout(read) };
    },
    // `parse` is the only maker of args, and the schema's type is theirs.
    execute: (args: unknown, context: ToolContext) => execute(args as ValueOf<Input>, context),
  });
}

function schemaOf(tool: Options): CompiledSchema {
  const { input = { type: 'object', properties: {} }, reasoning } = tool.given;
  const schema = compiled(tool, 'input', () => compileSchema(input, { refuseUndeclared: true }));
  if (reasoning === undefined) return schema;
  return compiled(tool, 'reasoning', () => withReasoning(schema, compileSchema(reasoning, { refuseUndeclared: true })));
}

function compiled(tool: Options, field: string, compile: () => CompiledSchema): CompiledSchema {
  try {
    return compile();
  } catch (thrown) {
    return tool.fail(`${field} cannot be used: ${describeThrown(thrown)}`);
  }
}

function attemptsOf(tool: Options, effect: Effect): number {
  const attempts = tool.integer('attempts', effect === 'once' ? 1 : 3, 1, 100);
  if (effect === 'once' && attempts > 1) {
    tool.fail(`attempts is ${attempts}, but a tool with effect 'once' is never repeated: leave attempts out`);
  }
  return attempts;
}

function cacheMsOf(tool: Options, effect: Effect): number {
  const cacheMs = tool.integer('cacheMs', 0, 0, yearMs);
  if (cacheMs > 0 && effect !== 'none') {
    tool.fail(
      `cacheMs is only for effect 'none', and the effect is '${effect}': a call with an effect is never left out`,
    );
  }
  return cacheMs;
}

function outageOf(tool: Options): OutageRule | null {
  if (tool.given.outage === false) return null;
  const outage = tool.nested('outage');
  outage.knowsOnly(['failures', 'windowMs', 'trialMs']);
  return Object.freeze({
    failures: outage.integer('failures', 10, 3, 1_000_000),
    windowMs: outage.integer('windowMs', 60_000, 1_000, 24 * 3_600_000),
    trialMs: outage.integer('trialMs', 30_000, 1, longestTrialMs),
  });
}

function onUnknownOf(tool: Options, effect: Effect): unknown {
  const given = tool.given.onUnknown;
  if (given === undefined) return 'ask';
  if (effect !== 'once') tool.fail(`onUnknown is only for effect 'once', and the effect is '${effect}': leave it out`);
  if (given !== 'ask' && given !== 'tell' && typeof given !== 'function') {
    tool.refuse('onUnknown', "'ask', 'tell' or a function");
  }
  return given;
}

function checkOf(tool: Options): Tool['check'] {
  const { check } = tool.given;
  if (check === undefined) return null;
  if (typeof check !== 'function') tool.refuse('check', 'a function');
  return check as Tool['check'];
}

function extractFactsOf(tool: Options): Tool['extractFacts'] {
  const { extractFacts } = tool.given;
  if (extractFacts === undefined) return null;
  if (typeof extractFacts !== 'function') tool.refuse('extractFacts', 'a function');
  return extractFacts as Tool['extractFacts'];
}

function queueOf(tool: Options): string {
  const { pool } = tool.given;
  if (pool === undefined) return 'tool';
  if (typeof pool !== 'string' || !/^[a-z][a-z0-9-]{0,39}$/.test(pool)) {
    tool.refuse('pool', 'a lower-case letter and up to 39 lower-case letters, digits or -');
  }
  if (pool === 'llm' || pool === 'tool') tool.fail(`pool must not be ${pool}, a queue Pawl has itself`);
  return pool;
}
