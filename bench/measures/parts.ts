/** What a step costs in each part of a deployment, under load: processor time of the worker, Redis and Postgres, log, rows. */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { cpuMs } from '../machine.js';
import { openPawl } from '../peers/pawl.js';
import { Work } from '../work.js';
import type { PartsTask } from './task.js';
import { namesOf, warmUp } from './throughput.js';

export interface Parts {
  stepsPerSecond: number;
  /** Microseconds of one processor, a step. */
  workerUs: number;
  /** Of a process that has just begun, whose code is not compiled yet: over its first two thousand steps. */
  coldWorkerUs: number;
  redisUs: number;
  postgresUs: number;
  /** Of a step. */
  walBytes: number;
  commits: number;
  inserted: number;
  updated: number;
  /** Old row versions left for a vacuum. */
  dead: number;
  redisCommands: number;
  /** Connections of one worker process and one client. */
  connections: number;
}

export async function measureParts(task: PartsTask): Promise<Parts> {
  const { databaseUrl, redisUrl, concurrency, runs, steps } = task;
  const work = new Work();
  const open = () => openPawl({ databaseUrl, redisUrl, concurrency, work }, redisUrl);
  const warm = await open();
  const cold = namesOf('cold', 100);
  const coldFrom = process.cpuUsage();
  await warm.play(cold, steps);
  const coldWorkerUs = microsecondsOf(process.cpuUsage(coldFrom)) / (cold.length * steps);
  await warmUp(task.warmUpMs, (name) => warm.play(namesOf(name, 50), steps));
  // Postgres counts for sure what a connection did when the connection ends.
  await warm.close();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await untilAlone(client);
  const session = await open();
  const before = await look(task, client);
  const began = performance.now();
  await session.play(namesOf('run', runs), steps);
  const seconds = (performance.now() - began) / 1_000;
  const connections = await othersOf(client);
  await session.close();
  await untilAlone(client);
  const after = await look(task, client);
  await client.end();
  const all = runs * steps;
  const perStep = (name: keyof Look) => (after[name] - before[name]) / all;
  return {
    stepsPerSecond: all / seconds,
    workerUs: perStep('workerMs') * 1_000,
    coldWorkerUs,
    redisUs: perStep('redisMs') * 1_000,
    postgresUs: perStep('postgresMs') * 1_000,
    walBytes: perStep('wal'),
    commits: perStep('commits'),
    inserted: perStep('inserted'),
    updated: perStep('updated'),
    dead: perStep('dead'),
    redisCommands: perStep('commands'),
    connections,
  };
}

/** A backend tells of its rows when it ends, which is a moment after its client has gone. */
async function untilAlone(client: pg.Client): Promise<void> {
  for (let look = 0; look < 500; look++) {
    if ((await othersOf(client)) === 0) return;
    await delay(10);
  }
  throw new Error('connections that should have ended are still there');
}

async function othersOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ n: number }>(
    'select count(*)::int as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  return rows[0]?.n ?? 0;
}

function microsecondsOf({ user, system }: NodeJS.CpuUsage): number {
  return user + system;
}

type Look = Awaited<ReturnType<typeof look>>;

async function look({ postgresPid, redisPid, redisUrl }: PartsTask, client: pg.Client) {
  const { rows } = await client.query<Record<'wal' | 'commits' | 'inserted' | 'updated' | 'dead', string>>(
    `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal, d.xact_commit as commits, sum(t.n_tup_ins) as inserted,
            sum(t.n_tup_upd) as updated, sum(t.n_tup_upd + t.n_tup_del) as dead
       from pg_stat_database d, pg_stat_user_tables t where d.datname = current_database() group by d.xact_commit`,
  );
  const row = rows[0];
  return {
    workerMs: microsecondsOf(process.cpuUsage()) / 1_000,
    redisMs: await cpuMs(redisPid),
    postgresMs: await cpuMs(postgresPid),
    commands: await redisCommands(redisUrl),
    wal: Number(row?.wal),
    commits: Number(row?.commits),
    inserted: Number(row?.inserted),
    updated: Number(row?.updated),
    dead: Number(row?.dead),
  };
}

async function redisCommands(url: string): Promise<number> {
  const { Redis } = await import('ioredis');
  const redis = new Redis(url);
  const found = /total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1];
  redis.disconnect();
  return Number(found);
}
