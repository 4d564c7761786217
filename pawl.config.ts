/**
 * The agents of this clone, as `npx pawl dev` and `npx pawl worker` run them: an analyst of the orders in data/orders.csv, and
 * a tagger of texts. A config of your own looks the same, in any folder. What the tools write lies in .pawl/files.
 *
 *   npx pawl run analyst "Which day of the last week was the best, and why? Write a report and mail it."
 *   npx pawl run tagger --input-file README.md
 */
import { access, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { defineAgent, defineConfig, defineTool, notStarted } from 'pawl';
import { z } from 'zod';

const orders = new URL('./data/orders.csv', import.meta.url);
const files = new URL('./.pawl/files/', import.meta.url);

/** The rows of a CSV by the names in its first line. */
function readRows(csv: string): Record<string, string>[] {
  const cell = /(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g;
  const [names = [], ...rows] = csv
    .trim()
    .split('\n')
    .map((line) => [...line.matchAll(cell)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? ''));
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? ''])));
}

const salesByDay = defineTool({
  name: 'sales_by_day',
  description:
    'Sales of each of the last days in the data, the newest day first. One group (a region, channel, category or product) or all.',
  effect: 'none', // it only reads: safe to repeat
  input: z.object({
    days: z.number().int().min(1).max(31),
    column: z.enum(['region', 'channel', 'category', 'product']).optional().describe('Of the group'),
    group: z.string().optional().describe('Only orders whose column has this value'),
  }),
  maxOutputChars: 8_000,
  execute: async ({ days, column, group }) => {
    const rows = readRows(await readFile(orders, 'utf8'));
    const groups = column === undefined ? [] : [...new Set(rows.map((row) => row[column]))];
    const sales = new Map<string, number>();
    for (const { ordered_at: day = '', amount, ...row } of rows) {
      const wanted = column === undefined || group === undefined || row[column] === group;
      sales.set(day, (sales.get(day) ?? 0) + (wanted ? Number(amount) : 0));
    }
    const newest = [...sales].sort(([a], [b]) => b.localeCompare(a)).slice(0, days);
    return { groups, sales: newest.map(([day, sum]) => ({ day, sales: sum.toFixed(2) })) };
  },
});

const fileName = z.string().regex(/^[a-z0-9-]{1,60}\.md$/, 'must be like "report-2026-06-28.md"');

const writeReport = defineTool({
  name: 'write_report',
  description: 'Writes a report in Markdown; a report of the same name is replaced',
  effect: 'idempotent', // writing the same again changes nothing
  input: z.object({ name: fileName, markdown: z.string() }),
  execute: async ({ name, markdown }, { idempotencyKey }) => {
    await mkdir(files, { recursive: true });
    const draft = new URL(`${idempotencyKey}.draft`, files);
    await writeFile(draft, markdown);
    await rename(draft, new URL(name, files)); // whole or not at all
    return { written: name };
  },
});

/** Stands for a mail service: a mail is a file, and has left as soon as that file exists. */
const outbox = (key: string) => new URL(`mail-${key}.json`, files);

const mailReport = defineTool({
  name: 'mail_report',
  description: 'Mails a report that was written to the team, once',
  effect: 'once', // a mail cannot be taken back: a call that was cut short is never repeated
  input: z.object({ subject: z.string().max(200), text: z.string(), attach: fileName }),
  execute: async (mail, { idempotencyKey }) => {
    // What fails before anything was sent says so, and the model may try again.
    if (!(await exists(new URL(mail.attach, files)))) throw notStarted(`there is no report ${mail.attach}`);
    await writeFile(outbox(idempotencyKey), JSON.stringify(mail), { flag: 'wx' });
    return 'mailed';
  },
  // After a crash in the middle of the call: look whether it happened, else ask a person.
  onUnknown: async ({ context }) => ((await exists(outbox(context.idempotencyKey))) ? { done: 'mailed' } : 'ask'),
});

function exists(file: URL): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

export default defineConfig({
  agents: [
    defineAgent({
      name: 'analyst',
      // No model is named: OPENAI_MODEL says it, or gpt-4o-mini.
      instructions:
        'You are a sales analyst. Take every number from your tools and guess none. Look at the days, then at the groups ' +
        'that explain them. Write one report with a line for each day, the best day and what to do next, mail it once, ' +
        'and end with a short summary.',
      tools: [salesByDay, writeReport, mailReport],
      limits: { maxSteps: 40, deadlineMs: 3_600_000, onLimit: 'finish' },
    }),
    defineAgent({
      name: 'tagger',
      instructions: 'Say what the text you are given is about, in one to five tags of one or two words each.',
      output: z.object({ tags: z.array(z.string()).min(1).max(5), language: z.string().describe('ISO 639-1') }),
      limits: { maxTurns: 4 },
    }),
  ],
});
