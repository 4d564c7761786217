/**
 * The heartbeat of a worker, in a thread of its own with a connection of its own, so that a busy or blocked main loop does
 * not stop it. It reads the claim tokens in hand and the main loop's last turn from shared memory and writes them in one
 * statement a beat. Plain JavaScript, since a thread starts without the loader that runs the sources. See workers.ts.
 */
import { parentPort, workerData } from 'node:worker_threads';
import pg from 'pg';

/** @type {{ url: string, workerId: string, everyMs: number, blockedMs: number, memory: SharedArrayBuffer, slots: number }} */
const { url, workerId, everyMs, blockedMs, memory, slots } = workerData;
const head = new BigInt64Array(memory, 0, 2);
const version = new Int32Array(memory, 16, 1);
const bytes = new Uint8Array(memory, 32);

const beatSql = `
with w as (
  update pawl.workers set
    beat = beat + 1, beat_before_at = beat_at, beat_at = now(), tokens_before = tokens, tokens = $2::uuid[], loop_lag_ms = $3
  where id = $1 and state = 'live' returning id
)
select (select id from w) as alive,
  (select coalesce(json_agg(json_build_object('token', t.token, 'ending', coalesce(s.is_ending, false))), '[]')
   from unnest($2::uuid[]) as t(token)
   left join lateral (
     select r.ending_at is not null or (s.kind = 'tool' and r.finishing_as is not distinct from 'deadline') as is_ending
     from pawl.steps s join pawl.runs r on r.id = s.run_id
     where s.worker_id = $1 and s.status = 'running' and s.claim_token = t.token
   ) s on true
   where s.is_ending is distinct from false) as aborts`;

/** @type {pg.Client | null} */
let client = null;
let stopping = false;

/** The clock that the main thread reads too; `performance.now()` has a zero of its own in each thread. */
function monotonicMs() {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

function readTokens() {
  // The writer makes the version odd while it writes; a torn read is read again.
  for (;;) {
    const before = Atomics.load(version, 0);
    const tokens = [];
    for (let slot = 0; slot < slots; slot++) {
      const hex = Buffer.from(bytes.subarray(slot * 16, slot * 16 + 16)).toString('hex');
      if (hex === '00000000000000000000000000000000') continue;
      tokens.push(`${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`);
    }
    if (before % 2 === 0 && Atomics.load(version, 0) === before) return tokens;
  }
}

async function connect() {
  const fresh = new pg.Client({
    connectionString: url,
    application_name: 'pawl heartbeat',
    connectionTimeoutMillis: 2_000,
    query_timeout: 5_000,
    keepAlive: true,
  });
  fresh.on('error', () => {
    if (client === fresh) client = null;
  });
  await fresh.connect();
  return fresh;
}

async function beat() {
  const lagMs = monotonicMs() - Number(Atomics.load(head, 0));
  if (lagMs > blockedMs) {
    // The loop has not turned for a minute: nothing this process holds will be recorded. End it, so that others go on.
    process.stderr.write(
      `${JSON.stringify({ level: 'fatal', workerId, lagMs, msg: 'the main loop is blocked; the worker ends itself' })}\n`,
    );
    process.kill(process.pid, 'SIGKILL');
  }
  try {
    client ??= await connect();
    const beganAtMs = monotonicMs();
    const { rows } = await client.query({
      name: 'pawl-beat',
      text: beatSql,
      values: [workerId, readTokens(), Math.max(0, lagMs)],
    });
    if (rows[0].alive === null) parentPort?.postMessage({ type: 'dead' });
    else parentPort?.postMessage({ type: 'beat', beganAtMs, aborts: rows[0].aborts });
  } catch (error) {
    const broken = client;
    client = null;
    await broken?.end().catch(() => {});
    parentPort?.postMessage({ type: 'missed', message: error instanceof Error ? error.message : String(error) });
  }
}

parentPort?.on('message', async (message) => {
  if (message !== 'stop') return;
  stopping = true;
  await client?.end().catch(() => {});
  parentPort?.close();
});

while (!stopping) {
  const began = monotonicMs();
  await beat();
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, everyMs - (monotonicMs() - began))).unref());
}
