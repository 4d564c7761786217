/**
 * How long `pawl --help` takes, and `pawl worker` from its start to its first claim. Both of the compiled package laid out as
 * npm installs it, since users start that and not the sources.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { createPawl } from '../../src/index.js';
import { median } from './numbers.js';
import type { Services } from './task.js';

export interface StartUp {
  helpSeconds: number;
  workerSeconds: number;
}

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const config = `import { defineAgent, defineConfig } from 'pawl';
export default defineConfig({ agents: [defineAgent({ name: 'first', instructions: 'Answer.' })] });
`;

export async function measureStartUp(services: Services, times: number): Promise<StartUp> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-start-'));
  try {
    const command = await layOut(folder);
    const helps: number[] = [];
    for (let n = 0; n < times; n++) helps.push(await timeHelp(command));
    await migrate(services.databaseUrl);
    // The first start only registers the agent.
    await timeWorker(command, folder, services, null);
    const client = createPawl(services);
    const workers: number[] = [];
    for (let n = 0; n < times; n++) {
      const { id } = await client.runs.start({ agent: 'first', input: `run ${n}` });
      workers.push(await timeWorker(command, folder, services, id));
      await client.runs.cancel(id);
    }
    await client.close();
    return { helpSeconds: median(helps), workerSeconds: median(workers) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function layOut(folder: string): Promise<string> {
  const installed = join(folder, 'pawl');
  await mkdir(installed);
  await run(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--outDir', join(installed, 'dist')], {
    cwd: root,
  });
  for (const name of ['bin', 'migrations', 'data', 'package.json'])
    await cp(join(root, name), join(installed, name), { recursive: true });
  await cp(join(root, 'src/postgres/beat-thread.mjs'), join(installed, 'dist/postgres/beat-thread.mjs'));
  await symlink(join(root, 'node_modules'), join(installed, 'node_modules'));
  await writeFile(join(folder, 'pawl.config.ts'), config);
  return join(installed, 'bin/pawl.mjs');
}

async function timeHelp(command: string): Promise<number> {
  const began = performance.now();
  await run(process.execPath, [command, '--help']);
  return (performance.now() - began) / 1_000;
}

/** From the start of the process to the claim of the run; with no run, until the agent is registered. */
async function timeWorker(
  command: string,
  cwd: string,
  { databaseUrl, redisUrl }: Services,
  runId: string | null,
): Promise<number> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const env = {
    PATH: process.env.PATH,
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    OPENAI_API_KEY: 'none',
    OPENAI_BASE_URL: 'http://127.0.0.1:9',
    PAWL_LOG_LEVEL: 'error',
  };
  const { rows } = await client.query<{ now: Date }>('select clock_timestamp() as now');
  const child = spawn(process.execPath, [command, 'worker'], { cwd, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const gone = once(child, 'exit');
  const question =
    runId === null
      ? 'select now() as at from pawl.agents'
      : 'select min(started_at) as at from pawl.steps where run_id = $1 having min(started_at) is not null';
  let at: Date | undefined;
  while (at === undefined) {
    if (child.exitCode !== null) throw new Error('pawl worker ended at its start');
    await delay(10);
    at = (await client.query<{ at: Date }>(question, runId === null ? [] : [runId])).rows[0]?.at;
  }
  child.kill('SIGTERM');
  await gone;
  await client.end();
  return (at.getTime() - (rows[0]?.now.getTime() ?? 0)) / 1_000;
}
