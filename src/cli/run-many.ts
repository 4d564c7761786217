/**
 * `pawl run AGENT --input-file FILE.jsonl --detach`: a run a line. The whole file is checked before anything is stored;
 * then the runs are started in bulk. Interrupted, the same command goes on where it stopped, since each line has its key.
 */
import { errorCodes, PawlError } from '../core/errors.js';
import type { StartedOfMany } from '../engine/start-many.js';
import type { StartRun } from '../engine/start-run.js';
import type { Cli } from './cli.js';
import { exits, Interrupted } from './exits.js';
import { countOf, formatMs } from './format.js';
import { type Format, jsonLine, jsonText } from './output.js';
import { type RunLine, readRunLines } from './run-lines.js';
import { suggestAgent } from './suggest-agent.js';
import type { Terminal } from './terminal.js';
import { harmless } from './width.js';
import { withRuns } from './world.js';

/** Lines handed over at once; between two such chunks an interrupt is heard. */
const chunkLines = 2_000;
/** Bad lines, and refused ones, that are named. */
const namedLines = 20;
const exitOfConflict = errorCodes.key_conflict.exit;

export interface RunManyOptions {
  inputFile: string;
  output: Format;
}

interface Counts {
  started: number;
  there: number;
  refused: number;
}

export async function runMany(cli: Cli, given: StartRun, options: RunManyOptions): Promise<number> {
  const { terminal, interrupt } = cli.world;
  const { inputFile } = options;
  terminal.status(() => `checking ${inputFile}`);
  const total = await checkLines(inputFile, given);
  return withRuns(
    cli.world,
    async ({ runs }) => {
      const counts: Counts = { started: 0, there: 0, refused: 0 };
      const report = new Report(cli.world.terminal, options.output, counts);
      const begun = performance.now();
      terminal.status(() => progress(counts, total, performance.now() - begun));
      for await (const lines of inChunks(readRunLines(inputFile, given))) {
        if (interrupt.aborted || terminal.gone.aborted) throw stopped(cli, inputFile, counts, total);
        const started = await suggestAgent(runs, given.agent, () => runs.startMany(lines.map(({ run }) => run)));
        for (const [index, line] of lines.entries()) report.line(line, started[index]);
      }
      terminal.status(null);
      report.end();
      terminal.say(`${inputFile}: ${wordsOf(counts)}, in ${formatMs(performance.now() - begun)}`);
      return counts.refused > 0 ? exitOfConflict : exits.ok;
    },
    { handlesInterrupt: true },
  );
}

/** Counts the runs of the file; throws one error that names every bad line. */
async function checkLines(file: string, given: StartRun): Promise<number> {
  let total = 0;
  let bad = 0;
  let named = '';
  for await (const line of readRunLines(file, given)) {
    total += 1;
    if ('run' in line) continue;
    bad += 1;
    if (bad <= namedLines) named += `\n- line ${line.number}: ${line.fault}`;
  }
  if (bad > 0) {
    const more = bad > namedLines ? `\n- and ${bad - namedLines} more` : '';
    throw new PawlError('invalid_input', `nothing was started: ${countOf(bad, 'bad line')} in ${file}${named}${more}`);
  }
  if (total === 0) throw new PawlError('invalid_input', `${file} has no line with a run`);
  return total;
}

type GoodLine = Extract<RunLine, { run: unknown }>;

async function* inChunks(lines: AsyncIterable<RunLine>): AsyncIterable<GoodLine[]> {
  let chunk: GoodLine[] = [];
  for await (const line of lines) {
    if ('fault' in line) {
      throw new PawlError('invalid_input', `the file was changed meanwhile; line ${line.number}: ${line.fault}`);
    }
    chunk.push(line);
    if (chunk.length < chunkLines) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/** Says each line's fate in the form asked for. */
class Report {
  private readonly listed: object[] = [];

  constructor(
    private readonly terminal: Terminal,
    private readonly format: Format,
    private readonly counts: Counts,
  ) {}

  line({ number, run }: GoodLine, started: StartedOfMany | undefined): void {
    if (started === undefined) throw new PawlError('internal', `no answer for line ${number}`);
    const { id, created } = started;
    if (started.error !== null) this.refuse(number, started.error);
    else if (created) this.counts.started += 1;
    else this.counts.there += 1;
    const error = started.error && { code: started.error.code, message: started.error.message };
    const item = { line: number, id, created, key: run.key, error };
    if (this.format === 'id' && id !== null) this.terminal.out(id);
    if (this.format === 'jsonl') this.terminal.out(jsonLine(item));
    if (this.format === 'json') this.listed.push(item);
  }

  private refuse(number: number, error: PawlError): void {
    this.counts.refused += 1;
    if (this.counts.refused <= namedLines) this.terminal.say(harmless(`line ${number}: ${error.message}`));
    if (this.counts.refused === namedLines + 1) this.terminal.say('further lines are refused, too');
  }

  end(): void {
    if (this.format === 'json') this.terminal.out(jsonText({ data: this.listed, page: { next: null } }));
  }
}

function wordsOf({ started, there, refused }: Counts): string {
  const words = [`${countOf(started, 'run')} started`];
  if (there > 0) words.push(`${there.toLocaleString('en')} there already`);
  if (refused > 0) words.push(`${refused.toLocaleString('en')} refused`);
  return words.join(', ');
}

const barCells = 24;

function progress({ started, there, refused }: Counts, total: number, ms: number): string {
  const done = started + there + refused;
  const filled = Math.floor((done / total) * barCells);
  const bar = '█'.repeat(filled) + '░'.repeat(barCells - filled);
  const speed = ms > 500 && done > 0 ? `, ${Math.round((done / ms) * 1_000).toLocaleString('en')} a second` : '';
  return `${bar} ${done.toLocaleString('en')} of ${countOf(total, 'run')}${speed}`;
}

function stopped(cli: Cli, file: string, counts: Counts, total: number): Interrupted {
  const done = counts.started + counts.there + counts.refused;
  cli.world.terminal.say(
    `stopped after ${done.toLocaleString('en')} of ${countOf(total, 'run')} of ${file}; the same command goes on there and starts none twice`,
  );
  return new Interrupted();
}
