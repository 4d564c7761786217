/**
 * What the demo needs before anything runs: a database of its own in the embedded server, the orders in it, a role that may
 * only read them, a folder for the run's files, and a model, the real one or the scripted one. Each is closed in reverse.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate } from '../app.js';
import type { Settings } from '../config.js';
import { openFreshDatabase } from '../embedded/fresh-database.js';
import { startEmbedded } from '../embedded/start.js';
import { startScriptedModel } from '../testing/model-server.js';
import { prepareDataRole } from '../tools/data-role.js';
import { type LoadedTable, loadOrders } from './load-orders.js';
import { demoDatabase } from './look-further.js';
import { answerRequest } from './scripted-analyst.js';
import type { WorkerOrder } from './worker.js';

export interface Stage {
  databaseUrl: string;
  /** URL of the role that may only read the orders. */
  dataUrl: string;
  table: LoadedTable;
  folder: { path: string; work: string; mail: string };
  model: DemoModel;
}

export interface DemoModel {
  name: string;
  scripted: boolean;
  llm: WorkerOrder['llm'];
  /** Rules of the protocol that requests broke; only the scripted model tells. */
  breaches(): readonly string[];
}

export type Later = (close: () => Promise<void>) => void;

/** A language model takes its time; so does the scripted one, or there would be no call in flight to kill a worker in. */
const thinkMs = 700;

export interface StageOptions {
  settings: Settings;
  csv: string | undefined;
  /** The project's `.pawl` folder. */
  pawlDir: string;
  now: Date;
  /** Told what to close at the end. */
  later: Later;
  say(text: string): void;
  signal: AbortSignal;
}

export async function setStage(options: StageOptions): Promise<Stage> {
  const { pawlDir, csv, now, later, say, signal } = options;
  const server = await startEmbedded({ dir: pawlDir, log: say });
  later(() => server.stop());
  signal.throwIfAborted();
  say('making its database');
  const database = await openFreshDatabase(server.url, demoDatabase);
  later(() => database.release());
  await migrate(database.url);
  signal.throwIfAborted();
  say('loading the orders');
  const table = await loadOrders(database.url, csv);
  const password = randomBytes(18).toString('base64url');
  const dataUrl = await prepareDataRole(database.url, { schema: table.schema, role: 'pawl_demo_reader', password });
  signal.throwIfAborted();
  const path = await makeFolder(pawlDir, now);
  const folder = { path, work: join(path, 'work'), mail: join(path, 'mail') };
  const model = await chooseModel(options.settings, later);
  return { databaseUrl: database.url, dataUrl, table, folder, model };
}

/** One folder a run, so that no run's files are taken for another's. In a project that cannot be written: elsewhere. */
async function makeFolder(pawlDir: string, now: Date): Promise<string> {
  const name = `${now.toISOString().slice(0, 19).replaceAll(':', '-')}-`;
  const parent = join(pawlDir, 'demo');
  try {
    await mkdir(parent, { recursive: true });
    return await mkdtemp(join(parent, name));
  } catch {
    return mkdtemp(join(tmpdir(), `pawl-demo-${name}`));
  }
}

async function chooseModel({ openai, proxy }: Settings, later: Later): Promise<DemoModel> {
  const { apiKey, baseUrl, model: name } = openai;
  if (apiKey !== null || baseUrl !== null) {
    const llm = { baseUrl: baseUrl ?? 'https://api.openai.com/v1', apiKey, proxy, models: {} };
    return { name, scripted: false, llm, breaches: () => [] };
  }
  const server = await startScriptedModel({
    models: ['scripted'],
    script: (request) => ({ ...answerRequest(request), delayMs: thinkMs }),
  });
  later(() => server.close());
  // What it costs is known: nothing.
  const models = { scripted: { priceUsdPerMTok: { input: 0, cachedInput: 0, output: 0 } } };
  const breaches = () => server.breaches.map(({ message }) => message);
  return {
    name: 'scripted',
    scripted: true,
    llm: { baseUrl: server.url, apiKey: null, proxy: null, models },
    breaches,
  };
}
