/** Lets so many through at a time, in the order in which they came. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #inside = 0;

  constructor(private readonly width: number) {}

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inside < this.width) this.#inside += 1;
    else await new Promise<void>((enter) => this.#waiting.push(enter));
    try {
      return await work();
    } finally {
      // Whoever waits takes the place over: nobody comes between.
      const next = this.#waiting.shift();
      if (next === undefined) this.#inside -= 1;
      else next();
    }
  }
}
