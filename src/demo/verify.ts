/**
 * The demo checks itself: every step recorded once, the report's numbers those of the database, the mail delivered once.
 * It believes nothing the agent says of itself; it reads the rows, the files and the mailbox, and asks the database again.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { StepView } from '../core/view.js';
import type { Reads } from '../ports.js';
import { runSqlQuery } from '../tools/sql-query.js';
import { quoteName } from './columns.js';
import type { LoadedTable } from './load-orders.js';
import { readMaildir } from './mailbox.js';
import { saysDay, saysNumber } from './report-numbers.js';

export interface Evidence {
  reads: Pick<Reads, 'run' | 'steps' | 'events'>;
  runId: string;
  table: LoadedTable;
  /** URL of the data role. */
  databaseUrl: string;
  workDir: string;
  /** Null when mail went to an SMTP server: then the steps alone are judged. */
  maildir: string | null;
}

type Check = 'run' | 'steps' | 'report' | 'mail';

export interface Failure {
  /** `crash`: the demo's own part; `protocol`: what the scripted model objects to. */
  check: Check | 'crash' | 'protocol';
  problem: string;
}

/** What is wrong, by name; empty when everything is as it should be. */
export async function verifyDemo(evidence: Evidence): Promise<Failure[]> {
  const steps = await evidence.reads.steps(evidence.runId);
  const found: Record<Check, string[]> = {
    run: await checkRun(evidence),
    steps: await checkSteps(evidence, steps),
    report: await checkReport(evidence),
    mail: await checkMail(evidence, steps),
  };
  return (Object.keys(found) as Check[]).flatMap((check) => found[check].map((problem) => ({ check, problem })));
}

async function checkRun({ reads, runId }: Evidence): Promise<string[]> {
  const run = await reads.run(runId);
  if (run === null) return [`there is no run ${runId}`];
  if (run.status === 'completed' && run.reason === null) return [];
  const why = run.reason ?? run.waitingFor?.kind;
  return [`the run is ${run.status}${why === undefined ? '' : ` (${why})`}, not simply completed`];
}

async function checkSteps({ reads, runId }: Evidence, steps: readonly StepView[]): Promise<string[]> {
  const problems: string[] = [];
  const recorded = new Map<number, number>();
  for (let after = 0; ; ) {
    const events = await reads.events(runId, after, 1_000);
    for (const { type, seq } of events) {
      if (type === 'step.completed' && seq !== null) recorded.set(seq, (recorded.get(seq) ?? 0) + 1);
    }
    const last = events.at(-1)?.id;
    if (last === undefined) break;
    after = last;
  }
  const seqs = steps.map(({ seq }) => seq).sort((a, b) => a - b);
  if (seqs.length === 0) problems.push('no step was recorded');
  if (seqs.some((seq, i) => seq !== i + 1))
    problems.push(`the steps are numbered ${seqs.join(', ')}, not 1 to ${seqs.length}`);
  for (const { seq, kind, name, status } of steps) {
    const times = recorded.get(seq) ?? 0;
    if (status !== 'completed') problems.push(`step ${seq} (${kind} ${name}) is ${status}`);
    else if (times !== 1) problems.push(`step ${seq} (${kind} ${name}) was recorded ${times} times`);
  }
  return problems;
}

async function checkReport({ table, databaseUrl, workDir }: Evidence): Promise<string[]> {
  const { columns, rows } = await runSqlQuery(
    `select day::text, sum(sales)::numeric::text as sales, sum(sum(sales)) over ()::numeric::text as total
     from (select ${quoteName(table.date)}::date as day, ${table.sales} as sales
           from ${quoteName(table.schema)}.${quoteName(table.table)}) as sold
     where day between '${table.sinceDay}' and '${table.lastDay}' group by day order by day`,
    { databaseUrl, schema: table.schema },
  );
  if (columns.length !== 3 || rows.length === 0) return ['the database has no sales in the last 7 days'];
  const days = rows.map(([day, sales]) => ({ day: String(day), sales: String(sales ?? 0) }));
  const reports = await readReports(workDir);
  if (reports.length === 0) return [`no report was written to ${workDir}`];
  const judged = reports.map(({ name, text }) => judgeReport(name, text, days, String(rows[0]?.[2])));
  return judged.reduce((least, problems) => (problems.length < least.length ? problems : least));
}

const bestWords = /best|highest|strongest|peak|top|最好|最佳|最高/i;
const adviceWords = /next|recommend|suggest|advice|action|should|下一步|建议/i;

function judgeReport(name: string, text: string, days: { day: string; sales: string }[], total: string): string[] {
  const problems: string[] = [];
  const lines = text.split('\n');
  for (const { day, sales } of days) {
    if (!lines.some((line) => saysDay(line, day) && saysNumber(line, sales))) {
      problems.push(`${name} does not say that ${day} sold ${sales}`);
    }
  }
  if (!saysNumber(text, total)) problems.push(`${name} does not say the total, ${total}`);
  const most = Math.max(...days.map(({ sales }) => Number(sales)));
  const best = days.filter(({ sales }) => Number(sales) === most);
  const saysBest = (line: string) =>
    bestWords.test(line) && best.some(({ day, sales }) => saysDay(line, day) || saysNumber(line, sales));
  const joined = lines.map((line, i) => `${line} ${lines[i + 1] ?? ''}`);
  if (!joined.some(saysBest))
    problems.push(`${name} does not name the best day, ${best.map(({ day }) => day).join(' or ')}`);
  if (!adviceWords.test(text)) problems.push(`${name} does not say what to do next`);
  return problems;
}

async function readReports(workDir: string): Promise<{ name: string; text: string }[]> {
  const entries = await readdir(workDir, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile() && /\.(md|markdown|txt)$/i.test(entry.name));
  return Promise.all(
    files.map(async (entry) => ({
      name: entry.name,
      text: await readFile(join(entry.parentPath, entry.name), 'utf8'),
    })),
  );
}

async function checkMail({ maildir, table }: Evidence, steps: readonly StepView[]): Promise<string[]> {
  const sent = steps.filter(
    ({ name, status, output }) => name === 'send_email' && status === 'completed' && messageIdIn(output),
  );
  if (sent.length !== 1) return [`send_email recorded ${sent.length} mails as sent, not 1`];
  if (maildir === null) return [];
  const mails = await readMaildir(maildir);
  if (mails.length !== 1) return [`${mails.length} mails were delivered to ${maildir}, not 1`];
  const problems: string[] = [];
  const [mail] = mails;
  if (mail?.messageId !== messageIdIn(sent[0]?.output)) problems.push('the mail delivered is not the one recorded');
  if (!saysDay(mail?.text ?? '', table.lastDay))
    problems.push(`the mail says nothing of the days up to ${table.lastDay}`);
  return problems;
}

/** The Message-ID in a send_email step's output, as an object or as its text. */
function messageIdIn(output: unknown): string | null {
  const text = typeof output === 'string' ? output : JSON.stringify(output ?? null);
  return /"messageId":\s*"(<[^"]+>)"/.exec(text)?.[1] ?? null;
}
