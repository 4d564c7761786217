/**
 * What `pawl doctor` judges, and how: facts that adapters gathered go in, lines come out, each ok or with what to do about
 * it. Pure: whoever gathers the facts is in src/doctor.ts.
 */
import { didYouMean } from './nearest.js';

export interface Check {
  name: string;
  /** `note`: it works, and somebody should look at it all the same. `bad`: it does not, or will not for long. */
  state: 'ok' | 'note' | 'bad';
  says: string;
  /** What to do about it; null where it is ok. */
  fix: string | null;
}

export const ok = (name: string, says: string): Check => ({ name, state: 'ok', says, fix: null });
export const note = (name: string, says: string, fix: string): Check => ({ name, state: 'note', says, fix });
export const bad = (name: string, says: string, fix: string): Check => ({ name, state: 'bad', says, fix });

export interface DatabaseFacts {
  /** As Postgres counts: 150004 is 15.4. */
  version: number;
  role: string;
  isReplica: boolean;
  mayWrite: boolean;
  connections: { used: number; max: number };
  /** Database's clock less this machine's; half of the round trip is its error. */
  clockAheadMs: number;
  roundTripMs: number;
}

export interface WorkFacts {
  workers: { id: string; host: string; pid: number; silentMs: number; loopLagMs: number }[];
  dueSteps: number;
  /** Null: nothing is due. */
  oldestDueMs: number | null;
}

export interface RedisFacts {
  version: string;
  /** Null: the server does not tell. */
  policy: string | null;
  persistence: 'aof' | 'rdb' | 'none' | null;
}

const oldestPostgres = 15;
const mb = 1024 * 1024;

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return ok('node', version);
  return bad('node', `${version} is too old`, 'install Node 20.19 or newer');
}

export function checkDisk(folder: string, freeBytes: number): Check {
  const free =
    freeBytes >= 10 * 1024 * mb ? `${Math.floor(freeBytes / mb / 1024)} GB` : `${Math.floor(freeBytes / mb)} MB`;
  const says = `${free} free for ${folder}`;
  if (freeBytes < 200 * mb) return bad('disk', says, 'free some: Postgres stops when its disk is full');
  return freeBytes < 1024 * mb ? note('disk', says, 'free some before it is full') : ok('disk', says);
}

export function checkDatabase(facts: DatabaseFacts, where: string): Check {
  const version = Math.floor(facts.version / 10_000);
  const says = `Postgres ${version}.${facts.version % 10_000} (${where}), as ${facts.role}`;
  if (version < oldestPostgres) return bad('database', says, `use Postgres ${oldestPostgres} or newer`);
  if (facts.isReplica)
    return bad('database', `${says}: a replica, which takes no writes`, 'set DATABASE_URL to the primary');
  if (!facts.mayWrite) {
    const fix = `grant ${facts.role} the use of schema pawl and all on its tables, or use the role that ran pawl migrate`;
    return bad('database', `${says}, who may not write the tables of Pawl`, fix);
  }
  return ok('database', says);
}

/** `needed`: connections of one more worker process. */
export function checkConnections({ used, max }: DatabaseFacts['connections'], needed: number): Check {
  const says = `${used} of ${max} in use; a worker process takes up to ${needed}`;
  if (max - used >= needed) return ok('connections', says);
  return bad('connections', says, 'raise max_connections, lower PAWL_CONCURRENCY, or end what holds connections');
}

export function checkClock({ clockAheadMs, roundTripMs }: DatabaseFacts): Check {
  const off = Math.max(0, Math.abs(clockAheadMs) - roundTripMs / 2);
  const says = `${(Math.abs(clockAheadMs) / 1_000).toFixed(1)} s ${clockAheadMs < 0 ? 'ahead of' : 'behind'} the database`;
  if (off < 2_000) return ok('clock', 'as the database has it');
  // Pawl goes by the database's clock; BullMQ's delays go by the worker's.
  return note(
    'clock',
    `this machine is ${says}`,
    'set both by NTP: retries of this machine come that much too early or late',
  );
}

