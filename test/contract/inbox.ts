/** Deliveries that a test holds and ends by hand, steps to dispatch, and waiting for what has no signal. */
import type { Delivery, DeliveryEnd, Dispatch } from '../../src/ports.js';

export interface Held {
  delivery: Delivery;
  end(end: DeliveryEnd): void;
}

export const done: DeliveryEnd = { end: 'complete', note: 'recorded' };

/** A handler that keeps its deliveries until the test ends them. */
export class Inbox {
  readonly arrived: Held[] = [];
  underWay = 0;
  mostUnderWay = 0;
  readonly #open = new Set<Held>();
  #waiting: ((held: Held) => void)[] = [];

  readonly handler = (delivery: Delivery): Promise<DeliveryEnd> =>
    new Promise((resolve) => {
      this.underWay += 1;
      this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
      const end = (value: DeliveryEnd) => {
        if (this.#open.delete(held)) this.underWay -= 1;
        resolve(value);
      };
      const held: Held = { delivery, end };
      this.#open.add(held);
      const waiting = this.#waiting.shift();
      if (waiting) waiting(held);
      else this.arrived.push(held);
    });

  endAll(): void {
    for (const held of this.#open) held.end(done);
  }

  next(): Promise<Held> {
    const held = this.arrived.shift();
    return held ? Promise.resolve(held) : new Promise((resolve) => this.#waiting.push(resolve));
  }
}

let made = 0;
export function step(overrides: Partial<Dispatch> = {}): Dispatch {
  made += 1;
  return { queue: 'llm', runId: `run_${process.pid}_${made}`, seq: 1, dispatch: 1, ...overrides };
}

/** Polls until the answer is the wanted one; the test's own timeout is the limit. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}
