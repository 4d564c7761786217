/**
 * From settings to running parts, for the commands: which database (the one given, or the embedded one in `.pawl/` beside
 * the config), which agents, which model provider. The wiring itself is in app.ts.
 */
import { dirname, join } from 'node:path';
import { type Client, openClient, startWorkerProcess, type WorkerProcess } from './app.js';
import { resolveModels, type Settings } from './config.js';
import { findConfigFile, type LoadedConfig, loadConfigFile } from './config-file.js';
import { describeThrown, PawlError } from './core/errors.js';
import { demoDatabase, findingDemoRuns } from './demo/look-further.js';
import { databaseOf } from './embedded/fresh-database.js';
import type { EmbeddedPostgres } from './embedded/start.js';
import type { Runs } from './engine/runs.js';
import type { HttpServer } from './http/server.js';
import type { OpenAiSettings } from './openai/llm.js';
import type { Embedder, Llm, Log } from './ports.js';
import { migrate } from './postgres/migrate.js';

export interface App {
  runs: Runs;
  database: { kind: 'embedded' | 'given'; started: boolean };
  queueKind: 'redis' | 'postgres';
  close(): Promise<void>;
}

export interface Database {
  url: string;
  kind: 'embedded' | 'given';
  /** The embedded server was started here, and is stopped here unless others use it. */
  started: boolean;
  close(): Promise<void>;
}

/**
 * The database of a command. An embedded one is private to its folder, so it is migrated wherever it is opened; one that
 * was given only where `migrate` says so.
 */
export async function openDatabase(
  settings: Settings,
  log: Log,
  options: { migrate?: boolean } = {},
): Promise<Database> {
  const given = settings.databaseUrl;
  if (given !== null) {
    if (options.migrate === true) await migrate(given);
    return { url: given, kind: 'given', started: false, close: async () => {} };
  }
  const embedded = await openEmbedded(settings, log);
  try {
    await migrate(embedded.url);
  } catch (error) {
    await embedded.stop();
    throw error;
  }
  return { url: embedded.url, kind: 'embedded', started: embedded.started, close: () => embedded.stop() };
}

async function openEmbedded(settings: Settings, log: Log): Promise<EmbeddedPostgres> {
  const { startEmbedded } = await import('./embedded/start.js');
  return startEmbedded({ dir: pawlDir(settings), log: (message) => log.info({}, message), revive: true });
}

/** Where the embedded Postgres and the demo's files live: beside the config, or where the command was given. */
export function pawlDir(settings: Settings): string {
  const configFile = findConfigFile(settings.configFile, process.cwd());
  return join(configFile === null ? process.cwd() : dirname(configFile), '.pawl');
}

