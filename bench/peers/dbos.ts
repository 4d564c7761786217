/** DBOS Transact: a workflow of steps; each step's output is recorded in Postgres before the next begins. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { inLanes, type Peer } from '../peer.js';
import type { Work } from '../work.js';

let work: Work;

const agent = DBOS.registerWorkflow(
  async (run: string, steps: number) => {
    let last = '';
    for (let step = 1; step <= steps; step++)
      last = await DBOS.runStep(() => work.perform(run, step), { name: 'step' });
    return last;
  },
  { name: 'agent' },
);

export const dbos: Peer = {
  title: 'DBOS Transact',
  packages: ['@dbos-inc/dbos-sdk'],
  how: 'a workflow of steps, as many workflows at once as the concurrency says',
  async open(setting) {
    work = setting.work;
    DBOS.setConfig({ name: 'bench', systemDatabaseUrl: setting.databaseUrl, logLevel: 'error', runAdminServer: false });
    await DBOS.launch();
    const pool = new pg.Pool({ connectionString: setting.databaseUrl, max: 1 });
    return {
      async play(runs, steps) {
        await inLanes(runs, setting.concurrency, async (run) => {
          const handle = await DBOS.startWorkflow(agent, { workflowID: run })(run, steps);
          await handle.getResult();
        });
      },
      async outputs(run) {
        const { rows } = await pool.query<{ output: string }>(
          'select output from dbos.operation_outputs where workflow_uuid = $1 order by function_id',
          [run],
        );
        return rows.map(({ output }) => {
          const parsed = JSON.parse(output) as string | { json: string };
          return typeof parsed === 'string' ? parsed : parsed.json;
        });
      },
      async recorded() {
        const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from dbos.operation_outputs');
        return rows[0]?.n ?? 0;
      },
      async close() {
        await pool.end();
        await DBOS.shutdown();
      },
    };
  },
};
