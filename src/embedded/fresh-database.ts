/**
 * A database of the embedded server that starts empty each time, and that one process at a time has to itself: the demo's.
 * What an earlier holder left in it goes; the database stays when it is released, so that it can be looked at.
 */
import pg from 'pg';
import { PawlError } from '../core/errors.js';

/** Beside the lock that shows who uses the server; the second key is the database's name. */
const lockClass = 0x7061776d;

export interface FreshDatabase {
  url: string;
  /** Lets others have it; its rows stay. */
  release(): Promise<void>;
}

/** Throws `conflict` while another process holds it. Sessions that only look at it are ended. */
export async function openFreshDatabase(serverUrl: string, name: string): Promise<FreshDatabase> {
  const client = new pg.Client({ connectionString: serverUrl, application_name: 'pawl:fresh-database' });
  client.on('error', () => {}); // a server that ends takes the lock with it, and later queries report that
  await client.connect();
  try {
    const asked = 'select pg_try_advisory_lock($1, hashtext($2)) as held';
    const { rows } = await client.query<{ held: boolean }>(asked, [lockClass, name]);
    if (rows[0]?.held !== true) {
      throw new PawlError(
        'conflict',
        `another process has the database ${name} to itself, such as a demo in the same folder: wait for its end`,
      );
    }
    await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
    await client.query(`create database ${pg.escapeIdentifier(name)}`);
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  return { url: databaseOf(serverUrl, name), release: () => client.end().catch(() => {}) };
}

/** The URL of another database of the same server. */
export function databaseOf(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}