export async function openApp(settings: Settings, log: Log, options: { migrate?: boolean } = {}): Promise<App> {
  const database = await openDatabase(settings, log, options);
  try {
    const services = { databaseUrl: database.url, redisUrl: settings.redisUrl, log };
    const main = await openClient(services);
    const openDemo = () => openClient({ ...services, databaseUrl: databaseOf(database.url, demoDatabase) });
    const client = database.kind === 'given' ? main : findingDemoRuns(main, openDemo);
    return {
      runs: client.runs,
      database,
      queueKind: client.queueKind,
      async close() {
        await client.close();
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}

export async function migrateDatabase(settings: Settings, log: Log): Promise<{ applied: string[] }> {
  if (settings.databaseUrl !== null) return migrate(settings.databaseUrl);
  const embedded = await openEmbedded(settings, log);
  try {
    return await migrate(embedded.url);
  } finally {
    await embedded.stop();
  }
}

export interface RunningRole {
  agents: readonly string[];
  queueKind: 'redis' | 'postgres';
  stop(): Promise<void>;
  stopped: Promise<void>;
}

/** A worker of the config's agents, of the role given; the maintenance role needs no config. */
export async function runWorker(
  settings: Settings,
  role: 'all' | 'steps' | 'maintenance',
  log: Log,
): Promise<RunningRole> {
  const config = await loadAgents(settings, role);
  if (config !== null) refuseMissingKey(settings, config);
  const llm = await createLlm(settings, config, log);
  const embedder = await createEmbedder(settings, config, log);
  nameUndeclaredEffects(config, log);
  const database = await openDatabase(settings, log);
  let worker: WorkerProcess;
  try {
    worker = await startWorkerProcess({
      databaseUrl: database.url,
      redisUrl: settings.redisUrl,
      log,
      role,
      agents: config?.agents ?? [],
      llm,
      embedder,
      concurrency: settings.concurrency,
      queues: settings.queues,
      heartbeatMs: settings.heartbeatMs,
      deathMs: settings.deathMs,
    });
  } catch (error) {
    await database.close();
    throw error;
  }
  surviveStrayRejections(log);
  let end = () => {};
  const stopped = new Promise<void>((resolve) => {
    end = resolve;
  });
  let stopping: Promise<void> | null = null;
  async function stop(): Promise<void> {
    log.info({ withinMs: settings.shutdownMs }, 'stopping: claiming nothing more');
    await worker.stop(settings.shutdownMs);
    await database.close();
    log.info({}, 'stopped');
    end();
  }
  return {
    agents: (config?.agents ?? []).map((agent) => agent.name),
    queueKind: worker.queueKind,
    stop() {
      stopping ??= stop();
      return stopping;
    },
    stopped,
  };
}

export interface RunningServer {
  url: string;
  /** Whether callers must bring PAWL_API_KEY. */
  asksForKey: boolean;
  queueKind: 'redis' | 'postgres';
  stop(): Promise<void>;
  stopped: Promise<void>;
}

/** The HTTP server. Without a config it shows the queues that every deployment has, and not those of tool pools. */
export async function runServer(settings: Settings, log: Log): Promise<RunningServer> {
  const [{ queuesPath, startServer }, { refuseOpenDoor }] = await Promise.all([
    import('./http/server.js'),
    import('./http/guard.js'),
  ]);
  const { host, port, apiKey } = settings;
  refuseOpenDoor(host, apiKey);
  const pools = await poolsOf(settings);
  const database = await openDatabase(settings, log);
  let client: Client | null = null;
  try {
    client = await openClient({ databaseUrl: database.url, redisUrl: settings.redisUrl, log });
    const { runs, ping: ready } = client;
    const linkOf = (runId: string) => (runId === '' ? '/v1/runs' : `/v1/runs/${encodeURIComponent(runId)}`);
    const board = await client.board({ queues: ['llm', 'tool', ...pools], basePath: queuesPath, linkOf });
    const server = await startServer({ host, port, apiKey, runs, board, ready, log });
    return { url: server.url, asksForKey: apiKey !== null, ...endingOnce(client, server, database) };
  } catch (error) {
    await client?.close();
    await database.close();
    throw error;
  }
}

function endingOnce(client: Client, server: HttpServer, database: Database) {
  let stopping: Promise<void> | null = null;
  let end = () => {};
  const stopped = new Promise<void>((resolve) => {
    end = resolve;
  });
  const stop = async (): Promise<void> => {
    await server.close();
    await client.close();
    await database.close();
    end();
  };
  return {
    queueKind: client.queueKind,
    stopped,
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** Queues of the config's tool pools; none where there is no config. */
async function poolsOf(settings: Settings): Promise<string[]> {
  const file = findConfigFile(settings.configFile, process.cwd());
  if (file === null) return [];
  const { agents } = await loadConfigFile(file, { defaultModel: settings.openai.model });
  const queues = new Set(agents.flatMap((agent) => agent.tools.map((tool) => tool.queue)));
  return [...queues].filter((name) => name !== 'tool' && name !== 'llm');
}

async function loadAgents(settings: Settings, role: 'all' | 'steps' | 'maintenance'): Promise<LoadedConfig | null> {
  if (role === 'maintenance') return null;
  const file = findConfigFile(settings.configFile, process.cwd());
  if (file === null) {
    throw new PawlError(
      'config_invalid',
      `there is no pawl.config.ts in ${process.cwd()}; create it, or name another with PAWL_CONFIG`,
    );
  }
  return loadConfigFile(file, { defaultModel: settings.openai.model });
}

const openAiUrl = 'https://api.openai.com/v1';

/** Without a key the provider would refuse each step of each run: it is said once, before anything is claimed. */
function refuseMissingKey(settings: Settings, { agents, models }: LoadedConfig): void {
  if (settings.openai.apiKey !== null || settings.openai.baseUrl !== null) return;
  const needing = agents.filter(({ model }) => {
    const own = model === null ? undefined : models.get(model);
    return own?.apiKeyEnv === undefined && own?.baseUrl === undefined;
  });
  const [first] = needing;
  if (first === undefined) return;
  throw new PawlError(
    'config_invalid',
    `OPENAI_API_KEY is not set, and agent "${first.name}" needs it for ${first.model}; set it, or OPENAI_BASE_URL to a server that takes no key`,
  );
}

/** The models of the config at their providers. */
export async function createLlm(
  settings: Settings,
  config: Pick<LoadedConfig, 'models'> | null,
  log: Log,
): Promise<Llm> {
  // Loaded here, since no command but a worker's needs a provider.
  const { createOpenAiLlm } = await import('./openai/llm.js');
  return createOpenAiLlm(openAiSettings(settings, config, log));
}

async function createEmbedder(settings: Settings, config: LoadedConfig | null, log: Log): Promise<Embedder | null> {
  const model = config?.embeddingModel ?? null;
  if (model === null) return null;
  const { createOpenAiEmbedder } = await import('./openai/embed.js');
  return createOpenAiEmbedder(openAiSettings(settings, config, log), model);
}

export function openAiSettings(
  settings: Settings,
  config: Pick<LoadedConfig, 'models'> | null,
  log: Log,
): OpenAiSettings {
  const { apiKey, baseUrl } = settings.openai;
  const models = config === null ? {} : resolveModels(config.models);
  return { baseUrl: baseUrl ?? openAiUrl, apiKey, models, proxy: settings.proxy, log };
}

/** The default effect lets a tool be repeated, so whoever did not choose it is told at the start. */
function nameUndeclaredEffects(config: LoadedConfig | null, log: Log): void {
  const undeclared = new Set<string>();
  for (const agent of config?.agents ?? []) {
    for (const tool of agent.tools) if (!tool.effectDeclared) undeclared.add(tool.name);
  }
  if (undeclared.size === 0) return;
  log.info({ tools: [...undeclared] }, "tools without a declared effect are taken for safe to repeat (effect: 'none')");
}

/** A tool may leave a promise behind that fails after its call ended: that is no reason to lose every other step. */
function surviveStrayRejections(log: Log): void {
  process.on('unhandledRejection', (thrown) => {
    log.error({ cause: describeThrown(thrown) }, 'something that no step waits for failed');
  });
}
