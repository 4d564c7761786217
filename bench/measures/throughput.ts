/**
 * Three figures of one peer in one process: a step alone (p50, one run at a time), steps a second (from the first start of a
 * run to the end of the last, so accepting them counts), and the bytes stored for a run.
 */
import { performance } from 'node:perf_hooks';
import { loadPeer } from '../peers/index.js';
import { Work } from '../work.js';
import { checkWork, type Played } from './check.js';
import { median, storedBytes } from './numbers.js';
import type { ThroughputTask } from './task.js';

export interface Throughput {
  stepsPerSecond: number;
  aloneMs: number;
  /** Null where nothing is stored. */
  bytesPerRun: number | null;
}

export async function measureThroughput(task: ThroughputTask): Promise<Throughput> {
  const { databaseUrl, redisUrl, concurrency, steps } = task;
  const peer = await loadPeer(task.peer);
  const work = new Work();
  const session = await peer.open({ databaseUrl, redisUrl, concurrency, work });
  const size = async () => (session.stored === undefined ? storedBytes(databaseUrl) : session.stored());
  const share = peer.share ?? 1;
  const played: Played[] = [];
  const play = async (name: string, runs: number, recorded?: 'each') => {
    const names = namesOf(name, runs);
    await session.play(names, steps, recorded);
    played.push({ runs: names, steps });
  };

  await warmUp(task.warmUpMs, (name) => play(name, 50));
  const gaps: number[] = [];
  for (let n = 1; n <= task.aloneRuns; n++) {
    work.times = [];
    await play(`alone${n}-`, 1, 'each');
    gaps.push(...gapsOf(work.times));
  }
  work.times = null;
  const sizeBefore = await size();
  const runs = Math.ceil(task.runs * share);
  const began = performance.now();
  await play('run', runs);
  const seconds = (performance.now() - began) / 1_000;
  const bytes = (await size()) - sizeBefore;
  await checkWork(session, work, played);
  const records = (await session.recorded()) !== null;
  await session.close();
  return {
    stepsPerSecond: (runs * steps) / seconds,
    aloneMs: median(gaps),
    bytesPerRun: records ? bytes / runs : null,
  };
}

/**
 * Plays until the time is over: what a process does in its first seconds, while its code is compiled bit by bit, is not what
 * it does for the rest of its days.
 */
export async function warmUp(ms: number, play: (name: string) => Promise<void>): Promise<void> {
  const until = performance.now() + ms;
  for (let n = 1; n === 1 || performance.now() < until; n++) await play(`warm${n}-`);
}

export function namesOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${name}${String(n + 1).padStart(6, '0')}`);
}

export function gapsOf(times: readonly number[]): number[] {
  return times.slice(1).map((time, n) => time - (times[n] ?? time));
}
