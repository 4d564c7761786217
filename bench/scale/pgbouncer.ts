/** PgBouncer in transaction mode between Pawl and Postgres, with the queue on Redis; migrations go to Postgres directly. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { migrate } from '../../src/app.js';
import { freePort } from '../free-port.js';
import { openMigrated } from '../peers/pawl.js';
import type { Stage } from './trial.js';

const run = promisify(execFile);
const program = 'pgbouncer';
/** Debian keeps it where only root looks. */
const path = `${process.env.PATH}:/usr/sbin`;

export async function tryPgBouncer({ databaseUrl, redisUrl, play, say }: Stage): Promise<void> {
  const version = await versionOf();
  await migrate(databaseUrl);
  const bouncer = await startPgBouncer(databaseUrl, version.major * 1_000 + version.minor >= 1_021);
  say(`version ${version.text}, transaction mode, at most ${serverConnections} connections to Postgres`);
  try {
    const rate = await play((work) =>
      openMigrated({ databaseUrl: bouncer.url, redisUrl, concurrency: 50, work }, redisUrl),
    );
    say(`works with the queue on Redis: ${rate} steps/s`);
  } finally {
    await bouncer.stop();
  }
}

const serverConnections = 10;

async function versionOf(): Promise<{ text: string; major: number; minor: number }> {
  const said = await run(program, ['--version'], { env: { ...process.env, PATH: path } }).catch((cause: unknown) => {
    throw new Error('pgbouncer is not installed (Debian: apt-get install pgbouncer)', { cause });
  });
  const [, text = '', major = '0', minor = '0'] = /PgBouncer ((\d+)\.(\d+)\S*)/i.exec(said.stdout) ?? [];
  return { text, major: Number(major), minor: Number(minor) };
}

async function startPgBouncer(databaseUrl: string, keepsStatements: boolean) {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-bouncer-'));
  await chmod(folder, 0o755);
  const port = await freePort();
  const target = new URL(databaseUrl);
  const login = `user=${target.username} password=${decodeURIComponent(target.password)}`;
  const config = [
    '[databases]',
    `* = host=${target.hostname} port=${target.port} ${login}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${serverConnections}`,
    // Pawl sends its timeouts as a start-up option, which a shared connection cannot keep.
    'ignore_startup_parameters = extra_float_digits,options',
    ...(keepsStatements ? ['max_prepared_statements = 200'] : []),
  ];
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(file, `${config.join('\n')}\n`);
  const asNobody = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(program, [...asNobody, '-q', file], {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: { ...process.env, PATH: path },
  });
  const gone = once(child, 'exit');
  const end = () => child.kill('SIGKILL');
  process.on('exit', end);
  const url = new URL(databaseUrl);
  url.port = String(port);
  await untilAnswers(url.href);
  return {
    url: url.href,
    async stop() {
      end();
      await gone;
      process.off('exit', end);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function untilAnswers(url: string): Promise<void> {
  for (let n = 0; ; n++) {
    const client = new pg.Client(url);
    try {
      await client.connect();
      await client.query('select 1');
      return;
    } catch (error) {
      if (n > 100) throw error;
      await delay(50);
    } finally {
      await client.end().catch(() => {});
    }
  }
}
