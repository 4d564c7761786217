/**
 * defineConfig: the agents and models of a pawl.config.ts, checked together. src/config-file.ts loads such a file; the
 * models' settings are for src/openai. Marked by a symbol of the registry, not by its class.
 */
import { type Agent, isAgent } from './agent.js';
import { Options } from './options.js';

/** How a model differs from what OpenAI's own take and cost. Left out: what its name says, or the provider's complaints. */
export interface ModelSettings {
  /** Left out: OPENAI_BASE_URL. */
  baseUrl?: string;
  /** The environment variable that holds the key, never the key itself. Left out: OPENAI_API_KEY. */
  apiKeyEnv?: string;
  /** Tokens a prompt may hold. */
  contextTokens?: number;
  priceUsdPerMTok?: { input: number; cachedInput?: number; output: number };
  dialect?: {
    maxTokensField?: 'max_tokens' | 'max_completion_tokens';
    temperature?: boolean;
    outputSchema?: 'json_schema' | 'words';
    echoReasoning?: boolean;
  };
}

export interface ConfigOptions {
  agents: readonly Agent[];
  models?: Readonly<Record<string, ModelSettings>>;
  /**
   * Finds facts by what they mean, and repeated calls in other words: the name of a model for `/embeddings`, whose address
   * and key stand in `models` as any other's do. Left out: words alone are compared.
   */
  embeddingModel?: string;
}

export interface Config {
  readonly agents: readonly Agent[];
  readonly models: ReadonlyMap<string, ModelSettings>;
  readonly embeddingModel: string | null;
}

const mark = Symbol.for('pawl.config');

export function isConfig(value: unknown): value is Config {
  return typeof value === 'object' && value !== null && mark in value;
}

export function defineConfig(options: ConfigOptions): Config {
  const config = Options.of('defineConfig', options);
  config.knowsOnly(['agents', 'models', 'embeddingModel']);
  const models = modelsOf(config.nested('models'));
  return Object.freeze({ [mark]: true, agents: agentsOf(config), models, embeddingModel: embeddingModelOf(config) });
}

function embeddingModelOf(config: Options): string | null {
  const { embeddingModel } = config.given;
  if (embeddingModel === undefined) return null;
  if (typeof embeddingModel !== 'string' || !/^\S{1,200}$/.test(embeddingModel))
    return config.refuse('embeddingModel', "a model's name, without spaces");
  return embeddingModel;
}

function agentsOf(config: Options): readonly Agent[] {
  const given = config.given.agents;
  if (!Array.isArray(given)) config.refuse('agents', 'a list of agents');
  const agents: Agent[] = [];
  for (const [index, agent] of (given as unknown[]).entries()) {
    if (!isAgent(agent)) config.fail(`agents[${index}] is not an agent; make it with defineAgent`);
    if (agents.some((other) => other.name === agent.name)) {
      config.fail(`two agents are named ${agent.name}; rename one`);
    }
    agents.push(agent);
  }
  return Object.freeze(agents);
}

function modelsOf(models: Options): ReadonlyMap<string, ModelSettings> {
  const settings = new Map<string, ModelSettings>();
  for (const [name, value] of Object.entries(models.given)) {
    settings.set(name, settingsOf(Options.of(`defineConfig: models["${name}"]`, value)));
  }
  return settings;
}

function settingsOf(model: Options): ModelSettings {
  model.knowsOnly(['baseUrl', 'apiKeyEnv', 'contextTokens', 'priceUsdPerMTok', 'dialect']);
  const { baseUrl, apiKeyEnv } = model.given;
  if (baseUrl !== undefined && (typeof baseUrl !== 'string' || !isHttpUrl(baseUrl))) {
    model.refuse('baseUrl', 'a URL with http: or https:');
  }
  if (apiKeyEnv !== undefined && (typeof apiKeyEnv !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(apiKeyEnv))) {
    // Not shown: people put the key itself here.
    model.fail('apiKeyEnv must be the name of an environment variable, such as DEEPSEEK_API_KEY, not the key');
  }
  const contextTokens = model.optionalInteger('contextTokens', 500, 100_000_000);
  return Object.freeze({
    ...(typeof baseUrl === 'string' ? { baseUrl } : {}),
    ...(typeof apiKeyEnv === 'string' ? { apiKeyEnv } : {}),
    ...(contextTokens === null ? {} : { contextTokens }),
    ...priceOf(model),
    ...dialectOf(model),
  });
}

function priceOf(model: Options): Pick<ModelSettings, 'priceUsdPerMTok'> {
  if (model.given.priceUsdPerMTok === undefined) return {};
  const price = model.nested('priceUsdPerMTok');
  price.knowsOnly(['input', 'cachedInput', 'output']);
  const input = price.optionalNumber('input', 0, 100_000) ?? price.refuse('input', 'a price');
  const output = price.optionalNumber('output', 0, 100_000) ?? price.refuse('output', 'a price');
  const cachedInput = price.optionalNumber('cachedInput', 0, 100_000) ?? input;
  return { priceUsdPerMTok: Object.freeze({ input, cachedInput, output }) };
}

function dialectOf(model: Options): Pick<ModelSettings, 'dialect'> {
  if (model.given.dialect === undefined) return {};
  const given = model.nested('dialect');
  given.knowsOnly(['maxTokensField', 'temperature', 'outputSchema', 'echoReasoning']);
  const dialect: ModelSettings['dialect'] = {};
  if (given.given.maxTokensField !== undefined) {
    dialect.maxTokensField = given.oneOf('maxTokensField', ['max_tokens', 'max_completion_tokens'], 'max_tokens');
  }
  if (given.given.outputSchema !== undefined) {
    dialect.outputSchema = given.oneOf('outputSchema', ['json_schema', 'words'], 'json_schema');
  }
  if (given.given.temperature !== undefined) dialect.temperature = given.boolean('temperature', true);
  if (given.given.echoReasoning !== undefined) dialect.echoReasoning = given.boolean('echoReasoning', false);
  return { dialect: Object.freeze(dialect) };
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
