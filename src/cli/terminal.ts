/**
 * The two streams of a command: results go to stdout, messages to stderr. Colour, and the one line that is drawn over
 * again while something is under way, exist only on a terminal that wants colour (Node asks NO_COLOR and TERM for it). A
 * reader that went away (`pawl runs list | head`) ends the command quietly.
 */
import type { Writable } from 'node:stream';
import { clip, harmless } from './width.js';

export type Stream = Writable & { isTTY?: boolean; columns?: number; hasColors?(): boolean };

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof codes;
/** Wraps text in a colour, or leaves it as it is where the stream has none. */
export type Paint = (colour: Colour, text: string) => string;

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const frameMs = 100;
const eraseLine = '\r\x1b[2K';

export class Terminal {
  readonly paintOut: Paint;
  readonly paintErr: Paint;
  /** Aborted when nobody reads stdout any more. */
  readonly gone: AbortSignal;
  private readonly goneController = new AbortController();
  private statusText: (() => string) | null = null;
  private drawn = false;
  private frame = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly stdout: Stream,
    private readonly stderr: Stream,
  ) {
    this.gone = this.goneController.signal;
    this.paintOut = painter(stdout);
    this.paintErr = painter(stderr);
    stdout.on('error', () => this.goneController.abort());
    stderr.on('error', () => {});
  }

  /** Whether people read the results; then they are cut to the width of the window, else never. */
  get isTerminal(): boolean {
    return this.stdout.isTTY === true;
  }

  /** Whether people read the messages, so that they can be asked something. */
  get hearsMessages(): boolean {
    return this.stderr.isTTY === true;
  }

  get paintsMessages(): boolean {
    return this.paintErr('dim', '.') !== '.';
  }

  get columns(): number {
    return this.stdout.columns ?? 100;
  }

  /** A line, or several, of the result. */
  out(text: string): void {
    this.write(this.stdout, `${text}\n`);
  }

  /** Text that a model or a tool wrote, as part of the result: byte for byte, unless a terminal would obey it. */
  outForeign(text: string): void {
    this.out(this.isTerminal ? harmless(text) : text);
  }

  /** A message. */
  say(text: string): void {
    this.write(this.stderr, `${text}\n`);
  }

  /** A question on stderr; the answer is read by whoever asks. */
  ask(text: string): void {
    this.write(this.stderr, text);
  }

  /** Shows what is under way until called again; null clears it. Asked for its text each time it is drawn. */
  status(text: (() => string) | null): void {
    this.statusText = text;
    if (text === null || this.stderr.isTTY !== true || this.stderr.hasColors?.() !== true) {
      this.erase();
      clearInterval(this.timer);
      this.timer = undefined;
      return;
    }
    this.timer ??= setInterval(() => this.draw(), frameMs).unref();
    this.draw();
  }

  /** Resolves when everything written has left the process, or nobody reads it. */
  async flush(): Promise<void> {
    for (const stream of [this.stdout, this.stderr]) {
      if (stream.destroyed || stream.writableLength === 0) continue;
      await new Promise<void>((resolve) => stream.write('', () => resolve()));
    }
  }

  private write(stream: Stream, text: string): void {
    this.erase();
    if (stream.destroyed || (stream === this.stdout && this.gone.aborted)) return;
    stream.write(text);
  }

  private draw(): void {
    if (this.statusText === null) return;
    this.frame = (this.frame + 1) % frames.length;
    const text = clip(this.statusText(), (this.stderr.columns ?? 100) - 3);
    this.stderr.write(`${eraseLine}${this.paintErr('cyan', frames[this.frame] ?? '')} ${text}`);
    this.drawn = true;
  }

  private erase(): void {
    if (this.drawn) this.stderr.write(eraseLine);
    this.drawn = false;
  }
}

function painter(stream: Stream): Paint {
  const coloured = stream.isTTY === true && stream.hasColors?.() === true;
  return (colour, text) => (coloured && text !== '' ? `\x1b[${codes[colour]}m${text}\x1b[0m` : text);
}
