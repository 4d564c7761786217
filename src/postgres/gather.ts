/**
 * Group commit: what many callers ask for at the same time goes to Postgres in one statement. A lone item is sent at once;
 * while a batch is under way, the next one gathers. An error that one item may be guilty of splits the batch, and each item
 * is sent alone, so that nobody pays for a neighbour. See claim.ts and record.ts for what is gathered.
 */
import { classifyFault } from './pool.js';

export interface Gathered<Item> {
  add(item: Item): void;
}

export interface GatherRules<Item, Ready> {
  /** Takes out of the queue what goes into one batch, made ready for it, and may leave the rest in it. */
  take(queue: Item[]): Ready[];
  /** Answers every item of the batch, or throws, having answered none. */
  send(batch: readonly Ready[]): Promise<void>;
  fail(item: Ready, error: unknown): void;
}

export function gather<Item, Ready = Item>({ take, send, fail }: GatherRules<Item, Ready>): Gathered<Item> {
  const queue: Item[] = [];
  let isBusy = false;

  async function sendAll(): Promise<void> {
    while (queue.length > 0) await sendBatch(take(queue));
    isBusy = false;
  }

  async function sendBatch(batch: readonly Ready[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      await send(batch);
    } catch (error) {
      if (batch.length === 1 || classifyFault(error) === 'unreachable') {
        for (const item of batch) fail(item, error);
      } else for (const item of batch) await sendBatch([item]);
    }
  }

  return {
    add(item) {
      queue.push(item);
      if (isBusy) return;
      isBusy = true;
      // After what else came with the same read of a socket.
      setImmediate(() => void sendAll());
    },
  };
}
