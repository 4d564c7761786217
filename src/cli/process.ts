/**
 * The process around a command line: its streams, its signals and its end. The first Ctrl-C, SIGTERM or hang-up asks the
 * command to end in good order, the second one ends the process where it stands. Next: program.ts.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { Interrupted } from './exits.js';
import { runCli } from './program.js';
import { realServices } from './services.js';
import { Terminal } from './terminal.js';

/** Under `npm run` one Ctrl-C arrives twice: from the terminal, and handed on by npm. */
const sameSignalMs = 300;
/** An end in good order that takes longer than this is worth a word. */
const slowEndMs = 1_500;
const endedBySignal = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Carries out a command line as a process of its own, and ends it with the exit status. */
export async function runProcess(argv: readonly string[]): Promise<never> {
  const terminal = new Terminal(process.stdout, process.stderr);
  const interrupt = listen(terminal);
  const exit = await runCli(argv, {
    terminal,
    services: realServices(terminal),
    interrupt,
    readStdin: () => readStdin(interrupt),
    confirm: (question) => confirm(terminal, interrupt, question),
    now: () => new Date(),
    refreshMs: 1_000,
    patienceMs: 4_000,
  });
  await terminal.flush();
  process.exit(exit);
}

function listen(terminal: Terminal): AbortSignal {
  const interrupt = new AbortController();
  let firstAt = 0;
  for (const [signal, exit] of Object.entries(endedBySignal)) {
    process.on(signal, () => {
      if (interrupt.signal.aborted) {
        if (performance.now() - firstAt > sameSignalMs) process.exit(exit);
        return;
      }
      firstAt = performance.now();
      interrupt.abort();
      setTimeout(() => terminal.say('ending in good order; Ctrl-C ends it at once'), slowEndMs).unref();
    });
  }
  return interrupt.signal;
}

async function readStdin(interrupt: AbortSignal): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const stop = (): void => void process.stdin.destroy();
  interrupt.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  } catch (error) {
    if (!interrupt.aborted) throw error;
  }
  if (interrupt.aborted) throw new Interrupted();
  return Buffer.concat(chunks);
}

async function confirm(terminal: Terminal, interrupt: AbortSignal, question: string): Promise<boolean | null> {
  if (process.stdin.isTTY !== true || !terminal.hearsMessages) return null;
  // Not as a terminal of readline's own, which would keep Ctrl-C to itself.
  const lines = createInterface({ input: process.stdin, terminal: false });
  try {
    terminal.ask(question);
    const ended = once(lines, 'close').then(() => ''); // Ctrl-D
    const answer = await Promise.race([lines.question('', { signal: interrupt }), ended]);
    return /^(y|yes)$/i.test(answer.trim());
  } catch {
    terminal.say('');
    throw new Interrupted();
  } finally {
    lines.close();
  }
}
