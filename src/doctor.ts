/**
 * `pawl doctor`: gathers the facts of an installation and has them judged (core/checkup.ts). Whatever cannot be asked is a
 * line of its own, never a reason to stop: a broken installation is what this is for.
 */
import { statfs } from 'node:fs/promises';
import { queuePoolSize } from './bullmq/postgres.js';
import type { Settings } from './config.js';
import { findConfigFile, type LoadedConfig, loadConfigFile } from './config-file.js';
import {
  bad,
  type Check,
  checkAgents,
  checkClock,
  checkConnections,
  checkDatabase,
  checkDisk,
  checkNode,
  checkRedis,
  checkWork,
  note,
  ok,
} from './core/checkup.js';
import { describeThrown, PawlError } from './core/errors.js';
import type { Log } from './ports.js';
import { workerPoolSize } from './postgres/pool.js';
import { openAiSettings, openDatabase, pawlDir } from './setup.js';

export interface ExamineOptions {
  /** Makes two tiny calls to each model, too. */
  llm: boolean;
}

/** Where the environment cannot be read there is little to look at. */
export function examineWithoutSettings(fault: PawlError): Check[] {
  return [
    checkNode(process.version),
    bad('environment', fault.message, 'mend these variables, in the environment or in .env'),
  ];
}

export async function examine(settings: Settings, log: Log, options: ExamineOptions): Promise<Check[]> {
  const config = await readConfig(settings);
  const checks = [checkNode(process.version), await examineDisk(settings), ...config.checks];
  checks.push(...(await examineDatabase(settings, log, config.loaded)));
  if (settings.redisUrl !== null) checks.push(...(await examineRedis(settings.redisUrl)));
  checks.push(...checkKey(settings, config.loaded));
  if (options.llm) checks.push(...(await examineModels(settings, config.loaded, log)));
  return checks;
}

async function examineDisk(settings: Settings): Promise<Check> {
  const folder = settings.databaseUrl === null ? pawlDir(settings).replace(/\/?\.pawl$/, '') : process.cwd();
  try {
    const { bavail, bsize } = await statfs(folder);
    return checkDisk(folder, bavail * bsize);
  } catch (error) {
    return note('disk', `${folder} cannot be asked: ${describeThrown(error)}`, 'check that the folder is there');
  }
}

async function readConfig(settings: Settings): Promise<{ loaded: LoadedConfig | null; checks: Check[] }> {
  const file = findConfigFile(settings.configFile, process.cwd());
  if (file === null) {
    const says = `there is no pawl.config.ts in ${process.cwd()}`;
    return {
      loaded: null,
      checks: [note('config', says, 'create it, or name another with PAWL_CONFIG: workers need it')],
    };
  }
  try {
    await import('./index.js'); // what a config imports as 'pawl': it must be there before the loader's hooks are
    const loaded = await loadConfigFile(file, { defaultModel: settings.openai.model });
    return { loaded, checks: [ok('config', file), ...checkAgents(loaded.agents)] };
  } catch (error) {
    return { loaded: null, checks: [bad('config', describeThrown(error), `mend ${file}`)] };
  }
}

async function examineDatabase(settings: Settings, log: Log, config: LoadedConfig | null): Promise<Check[]> {
  const where = settings.databaseUrl === null ? 'embedded' : 'DATABASE_URL';
  try {
    const { inspectDatabase } = await import('./postgres/inspect.js');
    const database = await openDatabase(settings, log);
    try {
      const { facts, schemaFault, work } = await inspectDatabase(database.url);
      const queue = settings.redisUrl === null ? [ok('queue', 'in the same Postgres (REDIS_URL is not set)')] : [];
      return [
        checkDatabase(facts, where),
        checkConnections(facts.connections, connectionsOfWorker(settings, config)),
        checkClock(facts),
        schemaFault === null ? ok('migrations', 'up to date') : bad('migrations', schemaFault, 'pawl migrate'),
        ...queue,
        ...(work === null ? [] : checkWork(work)),
      ];
    } finally {
      await database.close();
    }
  } catch (error) {
    const fix =
      where === 'embedded'
        ? 'see the message above, or set DATABASE_URL'
        : 'check DATABASE_URL and that the server runs';
    return [bad('database', describeThrown(error), fix)];
  }
}

/** At most: its pool and two lanes, its heartbeat, and where the queue is in Postgres that one's pool. */
function connectionsOfWorker({ concurrency, redisUrl }: Settings, config: LoadedConfig | null): number {
  const pools = (config?.agents ?? []).flatMap((agent) => agent.tools.map((tool) => tool.queue));
  const queues = new Set(['llm', 'tool', ...pools]).size;
  return workerPoolSize(concurrency) + 3 + (redisUrl === null ? queuePoolSize(queues) : 0);
}

async function examineRedis(url: string): Promise<Check[]> {
  try {
    const { inspectRedis } = await import('./bullmq/inspect.js');
    return checkRedis(await inspectRedis(url));
  } catch (error) {
    return [bad('queue', describeThrown(error), 'check REDIS_URL and that the server runs')];
  }
}

function checkKey(settings: Settings, config: LoadedConfig | null): Check[] {
  if (settings.openai.apiKey !== null || settings.openai.baseUrl !== null) return [];
  const models = config?.agents.flatMap(({ model, fallbacks }) => [model ?? '', ...fallbacks]) ?? [
    settings.openai.model,
  ];
  const needing = models.filter((model) => {
    const own = config?.models.get(model);
    return own?.apiKeyEnv === undefined && own?.baseUrl === undefined;
  });
  if (needing.length === 0) return [];
  const fix = 'set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that takes no key';
  return [bad('llm key', `none for ${[...new Set(needing)].join(', ')}`, fix)];
}

/** Models asked at most: each costs two calls. */
const askedModels = 5;

async function examineModels(settings: Settings, config: LoadedConfig | null, log: Log): Promise<Check[]> {
  const ofAgents = config?.agents.flatMap(({ model, fallbacks }) => [...(model === null ? [] : [model]), ...fallbacks]);
  const models = [...new Set(ofAgents ?? [settings.openai.model])];
  const { diagnose, diagnoseEmbeddings } = await import('./openai/diagnose.js');
  const checks: Check[] = [];
  try {
    const provider = openAiSettings(settings, config, log);
    for (const model of models.slice(0, askedModels)) checks.push(...(await diagnose(provider, model)));
    const embeddingModel = config?.embeddingModel ?? null;
    if (embeddingModel !== null) checks.push(await diagnoseEmbeddings(provider, embeddingModel));
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    return [bad('llm', error.message, 'set it, or take the model out of the config')];
  }
  const rest = models.slice(askedModels);
  if (rest.length > 0)
    checks.push(note('llm', `not asked: ${rest.join(', ')}`, 'run it with a config of fewer models'));
  return checks;
}