/** A worker that was silent for longer is about to be declared dead. */
const silentMs = 10_000;
const waitsMs = 60_000;

export function checkWork({ workers, dueSteps, oldestDueMs }: WorkFacts): Check[] {
  const silent = workers.filter((worker) => worker.silentMs > silentMs);
  const alive = workers.length - silent.length;
  const checks: Check[] = [];
  if (alive === 0) {
    const names = silent.map(({ host, pid }) => `${host}:${pid}`).join(', ');
    const says = names === '' ? 'none alive' : `none alive; ${names} went silent`;
    checks.push((dueSteps > 0 ? bad : note)('workers', says, 'start one: pawl worker'));
  } else {
    const blocked = workers.filter((worker) => worker.loopLagMs > 5_000);
    const where = workers
      .map(({ host, pid }) => `${host}:${pid}`)
      .slice(0, 5)
      .join(', ');
    checks.push(
      blocked.length === 0
        ? ok('workers', `${alive} alive (${where}${workers.length > 5 ? ', …' : ''})`)
        : note(
            'workers',
            `${alive} alive, but the main loop of ${blocked.map(({ host, pid }) => `${host}:${pid}`).join(', ')} is blocked`,
            'look for synchronous work in its tools; after 60 s its process ends itself',
          ),
    );
  }
  if (oldestDueMs === null) checks.push(ok('due steps', 'none waits'));
  else {
    const says = `${dueSteps} due, the oldest for ${(oldestDueMs / 1_000).toFixed(0)} s`;
    const fix = alive === 0 ? 'start a worker' : 'start more workers, or raise PAWL_CONCURRENCY';
    checks.push(oldestDueMs < waitsMs ? ok('due steps', says) : bad('due steps', says, fix));
  }
  return checks;
}

export function checkRedis({ version, policy, persistence }: RedisFacts): Check[] {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const fresh = major > 6 || (major === 6 && minor >= 2);
  const checks = [
    fresh
      ? ok('queue', `Redis ${version}`)
      : bad('queue', `Redis ${version} is too old`, 'use Redis 6.2 or newer, or Valkey'),
  ];
  if (policy !== null) {
    checks.push(
      policy === 'noeviction'
        ? ok('eviction', 'noeviction')
        : bad(
            'eviction',
            `maxmemory-policy is ${policy}: a full Redis drops jobs`,
            'config set maxmemory-policy noeviction',
          ),
    );
  }
  if (persistence === 'none') {
    const fix = 'set appendonly yes, so that its failed jobs and delays outlive a restart (no run is lost without it)';
    checks.push(note('persistence', 'off: a restart empties the queue', fix));
  } else if (persistence !== null)
    checks.push(ok('persistence', persistence === 'aof' ? 'append-only file' : 'snapshots'));
  return checks;
}

export function checkAgents(
  agents: readonly { name: string; tools: readonly { name: string; effectDeclared: boolean }[] }[],
): Check[] {
  const tools = new Map(
    agents.flatMap((agent) => agent.tools.map((tool) => [tool.name, tool.effectDeclared] as const)),
  );
  const undeclared = [...tools].filter(([, declared]) => !declared).map(([name]) => name);
  const checks = [ok('agents', agents.map(({ name }) => name).join(', '))];
  if (undeclared.length === 0) checks.push(ok('tools', [...tools.keys()].join(', ') || 'none'));
  else {
    const says = `${undeclared.join(', ')}: no effect declared, so taken for safe to repeat`;
    checks.push(note('tools', says, "say effect: 'none', 'idempotent' or 'once' in defineTool"));
  }
  return checks;
}

/** `known`: what the provider lists; empty where it does not list any. */
export function missingModel(name: string, model: string, known: readonly string[]): Check {
  const some = known.slice(0, 8).join(', ');
  const list = some === '' ? '' : `: ${some}${known.length > 8 ? ', …' : ''}`;
  const fix = `set OPENAI_MODEL, or the model of the agent, to one it has${didYouMean(model, known)}${list}`;
  return bad(name, `the provider has no model ${model}`, fix);
}
