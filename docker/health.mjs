/**
 * Whether this container does its work, as its healthcheck: a server has to answer, a worker's heartbeat has to move. What
 * else runs here (a migration, the maintenance role, which has no heartbeat) is healthy for as long as it runs. A Postgres
 * that does not answer says nothing about a worker, which waits for it: restarting workers then would make things worse.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import pg from 'pg';

const command = readFileSync('/proc/1/cmdline', 'utf8').split('\0');

async function serverAnswers() {
  const port = process.env.PAWL_PORT || '3900';
  const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(5_000) });
  return answer.ok;
}

async function heartBeats() {
  const client = new pg.Client({
    connectionString: process.env.DATABASE_URL,
    application_name: 'pawl health',
    connectionTimeoutMillis: 3_000,
    query_timeout: 3_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query(
      `select 1 from pawl.workers where host = $1 and state = 'live' and beat_at > now() - interval '1 minute' limit 1`,
      [hostname()],
    );
    return rows.length > 0;
  } catch {
    return true;
  } finally {
    await client.end().catch(() => {});
  }
}

async function isHealthy() {
  if (command.includes('server')) return serverAnswers();
  return command.includes('worker') && !command.includes('maintenance') ? heartBeats() : true;
}

const healthy = await isHealthy().catch(() => false);
process.exit(healthy ? 0 : 1);
