/**
 * Plays the README's example in a process of its own, since its files are loaded as a user's are: the config with the
 * agent, then the service that starts a run of it, with a worker in between whose model is scripted. Prints what came of it
 * as JSON. Arguments: the folder of the two files. Run by readme.test.ts.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openClient, startWorkerProcess } from '../../src/app.js';
import { loadConfigFile } from '../../src/config-file.js';
import '../../src/index.js'; // as the command line does: what a config imports is there before its loader
import { type ScriptedReply, scriptedLlm } from '../../src/testing/index.js';
import { quietLog } from '../support/quiet-log.js';

const [folder = ''] = process.argv.slice(2);
const services = { databaseUrl: process.env.DATABASE_URL ?? '', redisUrl: null, log: quietLog };
const { agents } = await loadConfigFile(join(folder, 'pawl.config.ts'), { defaultModel: 'scripted' });

const asks = (name: string, given: Record<string, unknown>): ScriptedReply => ({ calls: [{ name, arguments: given }] });
const script = [asks('sales_by_day', { days: 7 }), asks('mail_report', { subject: 'Sales', text: 'Fine.' }), 'Mailed.'];
const llm = scriptedLlm(({ messages }) => script[messages.filter(({ role }) => role === 'tool').length] ?? 'Mailed.');
const times = { heartbeatMs: 200, deathMs: 2_000 };
const worker = await startWorkerProcess({
  ...{ ...services, ...times, role: 'all', agents, llm, concurrency: 2, queues: null },
});
await import(pathToFileURL(join(folder, 'service.ts')).href);
const client = await openClient(services);
const [run] = (await client.runs.list()).data;
await client.close();
await worker.stop(5_000);
process.stdout.write(`\n${JSON.stringify(run)}\n`);
process.exit(0);
