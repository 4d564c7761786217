/**
 * The `pawl` command as a process, in a project folder of its own with a config, a database and a scripted model. Whatever
 * it starts is ended after the test that started it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const bin = fileURLToPath(new URL('../../bin/pawl.mjs', import.meta.url));

export interface Ended {
  exit: number | null;
  out: string;
  err: string;
}

export interface Running {
  child: ChildProcess;
  /** Resolves when the text has been written to stderr; rejects when the process ends before. */
  says(text: string): Promise<void>;
  ended: Promise<Ended>;
}

export interface Project {
  folder: string;
  env: Record<string, string>;
  /** Carries out a command to its end. */
  pawl(args: readonly string[], env?: Record<string, string>): Promise<Ended>;
  start(args: readonly string[], options?: { env?: Record<string, string>; program?: string[] }): Running;
  /** Ends what still runs, and removes the folder. */
  close(): Promise<void>;
}

/** A project whose folder holds the files given. Nothing of this process's own settings reaches its commands. */
export function makeProject(files: Record<string, string>, env: Record<string, string>): Project {
  const folder = mkdtempSync(join(tmpdir(), 'pawl 项目-'));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const running = new Set<Running>();

  function start(
    args: readonly string[],
    { env: more = {}, program = [bin] }: { env?: Record<string, string>; program?: string[] } = {},
  ): Running {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, [...program, ...args], {
      cwd: folder,
      env: { PATH, HOME, ...env, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    const waiting: { text: string; resolve: () => void; reject: (error: Error) => void }[] = [];
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString();
      for (const { text, resolve } of waiting) if (err.includes(text)) resolve();
    });
    const ended = once(child, 'close').then(([exit]: (number | null)[]): Ended => {
      for (const { text, reject } of waiting)
        reject(new Error(`it ended (${exit}) without saying ${text}:\n${err}${out}`));
      return { exit: exit ?? null, out, err };
    });
    const says = (text: string): Promise<void> => {
      if (err.includes(text)) return Promise.resolve();
      return new Promise((resolve, reject) => waiting.push({ text, resolve, reject }));
    };
    const process_ = { child, says, ended };
    running.add(process_);
    void ended.then(() => running.delete(process_));
    return process_;
  }

  return {
    folder,
    env,
    start,
    pawl: (args, more = {}) => start(args, { env: more }).ended,
    async close() {
      for (const { child } of running) child.kill('SIGKILL');
      await Promise.all([...running].map(({ ended }) => ended));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
