/**
 * Migrations: drizzle's, under an advisory lock of our own (its migrator takes none) and only after what is applied has
 * been compared with what this program knows. A schema that serves only newer programs is refused.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as applyMigrations } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { PawlError } from '../core/errors.js';
import { asPawlError } from './pool.js';

const folder = findMigrations();
const table = { migrationsSchema: 'pawl', migrationsTable: 'migrations' };
/** Any constant will do: the key of the advisory lock that lets one starter migrate at a time. */
const lockKey = 7_295_001;

interface Journal {
  entries: { idx: number; when: number; tag: string }[];
}

/** In a clone the folder lies two levels above this file, in a built package three. */
function findMigrations(): string {
  for (const up of ['../../migrations/', '../../../migrations/']) {
    const path = fileURLToPath(new URL(up, import.meta.url));
    try {
      readFileSync(`${path}meta/_journal.json`);
      return path;
    } catch {}
  }
  throw new PawlError('internal', 'the migrations folder of the package is missing: install pawl again');
}

function journal(): Journal['entries'] {
  return (JSON.parse(readFileSync(`${folder}meta/_journal.json`, 'utf8')) as Journal).entries;
}

/** How many migrations this program knows: what `instance.oldest_code` asks of one. */
export function knownMigrations(): number {
  return journal().length;
}

/** Brings the database up to this program's schema. Any number of processes may call it at once. Returns what it applied. */
export async function migrate(databaseUrl: string): Promise<{ applied: string[] }> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'pawl migrate',
    connectionTimeoutMillis: 5_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select pg_advisory_lock($1)', [lockKey]);
    const before = await appliedMigrations(client);
    const missing = missingMigrations(before);
    if (missing.length > 0) await applyMigrations(drizzle(client), { migrationsFolder: folder, ...table });
    // Each time: a starter that died right after its migrations has left the database without its identity.
    await client.query(
      `insert into pawl.instance (id) values (replace(gen_random_uuid()::text, '-', '')) on conflict do nothing`,
    );
    return { applied: missing };
  } catch (error) {
    throw asPawlError(error);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Refuses a database this program cannot work on: not migrated far enough, or serving only newer programs. */
export async function checkSchema(client: pg.Pool | pg.Client): Promise<void> {
  const missing = missingMigrations(await appliedMigrations(client));
  if (missing.length > 0) {
    throw new PawlError('schema_mismatch', `the database lacks ${missing.join(', ')}: run pawl migrate`);
  }
  const { rows } = await client.query<{ oldest_code: number }>('select oldest_code from pawl.instance');
  refuseIfTooOld(rows[0]?.oldest_code ?? 0);
}

async function appliedMigrations(client: pg.Pool | pg.Client): Promise<number[]> {
  const exists = await client.query<{ found: boolean }>(`select to_regclass('pawl.migrations') is not null as found`);
  if (exists.rows[0]?.found !== true) return [];
  const { rows } = await client.query<{ created_at: string }>(
    'select created_at from pawl.migrations order by created_at',
  );
  return rows.map((row) => Number(row.created_at));
}

function missingMigrations(applied: number[]): string[] {
  const known = journal();
  const missing = known.filter((entry) => !applied.includes(entry.when));
  const newestApplied = Math.max(0, ...applied);
  const skipped = missing.filter((entry) => entry.when < newestApplied);
  if (skipped.length > 0) {
    // drizzle would pass over them in silence.
    throw new PawlError(
      'schema_mismatch',
      `the database has newer migrations but lacks ${skipped.map((e) => e.tag).join(', ')}`,
    );
  }
  return missing.map((entry) => entry.tag);
}

function refuseIfTooOld(oldestCode: number): void {
  const known = knownMigrations();
  if (known >= oldestCode) return;
  throw new PawlError(
    'schema_mismatch',
    `the database serves programs with at least ${oldestCode} migrations, this one knows ${known}: install a newer pawl`,
  );
}
