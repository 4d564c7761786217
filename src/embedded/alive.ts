/**
 * Questions about processes that are not our children: is it alive, and is it still the same one. Where Linux's /proc is
 * missing the answers are coarser, never an error.
 */
import { readFile } from 'node:fs/promises';

/** Whether a process of that pid exists, whoever owns it. A zombie counts as dead: it holds nothing any more. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) return false;
  }
  return (await readStat(pid))[0] !== 'Z';
}

/** When a process began, in the kernel's ticks: with the pid it names one process only. '-' where that is unknown. */
export async function birthOf(pid: number): Promise<string> {
  return (await readStat(pid))[19] ?? '-';
}

/** The fields of /proc/<pid>/stat from the third, the state, on: the second is a name that may hold anything. */
async function readStat(pid: number): Promise<string[]> {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return line === '' ? [] : line.slice(line.lastIndexOf(')') + 2).split(' ');
}
