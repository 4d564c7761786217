/**
 * Worker processes that kill themselves where they are told to: victim.ts. Some have always loaded everything and wait for
 * an order, so that a case waits for no start of a process. However many cases are played, few workers start at a time: that
 * takes the processor, and the rest of a case is waiting.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type Code, compile } from './campaign/code.js';
import { Gate } from './gate.js';
import type { LogLine } from './log-lines.js';
import { until } from './until.js';
import type { Order, Said } from './victim.js';

const spares = 3;
const startsAtATime = 2;

export class Victims {
  /** Of every worker, in whatever process. */
  readonly starts = new Gate(startsAtATime);
  readonly #waiting: Promise<ChildProcess>[] = [];
  #closing = false;

  private constructor(private readonly code: Code) {
    for (let n = 0; n < spares; n++) this.#waiting.push(this.#load());
  }

  static async open(): Promise<Victims> {
    return new Victims(await compile(undefined, ['test/chaos/victim.ts']));
  }

  /**
   * Lets one work: calls `whenUp` once it does, `look` again and again, and resolves once it has killed itself. Throws when
   * it has not after `looks` of them.
   */
  async kill(
    order: Order,
    at: { whenUp(): Promise<void>; look(): Promise<void>; keep(line: LogLine): void; looks: number },
  ): Promise<void> {
    const loading = this.#waiting.shift() ?? this.#load();
    this.#waiting.push(this.#load());
    const child = await loading;
    const isOver = () => child.exitCode !== null || child.signalCode !== null;
    let isUp = false;
    let nowUp = () => {};
    const up = new Promise<void>((resolve) => {
      nowUp = resolve;
    });
    child.on('message', (said: Said) => {
      if ('line' in said) at.keep(said.line);
      else if ('ready' in said) {
        isUp = true;
        nowUp();
      }
    });
    try {
      await this.starts.pass(async () => {
        child.send(order, () => {});
        // The next one starts at once, and not at the next look.
        await Promise.race([up, until('a worker process to be up', at.looks, () => isUp || isOver())]);
      });
      await at.whenUp();
      await until(`a worker to kill itself ${order.strike.gap} of step ${order.strike.seq}`, at.looks, async () => {
        await at.look();
        return isOver();
      });
      if (child.signalCode !== 'SIGKILL') throw new Error(`the worker to be killed exited with ${child.exitCode}`);
    } finally {
      await end(child);
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#waiting.map(async (loading) => end(await loading)));
    await this.code.remove();
  }

  /** One that could not be started is over, and whoever takes it sees that. */
  #load(): Promise<ChildProcess> {
    return this.starts.pass(async () => {
      const child = this.#fork();
      if (!this.#closing) await Promise.race([once(child, 'message'), once(child, 'exit')]);
      return child;
    });
  }

  #fork(): ChildProcess {
    const child = fork(this.code.program('victim'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], execArgv: [] });
    child.on('error', () => {}); // one that could not be started ends, too
    return child;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
