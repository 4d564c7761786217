/**
 * What a step does, the same for every peer: it makes some 400 bytes of text, in process, and counts itself. The text tells
 * its run and its step, so that a peer's record can be checked, and a step can find out which one it is.
 */

const words =
  'the order was paid on time and left for its town by night rail while rain fell over seven quiet hills'.split(' ');
const payloadChars = 400;

/** The text of one step: always the same for one run and step, in words as a model's or a tool's would be. */
export function payloadOf(run: string, step: number): string {
  let text = `${run} ${step}:`;
  let mixed = hash(text);
  while (text.length < payloadChars) {
    mixed = (Math.imul(mixed, 1_664_525) + 1_013_904_223) >>> 0;
    text += ` ${words[(mixed >>> 8) % words.length]}`;
  }
  return text.slice(0, payloadChars);
}

/** The run and the step of a payload. */
export function readPayload(text: string): { run: string; step: number } {
  const found = /^(\S+) (\d+):/.exec(text);
  if (found === null) throw new Error(`this is no payload: ${text.slice(0, 80)}`);
  return { run: found[1] ?? '', step: Number(found[2]) };
}

function hash(text: string): number {
  let mixed = 2_166_136_261;
  for (let at = 0; at < text.length; at++) mixed = Math.imul(mixed ^ text.charCodeAt(at), 16_777_619);
  return mixed >>> 0;
}

export class Work {
  calls = 0;
  /** When each step of a watched run was performed, by step; null: not watched. */
  times: number[] | null = null;
  /** Called before a step of this number is performed, of any run. */
  readonly before = new Map<number, () => Promise<void>>();
  #waiting: { until: number; resolve: () => void } | null = null;

  async perform(run: string, step: number): Promise<string> {
    const pause = this.before.get(step);
    if (pause !== undefined) await pause();
    this.times?.push(performance.now());
    this.calls += 1;
    if (this.#waiting !== null && this.calls >= this.#waiting.until) this.#waiting.resolve();
    return payloadOf(run, step);
  }

  /** Resolves when that many steps have been performed since the start of this process. */
  performed(until: number): Promise<void> {
    if (this.calls >= until) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting = { until, resolve };
    });
  }
}
