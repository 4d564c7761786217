/**
 * The machine a measurement ran on, and how busy others kept it meanwhile: all processor time less that of the bench's own
 * processes. Where /proc is not there, the share is unknown.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));

export interface Machine {
  cores: number;
  cpu: string;
  memoryMb: number;
  os: string;
  node: string;
  postgres: string;
  redis: string;
  commit: string;
  at: string;
}

export async function machineOf(versions: { postgres: string; redis: string }): Promise<Machine> {
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? 'unknown',
    memoryMb: Math.round(totalmem() / 2 ** 20),
    os: `${type()} ${release()}`,
    node: process.version,
    ...versions,
    commit: await commitOf(),
    at: new Date().toISOString(),
  };
}

/** With a `+` at its end when files of the code differ from it. */
async function commitOf(): Promise<string> {
  const git = async (...args: string[]) => (await run('git', ['-C', root, ...args])).stdout.trim();
  try {
    const changed = await git('status', '--porcelain', '--', 'src', 'migrations', 'bench');
    return `${await git('rev-parse', '--short=12', 'HEAD')}${changed === '' ? '' : '+'}`;
  } catch {
    return 'unknown';
  }
}

export interface Busy {
  /** Ticks of all processors since the machine's start: in all, and those not idle. */
  total: number;
  busy: number;
  /** Ticks of the processes that descend from the given ones. */
  own: number;
}

export async function busyNow(roots: readonly number[]): Promise<Busy | null> {
  try {
    const line = (await readFile('/proc/stat', 'utf8')).split('\n')[0] ?? '';
    const ticks = line.split(/\s+/).slice(1, 9).map(Number);
    const total = ticks.reduce((sum, tick) => sum + tick, 0);
    const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
    return { total, busy: total - idle, own: await ownTicks(roots) };
  } catch {
    return null;
  }
}

/** The share of the machine's time that others took between two looks. */
export function othersShare(from: Busy | null, to: Busy | null): number | null {
  if (from === null || to === null) return null;
  const others = to.busy - from.busy - (to.own - from.own);
  return Math.max(0, others / Math.max(1, to.total - from.total));
}

/** Milliseconds of processor time of the processes that descend from the given one, itself included. */
export async function cpuMs(root: number): Promise<number> {
  return (await ownTicks([root])) * 10;
}

/** User and system time of each process and of its children that have ended. */
async function ownTicks(roots: readonly number[]): Promise<number> {
  const processes = new Map<number, { parent: number; ticks: number }>();
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    if (fields.length > 15) processes.set(Number(name), { parent: Number(fields[1]), ticks });
  }
  const isOwn = (pid: number): boolean => {
    const parent = processes.get(pid)?.parent;
    return roots.includes(pid) || (parent !== undefined && parent > 1 && isOwn(parent));
  };
  return [...processes].reduce((sum, [pid, { ticks }]) => sum + (isOwn(pid) ? ticks : 0), 0);
}
