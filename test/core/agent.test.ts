import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type AgentOptions, defineAgent, isAgent } from '../../src/core/agent.js';
import { type ConfigOptions, defineConfig, isConfig } from '../../src/core/config.js';
import { PawlError } from '../../src/core/errors.js';
import { defineTool } from '../../src/core/tool.js';
import { wordsOf } from '../../src/core/words.js';

const search = defineTool({
  name: 'search',
  description: 'Searches',
  input: z.object({ q: z.string() }),
  execute: () => null,
});
const base = { name: 'analyst', model: 'gpt-4o-mini', instructions: 'Analyse.', tools: [search] };

function refusal(define: () => unknown): PawlError {
  try {
    define();
  } catch (thrown) {
    if (thrown instanceof PawlError) return thrown;
    throw thrown;
  }
  throw new Error('nothing was refused');
}

describe('defineAgent', () => {
  it('fills the documented defaults', () => {
    const agent = defineAgent({ name: 'a', instructions: 'x' });
    expect(agent).toMatchObject({
      model: null,
      fallbacks: [],
      tools: [],
      limits: { maxSteps: 60, maxTurns: 25, maxTokens: null, maxCostUsd: null, deadlineMs: null, onLimit: 'finish' },
      retry: { attempts: 4, baseMs: 1_000, capMs: 60_000 },
      llmTimeoutMs: 120_000,
      context: { windowTokens: null, compactAt: 0.8, compactTo: 0.5, keepTurns: 4, summary: true, facts: 0 },
      temperature: null,
      maxOutputTokens: null,
      outputSchema: null,
      loop: { identicalCalls: 3, cycle: 4, sameArguments: 10, toolFailures: 3, likeness: 0.92 },
      stopWhen: null,
      verify: null,
    });
    expect(isAgent(agent)).toBe(true);
    expect(agent.words).toBe(wordsOf('en'));
  });

  it.each<[string, object, RegExp]>([
    ['a name with a space', { name: 'my agent' }, /an agent: name must be 1 to 64 letters.*"my agent"/],
    ['no instructions', { instructions: '' }, /agent "analyst": instructions must be text/],
    ['an unknown option', { instruction: 'x' }, /no option instruction \(did you mean instructions\?\)/],
    [
      'an unknown limit',
      { limits: { maxStep: 3 } },
      /agent "analyst": limits: there is no option maxStep \(did you mean maxSteps\?\)/,
    ],
    ['limits that are a number', { limits: 5 }, /limits must be an object of options, not 5 \(number\)/],
    ['no steps', { limits: { maxSteps: 0 } }, /limits: maxSteps must be a whole number from 1/],
    ['a deadline in the past', { limits: { deadlineMs: -1 } }, /limits: deadlineMs/],
    ['a budget of nothing', { limits: { maxTokens: 0 } }, /limits: maxTokens must be a whole number from 1/],
    ['a cost below nothing', { limits: { maxCostUsd: -1 } }, /limits: maxCostUsd must be a number from/],
    ['an unknown onLimit', { limits: { onLimit: 'stop' } }, /'finish', 'fail', 'suspend', not "stop"/],
    [
      'text for a number',
      { retry: { attempts: '4' } },
      /retry: attempts must be a whole number from 1 to 100, not "4" \(string\)/,
    ],
    ['a cap below the base', { retry: { baseMs: 100, capMs: 50 } }, /capMs \(50\) must not be below baseMs \(100\)/],
    [
      'a target above its threshold',
      { context: { compactTo: 0.9 } },
      /compactTo \(0.9\) must be below compactAt \(0.8\)/,
    ],
    ['a loop of one call', { loop: { identicalCalls: 1 } }, /loop: identicalCalls must be a whole number from 2/],
    ['a longer cycle than is kept', { loop: { cycle: 9 } }, /loop: cycle must be a whole number from 1 to 8/],
    ['an unknown rule', { loop: { failures: 9 } }, /loop: there is no option failures/],
    ['a stopWhen that is none', { stopWhen: 'done' }, /stopWhen must be a function, not "done"/],
    ['a verify that is none', { verify: true }, /verify must be a function, not true/],
    ['another tool calling', { toolCalling: 'xml' }, /toolCalling must be one of 'native', 'json', not "xml"/],
    ['a word there is not', { words: { cute: () => '' } }, /words: there is no option cute \(did you mean cut\?\)/],
    ['a word that is no function', { words: { cut: '…' } }, /words: cut must be a function, not "…"/],
    ['a hot temperature', { temperature: 3 }, /temperature must be a number from 0 to 2/],
    ['a model twice', { model: ['a', 'b', 'a'] }, /model names a twice; name each model once/],
    ['a blank model', { model: ' ' }, /model must be a model's name/],
    ['no models', { model: [] }, /model must be a model's name, without spaces, not an empty array/],
    ['a tool that is none', { tools: [search, { name: 'x' }] }, /tools\[1\] is not a tool; make it with defineTool/],
    ['two tools of one name', { tools: [search, search] }, /two tools named search; rename one/],
    [
      'a tool named as one of its own',
      { tools: [defineTool({ name: 'read_output', description: 'x', execute: () => 0 })] },
      /tools\[0\] has the name of a tool of Pawl's own; rename it/,
    ],
    ['an output that is no object', { output: z.string() }, /output cannot be used: its root must be an object/],
    ['another mode', { mode: 'think' }, /mode must be 'react', 'plan' or \{ reflect: \{ rounds, criteria \} \}/],
    ['an empty mode', { mode: {} }, /mode: give it reflect: \{ rounds, criteria \}/],
    ['two modes', { mode: { reflect: { criteria: 'x' }, plan: true } }, /mode: there is no option plan/],
    ['no criteria', { mode: { reflect: { criteria: ' ' } } }, /mode: reflect: criteria must be text that is not empty/],
    [
      'long criteria',
      { mode: { reflect: { criteria: 'x'.repeat(4_001) } } },
      /criteria has 4001 characters; at most 4000/,
    ],
    ['no rounds', { mode: { reflect: { criteria: 'x', rounds: 0 } } }, /rounds must be a whole number from 1 to 5/],
    ['six rounds', { mode: { reflect: { criteria: 'x', rounds: 6 } } }, /rounds must be a whole number from 1 to 5/],
    [
      'a tool named as the one that replaces plans',
      { mode: 'plan', tools: [defineTool({ name: 'update_plan', description: 'x', execute: () => 0 })] },
      /tools\[0\] has the name of a tool of Pawl's own; rename it/,
    ],
    ['another language', { language: 'de' }, /language must be one of 'en', 'zh'/],
    ['a long version', { version: 'v 1' }, /version must be/],
  ])('refuses %s and says what to do', (_, change, message) => {
    const error = refusal(() => defineAgent({ ...base, ...change } as AgentOptions));
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(message);
  });

  it('refuses what is no object at all', () => {
    expect(refusal(() => defineAgent(undefined as unknown as AgentOptions)).message).toContain('not nothing');
  });

  it('finds its tools by name, and none that only every object has', () => {
    const agent = defineAgent(base);
    expect(agent.tool('search')).toBe(search);
    for (const name of ['constructor', '__proto__', 'Search', '']) expect(agent.tool(name)).toBeUndefined();
  });
});

describe('the version of an agent', () => {
  const version = (change: object = {}) => defineAgent({ ...base, ...change }).version;

  it('is the same in every process and changes with whatever the model is shown', () => {
    expect(version()).toBe('a1b8d25cd4d02635');
    const tool = { name: 'search', description: 'Searches', input: z.object({ q: z.string() }), execute: () => null };
    const changes = [
      { instructions: 'Analyse!' },
      { model: 'gpt-4o' },
      { model: ['gpt-4o-mini', 'gpt-4o'] },
      { tools: [] },
      { tools: [defineTool({ ...tool, name: 'find' })] },
      { tools: [defineTool({ ...tool, description: 'Finds' })] },
      { tools: [defineTool({ ...tool, effect: 'idempotent' })] },
      { tools: [defineTool({ ...tool, input: z.object({ q: z.number() }) })] },
      { toolCalling: 'json' as const },
      { mode: 'plan' as const },
      { tools: [], mode: 'plan' as const },
      { mode: { reflect: { criteria: 'brief' } } },
      { mode: { reflect: { criteria: 'brief', rounds: 2 } } },
      { output: z.object({ a: z.string() }) },
      { output: z.object({ a: z.number() }) },
    ];
    expect(new Set([version(), ...changes.map(version)]).size).toBe(changes.length + 1);
    expect(version({ tools: [defineTool(tool)] })).toBe(version());
    expect(version({ mode: 'react' })).toBe(version());
  });

  it('does not change with what it may spend', () => {
    expect(version({ limits: { maxSteps: 5 }, retry: { attempts: 2 } })).toBe(version());
  });

  it('is the one given, where one is', () => {
    expect(version({ version: '2024-06' })).toBe('2024-06');
  });

  it('counts the model the environment gave', () => {
    const { model: _, ...open } = base;
    const agent = defineAgent(open);
    expect(agent.withDefaultModel('gpt-4o-mini').version).toBe(version());
    expect(agent.withDefaultModel('gpt-4o').version).not.toBe(version());
    expect(defineAgent(base).withDefaultModel('gpt-4o').model).toBe('gpt-4o-mini');
  });
});

describe('an agent as registered', () => {
  it('lists its limits and the effects of its tools', () => {
    const agent = defineAgent(base);
    expect(agent.toListing()).toEqual({
      name: 'analyst',
      version: agent.version,
      model: 'gpt-4o-mini',
      fallbacks: [],
      language: 'en',
      limits: { maxSteps: 60, maxTurns: 25, maxTokens: null, maxCostUsd: null, deadlineMs: null, onLimit: 'finish' },
      llmTimeoutMs: 120_000,
      busyThread: 'wait',
      llmAttempts: 4,
      reserve: { inputTokens: expect.any(Number), outputTokens: 1_000 },
      price: null,
      tools: [
        { name: 'search', description: 'Searches', effect: 'none', effectDeclared: false },
        { name: 'read_output', description: expect.any(String), effect: 'none', effectDeclared: true },
      ],
      registeredAt: null,
    });
  });
});

describe('a final answer', () => {
  const agent = defineAgent({
    ...base,
    output: z.object({ best: z.iso.date(), total: z.number().default(0), days: z.array(z.string()).optional() }),
  });

  it('is its text where there is no output schema', () => {
    expect(defineAgent(base).checkOutput('Done.\0')).toEqual({ ok: true, value: 'Done.\ufffd', text: 'Done.\ufffd' });
  });

  it('is JSON that fits, with defaults filled, whether in a code fence or not', () => {
    const read = { ok: true, value: { best: '2024-01-02', total: 0 }, text: '{"best":"2024-01-02","total":0}' };
    expect(agent.checkOutput('{"best":"2024-01-02"}')).toEqual(read);
    expect(agent.checkOutput('\n```json\n{"best":"2024-01-02"}\n```\n')).toEqual(read);
    expect(agent.checkOutput('{"best":"2024-01-02","extra":1}')).toEqual(read);
  });

  it('is objected to where it is not JSON or does not fit, by path', () => {
    const fault = (answer: string) => {
      const checked = agent.checkOutput(answer);
      return checked.ok ? 'accepted' : checked.fault;
    };
    expect(fault('The best day was Monday.')).toContain('is not JSON');
    expect(fault('')).toContain('is not JSON');
    expect(fault('{"best":"2024-01-02","days":[1]}')).toContain('- days[0]: expected string; got 1 (number)');
    expect(fault('{"best":"soon"}')).toMatch(/- best: expected text that matches .*; got "soon" \(string\)/);
    expect(fault('[]')).toContain('- the answer: expected object; got an empty array');
  });
});

describe('defineConfig', () => {
  const agents = [defineAgent(base)];

  it('keeps agents and the settings of models', () => {
    const price = { input: 0.27, output: 1.1 };
    const config = defineConfig({
      agents,
      models: {
        'deepseek-chat': {
          baseUrl: 'https://api.example.com/v1',
          apiKeyEnv: 'DEEPSEEK_API_KEY',
          priceUsdPerMTok: price,
        },
      },
    });
    expect(isConfig(config)).toBe(true);
    expect(config.agents).toEqual(agents);
    expect(config.embeddingModel).toBeNull();
    expect(defineConfig({ agents, embeddingModel: 'vectors-1' }).embeddingModel).toBe('vectors-1');
    expect(config.models.get('deepseek-chat')).toEqual({
      baseUrl: 'https://api.example.com/v1',
      apiKeyEnv: 'DEEPSEEK_API_KEY',
      priceUsdPerMTok: { input: 0.27, cachedInput: 0.27, output: 1.1 },
    });
  });

  it.each<[string, unknown, RegExp]>([
    ['two agents of one name', { agents: [...agents, ...agents] }, /two agents are named analyst; rename one/],
    ['no list of agents', {}, /agents must be a list of agents, not nothing/],
    ['an agent that is none', { agents: [base] }, /agents\[0\] is not an agent; make it with defineAgent/],
    ['an embedding model without a name', { agents, embeddingModel: '' }, /embeddingModel must be a model's name/],
    ['an unknown key', { agents, model: {} }, /no option model \(did you mean models\?\)/],
    [
      'a base URL without a scheme',
      { agents, models: { m: { baseUrl: 'localhost:80' } } },
      /models\["m"\]: baseUrl must be a URL/,
    ],
    [
      'a price of text',
      { agents, models: { m: { priceUsdPerMTok: { input: '1', output: 1 } } } },
      /priceUsdPerMTok: input must be a number/,
    ],
    [
      'half a price',
      { agents, models: { m: { priceUsdPerMTok: { input: 1 } } } },
      /priceUsdPerMTok: output must be a price/,
    ],
    [
      'an unknown dialect',
      { agents, models: { m: { dialect: { outputSchema: 'xml' } } } },
      /outputSchema must be one of/,
    ],
    ['nothing', null, /takes an object of options, not null/],
  ])('refuses %s', (_, options, message) => {
    const error = refusal(() => defineConfig(options as ConfigOptions));
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(message);
  });

  it('never shows a key that stands where the name of its variable belongs', () => {
    const { message } = refusal(() => defineConfig({ agents, models: { m: { apiKeyEnv: 'sk-secret-123' } } }));
    expect(message).toContain('not the key');
    expect(message).not.toContain('secret');
  });
});
