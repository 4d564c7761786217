/**
 * A Postgres of the campaign's own that can be restarted, in good order or as after a crash, at the same port. Where the
 * machine lets us mount one, a small file system stands ready to be filled.
 */
import { chown, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { runAs } from '../../../src/embedded/account.js';
import { findBinaries } from '../../../src/embedded/binaries.js';
import { openHome } from '../../../src/embedded/home.js';
import { findPostmaster } from '../../../src/embedded/postmaster.js';
import { startEmbedded } from '../../../src/embedded/start.js';
import { migrate } from '../../../src/postgres/migrate.js';
import type { Guard } from './guard.js';
import { type Panic, panicsIn } from './postgres-log.js';

export interface PostgresService {
  url: string;
  port: number;
  version: string;
  /** A small file system with the messages and events in it, or why there is none. */
  small: { path: string } | { missing: string };
  /** Uses a connection of its own that goes round the proxy. */
  use<T>(work: (client: pg.Client) => Promise<T>): Promise<T>;
  restart(mode: 'fast' | 'immediate'): Promise<void>;
  /** When it ended itself, by its own log. */
  panics(): Promise<Panic[]>;
  /** Ends it; it stays away until it is revived. */
  leave(): Promise<void>;
  /** Starts it where it is down. */
  revive(): Promise<void>;
  stop(): Promise<void>;
}

const smallMb = 96;

export async function startPostgres(folder: string, guard: Guard): Promise<PostgresService> {
  const settings = { max_connections: '150', deadlock_timeout: '200ms', log_min_messages: 'log' };
  const dir = join(folder, '.pawl');
  const server = await startEmbedded({ dir, settings });
  guard.watch(server.pid);
  const home = await openHome(dir, () => {});
  const { pgCtl } = await findBinaries(home);
  const url = server.url;

  async function use<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'campaign',
      connectionTimeoutMillis: 5_000,
    });
    client.on('error', () => {}); // a backend that ends is seen by the query
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end().catch(() => {});
    }
  }

  const log = join(home.path, 'server.log');

  async function control(...args: string[]): Promise<void> {
    const ended = await runAs(home.account, pgCtl, [...args, '-D', home.dataDir, '-w', '-t', '60', '-l', log]);
    if (ended.code !== 0) throw new Error(`pg_ctl ${args.join(' ')}: ${ended.output}`);
    const found = await findPostmaster(home.dataDir);
    if (found !== undefined) guard.watch(found.pid);
  }

  async function revive(): Promise<void> {
    for (let tries = 0; ; tries++) {
      const answers = await use((client) => client.query('select 1')).then(
        () => true,
        () => false,
      );
      if (answers) return;
      if (tries > 120) throw new Error('Postgres did not come back');
      // It restarts by itself after a crash of one of its processes; what is really down is started.
      if ((await findPostmaster(home.dataDir)) === undefined) await control('restart').catch(() => {});
      await delay(250);
    }
  }

  await migrate(url);
  const small = await mountSmall(folder, (await stat(home.dataDir)).uid, (path) =>
    use(async (client) => {
      await client.query(`create tablespace small location '${path}'`);
      for (const table of ['messages', 'events']) {
        await client.query(`alter table pawl.${table} set tablespace small`);
      }
    }),
  );
  const { rows } = await use((client) => client.query<{ server_version: string }>('show server_version'));
  return {
    url,
    port: Number(new URL(url).port),
    version: rows[0]?.server_version ?? 'unknown',
    small,
    use,
    restart: (mode) => control('restart', '-m', mode),
    panics: async () => panicsIn(await readFile(log, 'utf8')),
    leave: () => control('stop', '-m', 'immediate'),
    revive,
    async stop() {
      await runAs(home.account, pgCtl, ['stop', '-D', home.dataDir, '-m', 'immediate', '-w']);
      if ('path' in small) await runAs(undefined, 'umount', [join(folder, 'small')]);
    },
  };
}

async function mountSmall(
  folder: string,
  uid: number,
  fill: (path: string) => Promise<void>,
): Promise<PostgresService['small']> {
  const path = join(folder, 'small');
  await mkdir(path);
  const mounted = await runAs(undefined, 'mount', ['-t', 'tmpfs', '-o', `size=${smallMb}m,mode=755`, 'tmpfs', path]);
  if (mounted.code !== 0) return { missing: `no small file system can be mounted here: ${mounted.output}` };
  const inside = join(path, 'tables');
  await mkdir(inside, { mode: 0o700 });
  await chown(inside, uid, uid);
  await fill(inside);
  await writeFile(join(path, 'ballast'), '');
  return { path };
}
