/**
 * A model that is a few rules: it answers an analyst's requests the way a language model would, from what stands in the
 * messages and nothing else. It finds its columns in the table's description, corrects itself a bounded number of times
 * when a tool reports an error, and says so when it could not finish. Pure: the same messages, the same reply.
 */
import type { ScriptedAnswer, ScriptedRequest } from '../testing/script.js';
import { type DoneCall, readCalls } from './chat.js';
import { type Findings, money, type Summary, summarise, weekdayOf, writeReport } from './sales-report.js';
import { daysQuery, groupsQuery, type Purpose, purposeOf, readRows, readTable, tablesQuery } from './sales-sql.js';

type Offer = (name: string, made: number) => boolean;

const tries = 3;

export function answerRequest(request: Pick<ScriptedRequest, 'system' | 'messages' | 'tools'>): ScriptedAnswer {
  const calls = readCalls(request.messages);
  const offered = new Set(request.tools.map((tool) => tool.name));
  const may: Offer = (name, made) => offered.has(name) && made < tries;

  const tables = answersTo(calls, 'tables');
  const table = readTable(tables.rows ?? []);
  if (table === null) {
    if (tables.rows === null && may('sql_query', tables.made)) {
      return query('I look at the tables first.', tablesQuery(tables.made));
    }
    return giveUp('I found no table with dates and sales', tables.last);
  }

  const days = answersTo(calls, 'days');
  const groups = answersTo(calls, 'groups');
  const questions: string[] = [];
  if (days.rows === null && may('sql_query', days.made)) questions.push(daysQuery(table));
  if (groups.rows === null && table.group !== null && groups.made < 2 && may('sql_query', groups.made)) {
    questions.push(groupsQuery(table, table.group));
  }
  if (questions.length > 0) return query('Now the sums.', ...questions);
  if (days.rows === null || days.rows.length === 0) return giveUp('I could not sum the sales', days.last);

  const findings: Findings = {
    table: table.table,
    days: days.rows.map((row) => ({ day: String(row.day), sales: Number(row.sales), rows: Number(row.rows) })),
    groupedBy: table.group,
    groups: (groups.rows ?? []).map((row) => ({
      name: String(row.name ?? 'nothing named'),
      thisWeek: Number(row.this_week),
      weekBefore: Number(row.week_before),
    })),
  };
  return act(request, calls, findings, may);
}

/** Writes, mails and answers, once the numbers are there. */
function act(
  request: Pick<ScriptedRequest, 'system' | 'messages'>,
  calls: DoneCall[],
  findings: Findings,
  may: Offer,
): ScriptedAnswer {
  const summary = summarise(findings);
  const writes = calls.filter(({ name }) => name === 'write_file');
  const written = writes.find(({ ok }) => ok);
  if (!written && may('write_file', writes.length)) {
    const path = writes.length === 0 ? `sales-${summary.to}.md` : `report-${writes.length}.md`;
    return use('The numbers are there: I write the report.', 'write_file', {
      path,
      content: writeReport(findings, summary),
    });
  }
  const path = written ? String(written.args.path) : null;
  const mails = calls.filter(({ name }) => name === 'send_email');
  const certain = mails.every(({ result }) => /could not start|was not called|was refused permission/.test(result));
  if (certain && may('send_email', mails.length)) {
    // A second try goes without the attachment, the likeliest reason that the first could not start.
    const attachments = path !== null && mails.length === 0 ? [path] : [];
    return use('Now I mail it.', 'send_email', {
      to: [recipient(request)],
      subject: `Sales ${summary.from} to ${summary.to}: best day ${summary.best.day}`,
      text: answer(summary),
      attachments,
    });
  }
  const mailed = mails.some(({ ok }) => ok);
  const closing = [
    path === null ? 'The report could not be written.' : `The report is ${path}.`,
    mailed
      ? 'It was mailed.'
      : `It was not mailed, as far as I know${mails.length > 0 ? `: ${mails.at(-1)?.result}` : '.'}`,
  ];
  return { text: `${answer(summary)}\n\n${closing.join(' ')}` };
}

function answer({ from, to, total, best, advice }: Summary): string {
  const next = advice.map((line) => `- ${line}`).join('\n');
  return `Sales from ${from} to ${to}: ${money(total)}. The best day was ${weekdayOf(best.day)}, ${best.day}, with ${money(best.sales)}.\n\nWhat to do next:\n${next}`;
}

function answersTo(calls: DoneCall[], purpose: Purpose) {
  const made = calls.filter(({ name, args }) => name === 'sql_query' && purposeOf(args.query) === purpose);
  const good = made.map(({ ok, value }) => (ok ? readRows(value) : null)).find((rows) => rows !== null);
  return { made: made.length, rows: good ?? null, last: made.at(-1)?.result };
}

const use = (text: string, name: string, args: Record<string, unknown>): ScriptedAnswer => ({
  text,
  calls: [{ name, arguments: args }],
});
const query = (text: string, ...queries: string[]): ScriptedAnswer => ({
  text,
  calls: queries.map((sql) => ({ name: 'sql_query', arguments: { query: sql } })),
});
const giveUp = (what: string, last: string | undefined): ScriptedAnswer => ({
  text: last === undefined ? `${what}.` : `${what}. The last answer was: ${last}`,
});

/** The address that the instructions or the task name. */
function recipient({ system, messages }: Pick<ScriptedRequest, 'system' | 'messages'>): string {
  const said = [system, ...messages.flatMap((message) => (message.role === 'user' ? [message.content] : []))];
  return /[\w.+-]+@[\w-]+(\.[\w-]+)+/.exec(said.join('\n'))?.[0] ?? 'owner@pawl.example';
}
