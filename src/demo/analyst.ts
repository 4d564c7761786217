/**
 * The agent of the demo: it reads a table of orders, writes a report and mails it. Nothing in it knows that the demo kills
 * its worker; the tools really act, and the model may be a real one or the scripted one.
 */
import { type Agent, defineAgent } from '../core/agent.js';
import { sendEmail } from '../tools/send-email.js';
import { sqlQuery } from '../tools/sql-query.js';
import { writeFile } from '../tools/write-file.js';

export interface AnalystOptions {
  model: string;
  /** URL of the data role, and the schema it reads. */
  databaseUrl: string;
  schema: string;
  workDir: string;
  maildir: string;
  smtpUrl?: string;
  /** Sender and recipient of the report. */
  mailFrom?: string;
  mailTo?: string;
}

export const analystTask =
  'Sum the sales of the last 7 days by day, find the best day, say what to do next, write the report and mail it.';

const instructions = (
  mailTo: string,
) => `You are a careful sales analyst. You work through your tools and never guess a number.

1. Look first: the tables you can read, their columns, and what is said of them in their comments (obj_description, col_description). The table's description says which column is the date, what the sales of a row are, and what "last 7 days" means.
2. Let the database do the sums. Ask independent questions in one turn.
3. Write the report with write_file, in Markdown, once its numbers are known: a table with one line for each of the 7 days (date as YYYY-MM-DD, sales with two decimals), the total, the best day, and what to do next, argued from the numbers.
4. Mail it with send_email to ${mailTo}: once, a short summary in the text, the report attached.
5. End with a short answer: total, best day, what to do next, and the name of the report's file.

When a tool reports an error, read it, correct the call and try again. If something cannot be done, say so in the answer.`;

export function analyst(options: AnalystOptions): Agent {
  const { model, databaseUrl, schema, workDir, maildir, smtpUrl } = options;
  const { mailFrom = 'analyst@pawl.example', mailTo = 'owner@pawl.example' } = options;
  return defineAgent({
    name: 'analyst',
    model,
    instructions: instructions(mailTo),
    tools: [
      sqlQuery({ databaseUrl, schema }),
      writeFile({ dir: workDir }),
      sendEmail({
        from: mailFrom,
        maildir,
        ...(smtpUrl === undefined ? {} : { smtpUrl }),
        attachmentsDir: workDir,
        mayMail: (address) => address === mailTo,
      }),
    ],
    limits: { maxSteps: 40, maxTurns: 20 },
  });
}
