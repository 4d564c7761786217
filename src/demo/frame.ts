/**
 * The frame around the demo's run: what it stands on, before; and after it the report, the totals, where everything lies,
 * how to look further, and the verdict. Reads the files that the agent wrote.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename, isAbsolute, join, relative } from 'node:path';
import { explainWait } from '../cli/explain.js';
import type { Terminal } from '../cli/terminal.js';
import type { Settings } from '../config.js';
import type { RunView } from '../core/view.js';
import type { Followed } from './follow-run.js';
import { ordersCsv } from './load-orders.js';
import { demoDatabase } from './look-further.js';
import { readMaildir } from './mailbox.js';
import { endingLines, openingLines, verdictLines } from './show.js';
import type { Stage } from './stage.js';
import type { Failure } from './verify.js';
import type { DemoWorker } from './worker-child.js';

export interface FrameOptions {
  settings: Settings;
  csv?: string | undefined;
  pawlDir: string;
  terminal: Terminal;
}

export function showOpening(
  { settings, csv, pawlDir, terminal }: FrameOptions,
  { table, folder, model }: Stage,
  queueKind: 'redis' | 'postgres',
  worker: DemoWorker,
): void {
  const { smtpUrl } = settings.mail;
  const lines = openingLines(
    {
      database: `in ${near(pawlDir)}, in a database of its own (${demoDatabase})`,
      table,
      csv: csv ?? `data/${basename(ordersCsv)}`,
      queueKind,
      model,
      mail: smtpUrl === null ? `into the folder ${near(folder.mail)}` : `by SMTP, ${new URL(smtpUrl).host}`,
      worker: worker.pid,
    },
    terminal.paintOut,
  );
  for (const line of lines) terminal.out(line);
}

export async function showEnding(
  { settings, terminal }: FrameOptions,
  { folder, model }: Stage,
  { run, steps, survived }: Followed,
  failures: readonly Failure[],
): Promise<void> {
  const { paintOut } = terminal;
  const reports = await filesIn(folder.work);
  for (const file of reports) {
    terminal.out(`\n${paintOut('bold', `-- ${near(file)} --`)}\n`);
    terminal.outForeign((await readFile(file, 'utf8')).trimEnd());
  }
  if (reports.length === 0 && run.output !== null) {
    terminal.out(`\n${paintOut('bold', '-- the answer, as there is no report --')}\n`);
    terminal.outForeign(String(run.output));
  }
  // The demo's run lies in the embedded server, whatever DATABASE_URL says.
  const command = `${settings.databaseUrl === null ? '' : 'DATABASE_URL= '}npx pawl`;
  const ending = {
    ...{ run, steps, survived: survived?.length ?? null, model: model.name, scripted: model.scripted, command },
    reports: reports.map(near),
    mails: (await readMaildir(folder.mail)).map(({ file }) => near(file)),
    logs: near(folder.path),
    now: new Date(),
  };
  terminal.out('');
  for (const line of endingLines(ending, paintOut)) terminal.out(line);
  terminal.out('');
  if (run.status === 'completed') {
    for (const line of verdictLines(failures, paintOut)) terminal.out(line);
  } else sayWhyNot(terminal, run, command, failures);
}

/** The run did not complete: that is the finding, and what it left undone is no news. */
function sayWhyNot(terminal: Terminal, run: RunView, command: string, failures: readonly Failure[]): void {
  const { paintOut } = terminal;
  for (const line of verdictLines(
    failures.filter(({ check }) => check === 'run' || check === 'protocol'),
    paintOut,
  ))
    terminal.out(line);
  if (run.error !== null) terminal.outForeign(`${run.error.code}: ${run.error.message}`);
  if (run.status !== 'suspended' || run.waitingFor === null) return;
  const { what, commands } = explainWait(run, run.waitingFor);
  terminal.out(`${what}:`);
  for (const each of commands) terminal.out(`  ${each.replace(/^pawl/, command)}`);
  terminal.out(
    'The demo must not guess, so it ends here. Your answer is recorded; to see a run to its end, run the demo again.',
  );
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.'));
  return files.map((entry) => join(entry.parentPath, entry.name)).sort();
}

/** A path as seen from here, where it lies here. */
function near(path: string): string {
  const from = relative(process.cwd(), path);
  return from === '' || from.startsWith('..') || isAbsolute(from) ? path : from;
}
